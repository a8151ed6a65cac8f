"""The speed of jobs on more nodes than they need, measured by kind of job from the iteration times that jobs report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from .job_kind import kind_of
from .jobs import JobState, JobTable
from .nodes import NodeTable
from .state import ClusterState
from .text.hostlist import expanded

LAST = 20  #: runs of a group that count on each side
LEAST = 3  #: runs on each side without which nothing is concluded
MOST = 20_000  #: runs in memory, the newest; and as many groups, since names of jobs are whatever users write

Run = tuple[int, int]  #: job, restart


@dataclass(frozen=True)
class SpreadSpeed:
    """The iteration time of a kind of job on one number and type of GPUs: on as few nodes as it needs, and on more."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int  #: on as few nodes as needed
    iteration_s: float
    spread_runs: int
    spread_iteration_s: float

    @property
    def speed(self) -> float:
        """The speed on more nodes, as a share of that on as few as needed."""
        return self.iteration_s / self.spread_iteration_s


class _Group(NamedTuple):
    kind: str
    gpus: int
    gpu_type: str


class SpreadSpeeds:
    """Iteration times of running jobs with several GPUs, by kind, GPUs, and whether they are spread; in memory.

    A job shows its iteration time as ``pace`` in its comment. A new process knows those of jobs that run then. Called
    from the cycle's thread, except for ``table``.
    """

    def __init__(self) -> None:
        self._seconds: dict[Run, float] = {}
        self._runs: dict[tuple[_Group, bool], dict[Run, float]] = {}
        self._table: tuple[SpreadSpeed, ...] = ()
        self._speeds: Mapping[str, float] = {}

    def observe(self, state: ClusterState) -> None:
        """Note the iteration times of running jobs that share GPUs with no other job."""
        jobs, changed = state.running, False
        usable = np.isfinite(jobs.pace_s) & (jobs.gpus > 1) & (jobs.state == JobState.RUNNING)
        rows = np.flatnonzero(usable & (jobs.beside == 0) & (jobs.guest_gpus == 0) & ~jobs.shares)
        if not len(rows):
            return
        hardware = _hardware(state.nodes)
        columns = zip(*(column[rows].tolist() for column in (jobs.job_id, jobs.restarts, jobs.pace_s)), strict=True)
        for row, (job_id, restart, pace_s) in zip(rows.tolist(), columns, strict=True):
            run = job_id, restart
            if self._seconds.get(run) != pace_s:
                self._seconds[run] = pace_s
                changed |= self._note(run, jobs, row, hardware)
        for run in list(self._seconds)[: max(0, len(self._seconds) - MOST)]:
            del self._seconds[run]
        if changed:
            self._table = tuple(self._measured())
            by_kind: dict[str, list[SpreadSpeed]] = {}
            for one in self._table:
                by_kind.setdefault(one.kind, []).append(one)
            self._speeds = {kind: _mean(groups) for kind, groups in by_kind.items()}

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with the measured speeds of its jobs when spread."""
        if not self._speeds:
            return state
        return replace(state, pending=self._with_speeds(state.pending), running=self._with_speeds(state.running))

    def table(self) -> tuple[SpreadSpeed, ...]:
        """Return what was measured on both sides, the slowest when spread first."""
        return self._table

    def _note(self, run: Run, jobs: JobTable, row: int, hardware: Mapping[str, tuple[int, str]]) -> bool:
        """Note the iteration time of a run; return False if its nodes are not known, or not of one type of GPUs."""
        names = expanded(jobs.node_list[row])
        on = {hardware.get(name, (0, "")) for name in names}
        types, most = {gpu_type for _, gpu_type in on}, min((gpus for gpus, _ in on), default=0)
        if len(types) != 1 or most <= 0:
            return False
        gpus = int(jobs.gpus[row])
        group = _Group(kind_of(jobs.user[row], jobs.name[row]), gpus, types.pop())
        side = group, len(names) > -(-gpus // most)
        runs = self._runs[side] = self._runs.pop(side, {})  # the last one is the newest
        runs[run] = self._seconds[run]
        while len(self._runs) > MOST:
            del self._runs[next(iter(self._runs))]
        while len(runs) > LAST:
            del runs[next(iter(runs))]
        return True

    def _measured(self) -> Iterator[SpreadSpeed]:
        found = []
        for (group, spread), runs in self._runs.items():
            packed = self._runs.get((group, False), {})
            if spread and min(len(packed), len(runs)) >= LEAST:
                packed_s, spread_s = median(packed.values()), median(runs.values())
                found.append(SpreadSpeed(*group, len(packed), packed_s, len(runs), spread_s))
        yield from sorted(found, key=lambda one: (one.speed, one.kind, one.gpus, one.gpu_type))

    def _with_speeds(self, jobs: JobTable) -> JobTable:
        if not len(jobs):
            return jobs
        pairs = jobs.user.codes * len(jobs.name.names) + jobs.name.codes
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        kinds = (kind_of(jobs.user[row], jobs.name[row]) for row in first.tolist())
        speeds = np.array([self._speeds.get(kind, np.nan) for kind in kinds])
        return jobs.changed(spread_speed=speeds[which])


def _hardware(nodes: NodeTable) -> dict[str, tuple[int, str]]:
    return dict(zip(nodes.name, zip(nodes.gpus.tolist(), nodes.gpu_type, strict=True), strict=True))


def _mean(groups: list[SpreadSpeed]) -> float:
    """Return the mean speed of a kind over its groups, each by the runs of its smaller side."""
    weights = [min(group.runs, group.spread_runs) for group in groups]
    return float(np.average([group.speed for group in groups], weights=weights))
