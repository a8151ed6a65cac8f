"""Explanations of limits: which one blocks a job, whose it is, what is used, by which jobs, until when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.limits import (
    ACCOUNT,
    ARRAY,
    BILLING,
    EACH_ACCOUNT,
    GROUP,
    JOB,
    LEAST,
    LICENCE,
    NODE,
    OF_ONE_JOB,
    QOS,
    SUBMIT,
    UNCOUNTED,
    USER,
    SharedLimit,
    limits_of,
    shapes_of,
    ways_of,
    why_unread,
)
from ..cluster.reason_table import MINUTES, RUN_MINUTES
from ..cluster.reasons import Ends, Reason
from ..cluster.state import View
from ..cluster.text.plural import count
from ..cluster.text.tres import timelimit
from ..cluster.ties import in_ms
from ..decide.phrasing import HIDDEN, spell
from ..decide.request_words import memory_words

SHOWN = 3  #: jobs that a sentence names

UNSEEN_USE_S = 600.0
"""How much of a running job's past the minutes that are gone may lack: Slurm adds them up every PriorityCalcPeriod, by
default 5 minutes, and they are not read in each cycle."""

_FOR = {
    GROUP: " to all jobs together",
    USER: " to one user",
    EACH_ACCOUNT: " to one account",
    JOB: " for one job",
    NODE: " on one node",
    LEAST: "",
}

_UNCOUNTED = {BILLING: "billing", MINUTES: "minutes of CPUs, GPUs or memory"}


@dataclass(frozen=True)
class LimitWords:
    """A limit in words: the sentence, what can be done, and the ids of the jobs that hold it."""

    reason: str
    advice: str
    blockers: tuple[int, ...] = ()


def limit_words(view: View, row: int, reason: Reason) -> LimitWords | None:
    """Describe the limit that Slurm's *reason* names for a pending *row*; None where its amount is not known.

    Slurm looks at limits that others use up first: one that the job alone is beyond goes before them here.
    """
    if reason.limit is None:
        return None
    ways = _ways(view, row)
    if beyond := _beyond_in_all(ways, view.pending, row):
        return _words(view, row, _named_first(beyond, reason), True)
    found = [limit for way in ways for limit in way if limit.is_named_by(reason.limit)]
    if not found:
        return None
    full = [limit for limit in found if _partly_hidden(view, limit) or _blocks(view, row, limit)]
    return _words(view, row, (full or found)[0], bool(full))


def beyond_limit(view: View, row: int, reason: Reason) -> str | None:
    """Describe the limit that Slurm's *reason* names if no end of other jobs helps: the job alone is beyond it.

    A job in several partitions or with several QOS is beyond one with each of them.
    """
    if reason.limit is None:
        return None
    ways = _ways(view, row)
    if found := _beyond_in_all(ways, view.pending, row):
        return beyond_words(_named_first(found, reason), view.pending, row)
    return f"{reason.clause} ({reason.word})" if reason.limit.ends is Ends.NEVER and len(ways) == 1 else None


def own_limit(view: View, jobs: JobTable, *, timed: bool) -> SharedLimit | None:
    """Return a limit that keeps a new job (a table of one row) from any start, or None.

    A job that is not *timed* has no time limit of its own: Slurm gives it the longest one that it may have.
    """
    found = _beyond_in_all(ways_of(view.limits, view.partitions, jobs, 0), jobs, 0)
    return next((limit for limit in found if timed or not (limit.over or limit.resource == "wall")), None)


def full_for_new(view: View, jobs: JobTable) -> str:
    """Return which most of jobs that wait or run, in words, makes sbatch refuse new *jobs* (a table of one row)."""
    ways = ways_of(view.limits, view.partitions, jobs, 0, uncounted=True)
    full = [[limit for limit in way if limit.resource == SUBMIT and _has_no_room(view, jobs, limit)] for way in ways]
    if not all(full):
        return ""
    limit = full[0][0]
    return (
        f"{_owner(limit, jobs, 0)} allows {count(int(limit.most), 'job')}{_FOR[limit.counts]} to wait or run, "
        f"{_submitted(view, limit):.0f} do, and this is {count(int(jobs.tasks[0]), 'job')}"
    )


def _has_no_room(view: View, jobs: JobTable, limit: SharedLimit) -> bool:
    return _submitted(view, limit) + limit.asked(jobs, 0) > limit.most


def _submitted(view: View, limit: SharedLimit) -> float:
    waiting = float(limit.amount(view.pending)[limit.counted(view.pending)].sum())
    return waiting + float(limit.counted(view.running).sum())


def unread_limits_words(view: View) -> tuple[str, ...]:
    """Return that limits are not known; empty where they are, or where nobody needs them."""
    return ("limits of QOS and accounts (they could not be read)",) if why_unread(view.limits) else ()


def doubts_of_new(view: View, job: JobTable) -> tuple[str, ...]:
    """Return what is not known of the limits of a new *job* (a table of one row), which comes after all others."""
    many = len(view.pending)
    start_s, place = np.append(np.full(many, np.nan), view.now_s), np.append(np.zeros(many), 1.0)
    return (*unread_limits_words(view), *doubts_of_limits(view, view.pending.joined(job), start_s, place).get(many, ()))


def doubts_of_limits(view: View, jobs: JobTable, start_s: FloatArray, place: FloatArray) -> dict[int, tuple[str, ...]]:
    """Return what is not known of the limits of pending *jobs* that start at *start_s*, by row.

    That is what Slurm counts and we do not, the nodes that it takes where one of them is limited, and minutes that
    other jobs may use up first: those that run, that start sooner, or that stand before it. Jobs without a start
    (NaN) have no doubts; *place* is where each stands, infinite for one that is not counted for others.
    """
    rows, shape = shapes_of(jobs)
    doubts: dict[int, list[str]] = {}
    known = np.isfinite(start_s)
    for limit, shapes in _doubtful_limits(view, jobs, rows[np.unique(shape[known])]).items():
        bound = np.flatnonzero(known & np.isin(rows[shape], shapes)).tolist()
        for row in _in_doubt(view, limit, jobs, np.array(bound, dtype=np.int64), start_s, place).tolist():
            text = _doubt_words(limit, jobs, row)
            doubts.setdefault(row, []).append(text)
    return {row: tuple(dict.fromkeys(texts)) for row, texts in doubts.items()}


def _doubtful_limits(view: View, jobs: JobTable, rows: IntArray) -> dict[SharedLimit, list[int]]:
    """Return the limits that may leave a doubt, with those of *rows* that they bind."""
    found: dict[SharedLimit, list[int]] = {}
    for row in rows.tolist() if len(view.limits) else ():
        for limit in limits_of(view.limits, view.partitions, jobs, row, uncounted=True):
            if limit.resource in UNCOUNTED or limit.counts == NODE or (limit.over and limit.counts not in OF_ONE_JOB):
                found.setdefault(limit, []).append(row)
    return found


def _in_doubt(
    view: View, limit: SharedLimit, jobs: JobTable, rows: IntArray, start_s: FloatArray, place: FloatArray
) -> IntArray:
    """Return those of *rows* for which it is not known whether a limit lets them start."""
    if limit.resource in UNCOUNTED:
        return rows
    amount = limit.amount(jobs)
    if limit.counts == NODE:
        each = np.floor(amount / np.maximum(jobs.nodes, 1)).tolist()
        beyond = [not _nodes_are_known(limit, jobs, row) and limit.is_beyond(each[row]) for row in rows.tolist()]
        return rows[np.array(beyond, dtype=np.bool_)]
    asked = _where(limit.concerns(jobs) & (jobs.tasks > 0), amount, jobs.tasks)
    rows = rows[amount[rows] > 0]
    left = limit.most - limit.used - _still_to_use(view, limit)
    if asked.sum() <= left:
        return rows[:0]
    others = np.flatnonzero((asked > 0) & np.isfinite(place))
    before = [
        float(asked[others[(others != row) & ((start_s[others] < start_s[row]) | (place[others] < place[row]))]].sum())
        for row in rows.tolist()
    ]
    return rows[np.array(before, dtype=np.float64) + asked[rows] > left]


def _still_to_use(view: View, limit: SharedLimit) -> float:
    """Return the minutes of a limit over time that running jobs may use beyond those that Slurm shows as gone."""
    jobs = view.running
    shown_s = np.maximum(jobs.this_run_s(view.now_s) - (UNSEEN_USE_S if limit.over == MINUTES else 0.0), 0.0)
    jobs = jobs.changed(time_limit_s=np.maximum(jobs.time_limit_s - shown_s, 0.0))
    return float(_where(limit.concerns(jobs), limit.amount(jobs), np.ones(len(jobs))).sum())


def _where(rows: BoolArray, amount: FloatArray, many: IntArray | FloatArray) -> FloatArray:
    """Return the product in *rows*, and 0 elsewhere: minutes of a job without a time limit are infinite."""
    return np.multiply(amount, many, where=rows, out=np.zeros(len(amount)))


def _doubt_words(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    owner = _owner(limit, jobs, row)
    if limit.resource in UNCOUNTED:
        return f"what {owner} limits: {_UNCOUNTED[limit.resource]}"
    if limit.counts == NODE:
        return f"how many nodes it takes ({owner} allows {_amount(limit, limit.most)} on one node)"
    return f"what other jobs leave of the {_amount(limit, limit.most)} that {owner} allows{_FOR[limit.counts]}"


def _named_first(found: list[SharedLimit], reason: Reason) -> SharedLimit:
    return min(found, key=lambda limit: reason.limit is None or not limit.is_named_by(reason.limit))


def _ways(view: View, row: int) -> list[list[SharedLimit]]:
    return ways_of(view.limits, view.partitions, view.pending, row)


def _beyond_in_all(ways: list[list[SharedLimit]], jobs: JobTable, row: int) -> list[SharedLimit]:
    """Return the limits that the job in *row* alone is beyond, of the first way; none if another way has none such."""
    first, *others = [
        [one for one in way if one.is_beyond(one.asked(jobs, row)) and _nodes_are_known(one, jobs, row)] for way in ways
    ]
    return first if all(others) else []


def _nodes_are_known(limit: SharedLimit, jobs: JobTable, row: int) -> bool:
    """Return False if a limit on one node may have room for the job once Slurm spreads it over more nodes."""
    fixed = jobs.most_nodes[row] == max(int(jobs.nodes[row]), 1)
    on_each = limit.resource.startswith("gpu") and not jobs.per_job[row] and not jobs.per_task[row]
    return limit.counts != NODE or fixed or bool(on_each)


def beyond_words(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    """Return in words that the job in *row* is by itself beyond a limit."""
    owner = _owner(limit, jobs, row)
    if limit.resource == "jobs":
        return f"{owner} allows no running job{_FOR[limit.counts]}"
    asked = _amount(limit, limit.asked(jobs, row))
    if limit.used and limit.asked(jobs, row) <= limit.most:
        left = f"{max(limit.most - limit.used, 0):,.0f} of {_amount(limit, limit.most)}"
        return f"it asks for {asked}, and {owner} has {left}{_FOR[limit.counts]} left"
    where = " on one node" if limit.counts == NODE else ""
    verb, least = ("requires", " at least") if limit.counts == LEAST else ("allows", "")
    whom = " for one job" if limit.counts == LEAST else "" if where else _FOR[limit.counts]
    return f"it asks for {asked}{where}, and {owner} {verb} {_amount(limit, limit.most)}{least}{whom}"


def _blocks(view: View, row: int, limit: SharedLimit) -> bool:
    asked = limit.asked(view.pending, row)
    return limit.is_beyond(asked if limit.counts in OF_ONE_JOB else _used(view, limit) + asked)


def _partly_hidden(view: View, limit: SharedLimit) -> bool:
    """Report whether jobs may count for a limit of an account whose accounts the reader of *view* may not see."""
    return bool(limit.members or limit.account) and not limit.user and HIDDEN in view.running.account.names


def _used(view: View, limit: SharedLimit) -> float:
    """Return how much running jobs take of a limit; of one over time, what they may still use."""
    jobs = view.running
    if limit.over:
        jobs = jobs.changed(time_limit_s=np.maximum(jobs.time_limit_s - jobs.this_run_s(view.now_s), 0.0))
    return float(limit.amount(jobs)[limit.counted(jobs)].sum())


def _words(view: View, row: int, limit: SharedLimit, blocks: bool) -> LimitWords:
    jobs = view.pending
    job, alone, owner = int(jobs.job_id[row]), limit.asked(jobs, row), _owner(limit, jobs, row)
    asked = _amount(limit, alone)
    if limit.counts in OF_ONE_JOB or (limit.is_beyond(alone) and limit.whose in (QOS, ACCOUNT)):
        why = beyond_words(limit, jobs, row)
        until = " until past use is forgotten or an admin allows more" if limit.used else ""
        return LimitWords(
            f"{why[:1].upper()}{why[1:]}: it cannot start so{until}.",
            f"Change its request with 'scontrol update jobid={job} {_change(limit, jobs, row)}', "
            f"{_elsewhere(limit, jobs, row)}",
        )
    used = _used(view, limit)
    holders = _holders(view, limit)
    of_one = limit.whose in (ARRAY, LICENCE) or (limit.whose == ACCOUNT and limit.user)
    to_whom = "" if of_one else _FOR[limit.counts]
    verb = "has" if limit.whose == LICENCE else "allows"
    rule = f"{owner} {verb} {_amount(limit, limit.most)}{to_whom}"
    rule = rule[:1].upper() + rule[1:]
    if not blocks:
        return LimitWords(
            f"{rule}, of which {_amount(limit, used)} {_is_are(used)} in use now: Slurm has not looked at it again.",
            "Nothing is needed.",
        )
    use = f"{_amount(limit, used)} {_is_are(used)} in use, and it asks for {asked}"
    if limit.resource == "jobs":
        use = f"{used:.0f} run{'s' if used == 1 else ''}"
    if limit.over:
        use = f"running jobs may still use {used:,.0f}, and it asks for {alone:,.0f}"
    if _partly_hidden(view, limit):
        use = f"running jobs use that up, yours {_amount(limit, used)} of it"
    gone = f", of which {limit.used:,.0f} are gone" if limit.used else ""
    text = f"{rule}{gone if limit.over else ' at once'}; {use}"
    named = [int(view.running.job_id[one]) for one in holders if view.running.user[one] != HIDDEN]
    return LimitWords(
        f"{text}. {' '.join(_held_by(view, holders, named))}".strip(),
        _advice(limit, jobs, row),
        tuple(named),
    )


def _owner(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    if limit.whose == QOS:
        return f"its QOS ({limit.name})" if _is_own(limit, jobs, row) else f"the QOS of its partition ({limit.name})"
    if limit.whose == ACCOUNT:
        return f"its account ({limit.name})" + (f" of {limit.user}" if limit.user else "")
    return "its array" if limit.whose == ARRAY else "the site"


def _is_own(limit: SharedLimit, jobs: JobTable, row: int) -> bool:
    """Return False for the limit of a QOS that the job in *row* has from its partition."""
    return limit.name in jobs.qos[row].split(",")


def _amount(limit: SharedLimit, amount: float) -> str:
    resource, _, kind = limit.taken.partition(":")
    if resource == "mem":
        return memory_words(amount)
    if resource == "wall":
        return spell(amount)
    of = f" of {kind or limit.name}" if kind or resource == "licence" else ""
    unit = {"jobs": "running task" if limit.whose == ARRAY else "running job", "gpu": "GPU", "cpu": "core"}
    if limit.over:
        still = " still to run" if limit.over == RUN_MINUTES else ""
        return f"{count(int(amount), f'{unit.get(resource, resource)} minute')}{of}{still}"
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


def _change(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    """Return what would bring a job below a limit that it alone is beyond: a time limit for one of time."""
    if limit.resource == "wall" and limit.counts != LEAST:
        return f"timelimit={timelimit(limit.most)}"
    asked = limit.asked(jobs, row)
    left = (limit.most - limit.used) / asked if limit.over and limit.whole and asked else 0.0
    minutes = int(jobs.time_limit_s[row] * left / 60.0) if np.isfinite(jobs.time_limit_s[row]) else 0
    return f"timelimit={minutes}" if minutes > 0 else "..."


def _elsewhere(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    of_qos = "qos" if _is_own(limit, jobs, row) else "partition"
    name = of_qos if limit.whose == QOS else "account"
    return f"or move it with 'scontrol update jobid={jobs.job_id[row]} {name}=NAME'."


def _advice(limit: SharedLimit, jobs: JobTable, row: int) -> str:
    job = jobs.job_id[row]
    if limit.whose == ARRAY:
        return f"Nothing is needed; 'scontrol update jobid={job} arraytaskthrottle=N' lets N of its tasks run at once."
    if limit.whose == LICENCE:
        return "Nothing: it starts when enough licences are free."
    return f"Wait until one of them ends, {_elsewhere(limit, jobs, row)}"
