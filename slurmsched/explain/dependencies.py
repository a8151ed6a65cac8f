"""Explanations of dependencies: the jobs that a job waits for, and what each of them does now. Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.jobs import JobTable
from ..cluster.reasons import reason_of
from ..cluster.state import View
from ..cluster.text.dependency import SINGLETON, Dependency, read_dependencies
from ..cluster.text.plural import count
from ..decide.phrasing import HIDDEN, spell

SHOWN = 3  #: jobs that a sentence names

_UNTIL = {
    "after": "has started",
    "afterok": "has ended well",
    "afterany": "has ended",
    "afternotok": "has failed",
    "aftercorr": "has ended well, task by task",
    "afterburstbuffer": "has ended and its burst buffers are written out",
}


def never_met(text: str) -> bool:
    """Report whether the dependencies of *text* can no longer come true."""
    found = read_dependencies(text)
    return found is not None and found.never


def dependency_words(view: View, row: int) -> tuple[str, tuple[int, ...]]:
    """Return a sentence about the dependencies of a pending *row*, and the ids of the jobs that it waits for."""
    jobs = view.pending
    found = read_dependencies(jobs.dependency[row])
    if found is None or not found.each:
        return f"It waits for other jobs ({jobs.dependency[row] or reason_of(jobs.reason[row]).word}).", ()
    words = [_words(view, row, one) for one in found.each[:SHOWN]]
    more = len(found.each) - len(words)
    rest = f" and {count(more, 'more condition')}" if more > 0 else ""
    text = f"It waits until {(' or until ' if found.alternatives else ' and until ').join(words)}{rest}."
    mine = (
        (one.job for one in found.each if one.kind != SINGLETON)
        if not any(one.kind == SINGLETON for one in found.each)
        else [int(job) for jobs, rows in same_name(view, row) for job in jobs.job_id[rows]]
    )
    return text, tuple(dict.fromkeys(mine))


def same_name(view: View, row: int) -> tuple[tuple[JobTable, IntArray], ...]:
    """Return the running and the earlier pending jobs of the owner and name of a pending *row*, for a singleton."""
    jobs = view.pending

    def alike(others: JobTable) -> IntArray:
        same = others.user.map([name == jobs.user[row] for name in others.user.names], np.bool_)
        same &= others.name.map([name == jobs.name[row] for name in others.name.names], np.bool_)
        return np.flatnonzero(same)

    earlier = alike(jobs)
    return (view.running, alike(view.running)), (jobs, earlier[jobs.job_id[earlier] < jobs.job_id[row]])


def _words(view: View, row: int, one: Dependency) -> str:
    if one.kind == SINGLETON:
        many = sum(len(rows) for _, rows in same_name(view, row))
        whom = f"{many} earlier jobs" if many > 1 else "an earlier job"
        return f"{whom} of its owner with the same name {'have' if many > 1 else 'has'} ended (singleton)"
    name = f"{one.job}_{one.task}" if one.task is not None else str(one.job)
    later = f" {one.minutes} min ago" if one.minutes else ""
    until = _UNTIL.get(one.kind, f"meets {one.kind}")
    return f"job {name} {until}{later} ({_state(view, one.job)})"


def _state(view: View, job_id: int) -> str:
    """Describe what a job does now."""
    row = view.running.row_of(job_id)
    if row is not None:
        if view.running.user[row] == HIDDEN:
            return "not yours"
        return f"it runs, for about {spell(float(view.remaining.median_s[row]))} more"
    row = view.pending.row_of(job_id)
    if row is None:
        return "it is no longer listed"
    if view.pending.user[row] == HIDDEN:
        return "not yours"
    if view.pending.priority[row] == 0:
        return "it is held"
    return "it waits too"
