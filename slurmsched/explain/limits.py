"""Explanations of limits: which one blocks a job, whose it is, what is used, by which jobs, until when. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.jobs import JobTable
from ..cluster.limits import (
    ACCOUNT,
    ARRAY,
    EACH_ACCOUNT,
    GROUP,
    JOB,
    LEAST,
    LICENCE,
    NODE,
    OF_ONE_JOB,
    QOS,
    USER,
    LimitTable,
    SharedLimit,
    limits_of,
)
from ..cluster.reasons import Ends, Reason
from ..cluster.state import View
from ..cluster.text.plural import count
from ..cluster.ties import in_ms
from ..decide.phrasing import HIDDEN, spell
from ..decide.request_words import memory_words

SHOWN = 3  #: jobs that a sentence names

_FOR = {
    GROUP: " to all jobs together",
    USER: " to one user",
    EACH_ACCOUNT: " to one account",
    JOB: " for one job",
    NODE: " on one node",
    LEAST: "",
}


@dataclass(frozen=True)
class LimitWords:
    """A limit in words: the sentence, what can be done, and the ids of the jobs that hold it."""

    reason: str
    advice: str
    blockers: tuple[int, ...] = ()


def limit_words(view: View, row: int, reason: Reason) -> LimitWords | None:
    """Describe the limit that Slurm's *reason* names for a pending *row*; None where its amount is not known."""
    if reason.limit is None:
        return None
    found = _named_limits(view, row, reason)
    if not found:
        return None
    full = [limit for limit in found if _partly_hidden(view, limit) or _blocks(view, row, limit)]
    return _words(view, row, (full or found)[0], bool(full))


def beyond_limit(view: View, row: int, reason: Reason) -> str | None:
    """Describe the limit that Slurm's *reason* names if no end of other jobs helps: the job alone is beyond it."""
    if reason.limit is None:
        return None
    alone = [limit for limit in _named_limits(view, row, reason) if _beyond(view, row, limit)]
    if alone:
        return _beyond_words(view, row, alone[0])
    return f"{reason.clause} ({reason.word})" if reason.limit.ends is Ends.NEVER else None


def limits_of_itself(
    limits: LimitTable, jobs: JobTable, row: int, more_qos: Collection[str], *, timed: bool
) -> Iterator[str]:
    """Yield the limits of one job, or of its nodes, that a new job in *row* is beyond, with what it asks for.

    *more_qos* are those of its partitions. A job that is not *timed* has no time limit of its own: Slurm gives it the
    longest one that it may have. Which QOS' limit counts where several have one is not decided here, nor how
    Slurm spreads the job over its nodes, so that Slurm may start it all the same.
    """
    nodes = max(int(jobs.nodes[row]), 1)
    for limit in limits_of(limits, jobs, row, more_qos):
        asked = float(limit.amount(jobs)[row]) / (nodes if limit.counts == NODE else 1)
        beyond = asked < limit.most if limit.counts == LEAST else asked > limit.most
        if limit.counts in OF_ONE_JOB and beyond and (timed or limit.resource != "wall"):
            verb = "requires" if limit.counts == LEAST else "allows"
            words = f"{verb} {_amount(limit, limit.most)}{_FOR[limit.counts]}, it asks for {_amount(limit, asked)}"
            yield f"{_owner(limit)}, which {words}"


def _named_limits(view: View, row: int, reason: Reason) -> list[SharedLimit]:
    return [
        limit
        for limit in limits_of(view.limits, view.pending, row)
        if reason.limit is not None and limit.is_named_by(reason.limit)
    ]


def _beyond(view: View, row: int, limit: SharedLimit) -> bool:
    """Report whether the job in *row* asks for more than the limit allows to all, or for less than it requires."""
    asked = float(limit.amount(view.pending)[row])
    return asked < limit.most if limit.counts == LEAST else asked > limit.most


def _beyond_words(view: View, row: int, limit: SharedLimit) -> str:
    asked = _amount(limit, float(limit.amount(view.pending)[row]))
    if limit.resource == "jobs":
        return f"{_owner(limit)} allows no running job{_FOR[limit.counts]}"
    verb, least = ("requires", " at least") if limit.counts == LEAST else ("allows", "")
    whom = " for one job" if limit.counts == LEAST else _FOR[limit.counts]
    return f"it asks for {asked}, and {_owner(limit)} {verb} {_amount(limit, limit.most)}{least}{whom}"


def _blocks(view: View, row: int, limit: SharedLimit) -> bool:
    asked = float(limit.amount(view.pending)[row])
    if limit.counts in OF_ONE_JOB:
        return asked < limit.most if limit.counts == LEAST else asked > limit.most
    return _used(view, limit) + asked > limit.most


def _partly_hidden(view: View, limit: SharedLimit) -> bool:
    """Report whether jobs may count for a limit of an account whose accounts the reader of *view* may not see."""
    return bool(limit.members or limit.account) and not limit.user and HIDDEN in view.running.account.names


def _used(view: View, limit: SharedLimit) -> float:
    return float(limit.amount(view.running)[limit.counted(view.running)].sum())


def _words(view: View, row: int, limit: SharedLimit, blocks: bool) -> LimitWords:
    jobs = view.pending
    job, asked = int(jobs.job_id[row]), _amount(limit, float(limit.amount(jobs)[row]))
    if limit.counts in OF_ONE_JOB or (_beyond(view, row, limit) and limit.whose in (QOS, ACCOUNT)):
        why = _beyond_words(view, row, limit)
        return LimitWords(
            f"{why[:1].upper()}{why[1:]}: it cannot start so.",
            f"Change its request with 'scontrol update jobid={job} ...', {_elsewhere(limit, job)}",
        )
    used = _used(view, limit)
    holders = _holders(view, limit)
    alone = limit.whose in (ARRAY, LICENCE) or (limit.whose == ACCOUNT and limit.user)
    to_whom = "" if alone else _FOR[limit.counts]
    verb = "has" if limit.whose == LICENCE else "allows"
    rule = f"{_owner(limit)} {verb} {_amount(limit, limit.most)}{to_whom}"
    rule = rule[:1].upper() + rule[1:]
    if not blocks:
        return LimitWords(
            f"{rule}, of which {_amount(limit, used)} {_is_are(used)} in use now: Slurm has not looked at it again.",
            "Nothing is needed.",
        )
    use = f"{_amount(limit, used)} {_is_are(used)} in use, and it asks for {asked}"
    if limit.resource == "jobs":
        use = f"{used:.0f} run{'s' if used == 1 else ''}"
    if _partly_hidden(view, limit):
        use = f"running jobs use that up, yours {_amount(limit, used)} of it"
    text = f"{rule} at once; {use}"
    named = [int(view.running.job_id[one]) for one in holders if view.running.user[one] != HIDDEN]
    return LimitWords(
        f"{text}. {' '.join(_held_by(view, holders, named))}".strip(),
        _advice(limit, job),
        tuple(named),
    )


def _owner(limit: SharedLimit) -> str:
    if limit.whose == QOS:
        return f"its QOS ({limit.name})"
    if limit.whose == ACCOUNT:
        return f"its account ({limit.name})" + (f" of {limit.user}" if limit.user else "")
    return "its array" if limit.whose == ARRAY else "the site"


def _amount(limit: SharedLimit, amount: float) -> str:
    resource, _, kind = limit.resource.partition(":")
    if resource == "mem":
        return memory_words(amount)
    if resource == "wall":
        return spell(amount)
    of = f" of {kind or limit.name}" if kind or resource == "licence" else ""
    unit = {"jobs": "running task" if limit.whose == ARRAY else "running job", "gpu": "GPU", "cpu": "core"}
    return count(int(amount), unit.get(resource, resource)) + of


def _is_are(amount: float) -> str:
    return "is" if amount == 1 else "are"


def _holders(view: View, limit: SharedLimit) -> IntArray:
    """Return the running jobs that hold a limit, the soonest to end first."""
    rows = np.flatnonzero(limit.counted(view.running))
    return rows[np.argsort(in_ms(view.remaining.median_s[rows]), kind="stable")]


def _held_by(view: View, holders: IntArray, named: list[int]) -> Iterator[str]:
    """Yield who holds a limit, as far as the reader may see it, and when the first of them should end."""
    if not len(holders):
        return
    others = len(holders) - len(named[:SHOWN])
    parts = [f"job {job}" for job in named[:SHOWN]]
    if others:
        parts.append(count(others, "more job" if parts else "job"))
    first = int(holders[0])
    when = f"in about {spell(float(view.remaining.median_s[first]))}"
    which = f", job {named[0]}," if named and named[0] == view.running.job_id[first] else ""
    holds, first_one = ("holds", "it") if len(holders) == 1 else ("hold", f"the first of them{which}")
    yield f"{', '.join(parts)} {holds} it;".capitalize()
    yield f"{first_one} should end {when}."


def _elsewhere(limit: SharedLimit, job: int) -> str:
    name = "qos" if limit.whose == QOS else "account"
    return f"or move it with 'scontrol update jobid={job} {name}=NAME'."


def _advice(limit: SharedLimit, job: int) -> str:
    if limit.whose == ARRAY:
        return f"Nothing is needed; 'scontrol update jobid={job} arraytaskthrottle=N' lets N of its tasks run at once."
    if limit.whose == LICENCE:
        return "Nothing: it starts when enough licences are free."
    return f"Wait until one of them ends, {_elsewhere(limit, job)}"
