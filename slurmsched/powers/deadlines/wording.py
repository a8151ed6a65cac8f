"""Explanations of promises: what was answered to a request, by when its job must start, and what became of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...cluster.plan import Plan
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ...decide.phrasing import spell
from ...decide.rules import Rules
from ...decide.unshown_nodes import unshown_nodes


def promise_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield the sentences of ``why`` and ``explain`` about the promise of a job; none if it has no answer."""
    place = plan.promises.last_of(job_id, view.first_submit_s(job_id))
    if place is not None:
        yield from sentences(plan.promises, place, view)
        yield from _solver_words(view, plan, place)
        if plan.promises.open[place] and view.pending.row_of(job_id) is not None:
            yield f"'slurmsched deadline {job_id} --chart' draws the plan behind that."
    elif rules.deadlines is not None and not rules.deadlines.answers and _asks(view, job_id):
        yield "Its deadline is answered after this block of a trial, which is without the policy."


def promise_in_brief(view: View, plan: Plan, job_id: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a pending job's owner has to expect of its deadline, and what else could be asked for.

    Nothing where its deadline has no answer.
    """
    place = plan.promises.last_of(job_id, view.first_submit_s(job_id))
    if place is None:
        return (), ()
    table, now_s = plan.promises, view.now_s
    state = state_word(table, place)
    if state == "refused":
        caveat = ": nodes that are not shown are not counted" if _unshown(table, place, view) else ""
        refused = f"No end by its deadline {_when(table.deadline_s[place], now_s)} is promised{caveat}."
        return (refused,), tuple(_offer(table, place))
    if table.open[place]:
        doubt = ", which by the current forecast may be broken" if state == "in doubt" else ""
        return (f"Its end is promised {_when(table.promised_s[place], now_s)}{doubt}.",), ()
    return tuple(sentences(table, place, view)), ()


def _asks(view: View, job_id: int) -> bool:
    row = view.pending.row_of(job_id)
    return row is not None and math.isfinite(view.pending.deadline_s[row])


def _solver_words(view: View, plan: Plan, place: int) -> Iterator[str]:
    """Yield a sentence about a promise whose place the solver found; none while the schedule needs no solver."""
    start_s = float(view.solved.of(plan.promises.job_id[[place]])[0])
    if plan.solved and plan.promises.open[place] and math.isfinite(start_s):
        yield f"Beside the other promises it has a place by the solver's plan, from {_when(start_s, view.now_s)}."


def state_word(table: PromiseTable, place: int) -> str:
    """Return the state of a promise in the words of ``slurmsched deadline``."""
    state = PromiseState(int(table.state[place]))
    if state is PromiseState.OPEN:
        return "in doubt" if math.isfinite(table.announced_s[place]) else "promised"
    return state.name.lower()


def sentences(table: PromiseTable, place: int, view: View) -> Iterator[str]:
    """Yield what was promised to a job, or offered instead, and what became of it.

    Where nodes of a pending job are not shown, a refusal says that these were not counted.
    """
    now_s = view.now_s
    state, until_s = state_word(table, place), float(table.promised_s[place])
    reason = table.reason[place]
    if state == "refused":
        unshown = _unshown(table, place, view)
        if unshown:
            yield f"{unshown} No promise counts on them."
        yield f"No promise for its deadline {_when(table.deadline_s[place], now_s)}: {reason}."
        yield from _offer(table, place)
        return
    step = "" if table.worth[place] == 1 else f" (a later step of its deadline, worth {table.worth[place]:.0%})"
    within = f"within {spell(until_s - table.first_submit_s[place])} of its first submission"
    if state == "met":
        yield f"It was promised to end {within}{step}, and did."
    elif state in ("broken", "withdrawn", "lost"):
        announced_s = float(table.announced_s[place])
        notice = f"; its owner was warned {spell(until_s - announced_s)} before" if announced_s < until_s else ""
        yield f"The promise to end {within}{step} was {state}: {reason}{notice}."
    else:
        yield f"It is promised to end {_when(until_s, now_s)}{step}, and counts as {spell(table.needs_s[place])}."
        if math.isfinite(table.start_by_s[place]):
            late = "should have started already" if table.start_by_s[place] <= now_s else "must start"
            yield f"It {late} {_when(table.start_by_s[place], now_s)}, unless it starts sooner by itself."
        if state == "in doubt":
            yield "By the current forecast that promise may be broken."


def _unshown(table: PromiseTable, place: int, view: View) -> str:
    """Return which nodes of a pending job are not shown; empty where all are."""
    row = view.pending.row_of(int(table.job_id[place]))
    words = {} if row is None else unshown_nodes(view.take(np.array([row])))
    return words[0][0] if words else ""


def _offer(table: PromiseTable, place: int) -> Iterator[str]:
    """Yield the earliest deadline that could have been promised instead."""
    earliest_s = float(table.earliest_s[place])
    if math.isfinite(earliest_s):
        minutes = math.ceil((earliest_s - table.first_submit_s[place]) / 60) + 1
        yield (
            f"The earliest end that could be promised when it asked was {spell(earliest_s - table.asked_s[place])} "
            f"later: deadline=+{minutes}m instead asks for that."
        )


def _when(at_s: float, now_s: float) -> str:
    ahead_s = float(at_s) - now_s
    return f"in {spell(ahead_s)}" if ahead_s >= 0 else f"{spell(-ahead_s)} ago"
