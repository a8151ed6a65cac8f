"""Trials of the policy in a report and on a terminal; they are in their JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..cluster.text.plural import count
from ..pages.formats import amount, duration, moment, percent
from .sheet import Answer, Sheet

_ENDINGS = {"over": "it is over", "stopped": "an admin stopped it", "harm": "it ended by harm"}


def trial_title(trial: Answer) -> str:
    """Return the heading of a trial."""
    return f"Trial of the policy from {moment(trial['started_s'])}"


def trial_words(trial: Answer) -> str:
    """Return in sentences what a trial is, how it ended, and what it found."""
    head = (
        f"{trial['blocks']} blocks of {duration(trial['block_s'])}, half of them with the policy, drawn at random"
        + (f" (seed {trial['seed']})" if trial["seed"] is not None else "")
        + f"; the first {duration(trial['washout_s'])} of each are left out."
    )
    return " ".join(filter(None, (head, _state(trial), _pairs(trial), _found(trial), _holdout(trial))))


def trial_sheets(trials: Sequence[Answer]) -> Iterator[Sheet]:
    """Yield the effects of each trial as a table."""
    columns = ("account", "jobs that came", "mean wait without it", "change with it", "interval of 95 %")
    note = (
        "The mean wait of jobs in blocks with the policy less that in blocks without it: negative is shorter. The "
        "interval is Student's, over pairs of blocks."
    )
    for number, trial in enumerate(trials):
        rows = [_row(one["account"] or "all", one) for one in trial["effects"]]
        rows += [_row("held out, beside others in blocks with it", one) for one in trial["held_out"]]
        yield Sheet(f"trial-{number}", trial_title(trial), note, columns, rows)


def _row(name: str, one: Answer) -> list[str]:
    known = one["low_s"] is not None
    span = f"{duration(one['low_s'])} to {duration(one['high_s'])}" if known else "–"
    return [name, amount(one["jobs"]), duration(one["wait_s"]), duration(one["change_s"]), span]


def _state(trial: Answer) -> str:
    if trial["ending"]:
        off = " The policy stays off until 'slurmsched trial stop'." if trial["keeps_off"] else ""
        detail = f": {trial['detail']}" if trial["detail"] else ""
        return f"On {moment(trial['ended_s'])} {_ENDINGS[trial['ending']]}{detail}.{off}"
    if trial["block"] is None:
        return f"Its last block ended on {moment(trial['until_s'])}."
    what = "with" if trial["acts"] else "without"
    return f"Now block {trial['block'] + 1}, {what} the policy, until {moment(trial['block_until_s'])}."


def _pairs(trial: Answer) -> str:
    lost = f", {trial['left_out']} left out: no daemon acted in a good part of them" if trial["left_out"] else ""
    return f"{count(trial['pairs'], 'pair')} of blocks {'counts' if trial['pairs'] == 1 else 'count'}{lost}."


def _found(trial: Answer) -> str:
    every = next(iter(trial["effects"]), None)
    if every is None or every["low_s"] is None:
        return "An interval needs three pairs and 20 jobs."
    word = "longer" if every["change_s"] > 0 else "shorter"
    sure = "" if every["low_s"] > 0 or every["high_s"] < 0 else ", which may be chance"
    return (
        f"Jobs wait {duration(abs(every['change_s']))} {word} with the policy "
        f"({duration(every['low_s'])} to {duration(every['high_s'])}){sure}."
    )


def _holdout(trial: Answer) -> str:
    return f"{percent(trial['holdout'])} of jobs are held out." if trial["holdout"] else ""
