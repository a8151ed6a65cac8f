"""What waiting jobs need beside nodes: room under limits that they share, and the ends or starts of other jobs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.limits import LimitTable, Memberships
from ...cluster.nodes import PartitionTable
from ...cluster.text.dependency import ENDS, SINGLETON, Dependency, read_dependencies
from ...policies.compiled import borrowing
from ..engine.calendar import BEGIN
from ..engine.job_state import MachineContext, schedule


class Gates(NamedTuple):
    """Limits and dependencies of jobs; those of job *i* are from ``first[i]`` up to ``first[i + 1]``."""

    first: IntArray
    limit: IntArray
    amount: FloatArray  #: beside ``limit``: how much of it the job takes while it runs
    binds: BoolArray  #: likewise: the job waits until there is room for it
    most: FloatArray  #: by limit
    used: FloatArray  #: by limit: by the jobs that run
    first_after: IntArray  #: likewise, of the jobs that wait for each job
    after: IntArray  #: a job that waits for it
    at_start: BoolArray  #: for its start, not for its end
    delay_s: FloatArray  #: and for so long after that
    left: IntArray  #: by job: for how many others it still waits; 0 where it waits for none


def no_gates(jobs: int) -> Gates:
    """Return gates that are open for all *jobs*."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    first = np.zeros(jobs + 1, dtype=np.int64)
    left = np.zeros(jobs, dtype=np.int64)
    return Gates(
        *(first, none, nothing, np.zeros(0, dtype=np.bool_), nothing.copy(), nothing.copy()),
        *(first.copy(), none.copy(), np.zeros(0, dtype=np.bool_), nothing.copy(), left),
    )


def gates_of(
    limits: LimitTable, partitions: PartitionTable, jobs: JobTable, running: int, now_s: float
) -> tuple[Gates, FloatArray]:
    """Return the gates of *jobs*, of which the first so many run, and the times before which jobs may not begin.

    The times are NaN but for jobs that wait for a while after the start of one that runs.
    """
    members = Memberships.of(limits, partitions, jobs)
    used = np.zeros(len(members.most))
    some = slice(0, int(members.first[running]))
    np.add.at(used, members.limit[some], members.amount[some])
    edges, left, begins_s = _edges(jobs, running, now_s)
    before, after, at_start, delay_s = edges
    order = np.argsort(before, kind="stable")
    gates = Gates(
        *(members.first, members.limit, members.amount, members.binds, members.most, used),
        np.searchsorted(before[order], np.arange(len(jobs) + 1)).astype(np.int64),
        *(after[order], at_start[order], delay_s[order], left),
    )
    return gates, begins_s


@borrowing
def is_open(gates: Gates, row: int) -> bool:
    """Return True if the limits of a job have room for it."""
    for at in range(gates.first[row], gates.first[row + 1]):
        limit = gates.limit[at]
        if gates.binds[at] and gates.used[limit] + gates.amount[at] > gates.most[limit] + 1e-6:
            return False
    return True


@borrowing
def count(gates: Gates, row: int, sign: float) -> None:
    """Count a job that starts (1) or ends (-1) for its limits."""
    for at in range(gates.first[row], gates.first[row + 1]):
        gates.used[gates.limit[at]] += sign * gates.amount[at]


@borrowing
def let_go(gates: Gates, stage: MachineContext, barred: BoolArray, row: int, started: bool, now_s: float) -> bool:
    """Open the gates of jobs that waited for the start or the end of a job; return True if one may queue now."""
    opened = False
    for at in range(gates.first_after[row], gates.first_after[row + 1]):
        if gates.at_start[at] != started:
            continue
        after = gates.after[at]
        gates.left[after] -= 1
        if gates.left[after] == 0:
            barred[after] = False
            begin_s = max(stage.life.begin_s[after], now_s + gates.delay_s[at])
            stage.life.begin_s[after] = begin_s
            if begin_s > now_s:
                schedule(stage, begin_s, BEGIN, after)
            opened = True
    return opened


Edges = tuple[IntArray, IntArray, BoolArray, FloatArray]


def met_by(jobs: JobTable, running: int, able: BoolArray) -> BoolArray:
    """Select the *jobs* without dependencies, and those whose dependencies jobs meet that run or are *able* to."""
    waits = jobs.dependency.nonempty()
    finder = _Finder(jobs, running)
    found = {row: finder.of(row) for row in np.flatnonzero(waits).tolist()}
    met = np.asarray(able & ~waits)
    met[:running] = True
    while True:
        more = [
            row for row, needs in found.items() if able[row] and not met[row] and needs is not None and needs.met(met)
        ]
        if not more:
            return met
        met[more] = True


def _edges(jobs: JobTable, running: int, now_s: float) -> tuple[Edges, IntArray, FloatArray]:
    """Return who waits for whom, for how many each job waits, and begin times that follow from jobs that run."""
    finder = _Finder(jobs, running)
    left, begins_s = np.zeros(len(jobs), dtype=np.int64), np.full(len(jobs), np.nan)
    before: list[int] = []
    after: list[int] = []
    at_start: list[bool] = []
    delay_s: list[float] = []
    for row in np.flatnonzero(jobs.dependency.nonempty()).tolist():
        needs = finder.of(row) if row >= running else None
        if needs is None:
            continue
        mine = 0
        for one, rows in needs.conditions:
            for other in rows:
                starts = one.kind not in ENDS and one.kind != SINGLETON
                later_s = 60.0 * one.minutes
                if starts and other < running:
                    begins_s[row] = np.fmax(begins_s[row], float(jobs.started_s[other]) + later_s)
                    continue
                before.append(other)
                after.append(row)
                at_start.append(starts)
                delay_s.append(later_s)
                mine += 1
        left[row] = min(mine, 1) if needs.alternatives else mine
    return (
        (
            np.array(before, dtype=np.int64),
            np.array(after, dtype=np.int64),
            np.array(at_start, dtype=np.bool_),
            np.array(delay_s, dtype=np.float64),
        ),
        left,
        begins_s,
    )


class _Needs(NamedTuple):
    """The rows of the jobs that each condition of a job is about; of alternatives one is enough."""

    conditions: list[tuple[Dependency, list[int]]]
    alternatives: bool

    def met(self, able: BoolArray) -> bool:
        """Return True if *able* jobs meet the conditions."""
        each = [all(bool(able[row]) for row in rows) for _, rows in self.conditions]
        return any(each) if self.alternatives else all(each)


class _Finder:
    """Finds the jobs that dependencies name."""

    def __init__(self, jobs: JobTable, running: int) -> None:
        self._jobs, self._running = jobs, running
        self._rows: dict[int, list[int]] = {}
        waits = jobs.dependency.nonempty()
        if not waits.any():
            return
        for row, (job, array) in enumerate(zip(jobs.job_id.tolist(), jobs.array_job_id.tolist(), strict=True)):
            for name in {job, array} - {0}:
                self._rows.setdefault(name, []).append(row)

    def of(self, row: int) -> _Needs | None:
        """Return what a job needs; None where that cannot be told, or can never come true."""
        read = read_dependencies(self._jobs.dependency[row])
        if read is None or not read.each or read.never:
            return None
        conditions: list[tuple[Dependency, list[int]]] = []
        for one in read.each:
            if one.failed:
                continue
            rows = self._about(row, one)
            if rows is None:
                if read.alternatives:
                    continue
                return None
            conditions.append((one, rows))
        return _Needs(conditions, read.alternatives) if conditions else None

    def _about(self, row: int, one: Dependency) -> list[int] | None:
        if one.kind == SINGLETON:
            return self._same_name(row)
        if one.kind not in (*(ENDS - {"afternotok"}), "after"):
            return None  # what fails is not forecast
        rows = self._rows.get(one.job)
        if rows and one.task is not None:
            task = [at for at in rows if self._jobs.task_id[at] == one.task]
            rows = task or [at for at in rows if at >= self._running]
        return rows or None

    def _same_name(self, row: int) -> list[int]:
        jobs = self._jobs
        same = (jobs.user.codes == jobs.user.codes[row]) & (jobs.name.codes == jobs.name.codes[row])
        earlier = np.arange(len(jobs)) < self._running
        earlier |= jobs.job_id < jobs.job_id[row]
        return [int(at) for at in np.flatnonzero(same & earlier) if at != row]
