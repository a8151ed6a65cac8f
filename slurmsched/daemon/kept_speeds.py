"""The speed that jobs keep beside others on their GPUs, by kind, measured from the iterations that they report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.job_kind import kind_of
from ..cluster.jobs import JobState, JobTable
from ..cluster.records.progress import ProgressTable
from ..cluster.state import ClusterState
from ..decide.sharing.shared_nodes import gpus_of_all, pairs_on

LAST = 20  #: runs of a kind that count on each side
LEAST = 3  #: runs on each side without which nothing is concluded
MEASURED_S = 120.0  #: time between two reports in the same company from which a speed counts
CYCLES = 20  #: and as many cycles, since a report is seen up to a cycle late
MOST = 20_000  #: runs and kinds in memory, the newest

Run = tuple[int, int]  #: job, restart
Group = tuple[str, int]  #: kind, GPUs
Value = TypeVar("Value")


@dataclass(frozen=True)
class _Company:
    """A run beside the same jobs: the first report that was seen of it there, and the latest."""

    partners: frozenset[int]
    came_at: int  #: iterations known when the company formed
    first: tuple[int, float] | None = None  #: iterations and Unix time
    latest: int = -1


class KeptSpeeds:
    """Iterations per second of running jobs alone and beside others, by kind and GPUs; in memory.

    A new process begins anew. Called from the cycle's thread.
    """

    def __init__(self) -> None:
        self._now: dict[Run, _Company] = {}
        self._seen_s = np.nan
        self._alone: dict[Group, dict[Run, float]] = {}
        self._beside: dict[Group, dict[Run, tuple[float, float]]] = {}  #: and the utilisation of both alone

    def observe(self, state: ClusterState, progress: ProgressTable, now_s: float) -> None:
        """Note how far jobs are that run in the same company as before."""
        least_s = max(MEASURED_S, CYCLES * (now_s - self._seen_s)) if np.isfinite(self._seen_s) else np.inf
        self._seen_s = now_s
        jobs, iterations = state.running, dict(zip(progress.job_id.tolist(), progress.iteration.tolist(), strict=True))
        known = np.isin(jobs.job_id, progress.job_id) & (jobs.gpus > 0) & (jobs.state == JobState.RUNNING)
        partners, util = _company(jobs) if known.any() else ({}, np.zeros(0))
        seen: dict[Run, _Company] = {}
        for row in np.flatnonzero(known)[:MOST].tolist():
            run, done = (int(jobs.job_id[row]), int(jobs.restarts[row])), iterations[int(jobs.job_id[row])]
            beside = frozenset(partners.get(row, ()))
            was = self._now.get(run)
            if was is None or was.partners != beside or done < was.came_at:
                seen[run] = _Company(beside, done)
            elif done == max(was.came_at, was.latest):
                seen[run] = was
            elif was.first is None:
                seen[run] = _Company(beside, was.came_at, (done, now_s), done)
            else:
                seen[run] = _Company(beside, was.came_at, was.first, done)
                if now_s - was.first[1] >= least_s:
                    rate = (done - was.first[0]) / (now_s - was.first[1])
                    self._note(run, jobs, row, rate, float(util[row]) if beside else None)
        self._now = seen

    def factors(self, curve: Callable[[FloatArray], FloatArray]) -> tuple[tuple[str, float], ...]:
        """Return what kinds of jobs keep of the speed by *curve*, sorted; those that keep all of it are left out.

        The median of a kind's runs counts, of several numbers of GPUs the lowest.
        """
        found: dict[str, float] = {}
        for group, runs in self._beside.items():
            alone = self._alone.get(group, {})
            if min(len(runs), len(alone)) < LEAST:
                continue
            rates, sums = np.array(list(runs.values())).T
            kept = rates / median(alone.values()) / curve(sums)
            found[group[0]] = min(found.get(group[0], 1.0), round(float(np.median(kept)), 2))
        return tuple(sorted((kind, factor) for kind, factor in found.items() if factor < 1.0))

    def _note(self, run: Run, jobs: JobTable, row: int, rate: float, util: float | None) -> None:
        group = kind_of(jobs.user[row], jobs.name[row]), int(jobs.gpus[row])
        if util is None:
            _keep(self._alone, group, run, rate)
        elif np.isfinite(util):
            _keep(self._beside, group, run, (rate, util))


def _keep(groups: dict[Group, dict[Run, Value]], group: Group, run: Run, value: Value) -> None:
    """Store the value of a run as the newest of its group, within bounds."""
    runs = groups[group] = groups.pop(group, {})
    runs.pop(run, None)
    runs[run] = value
    while len(runs) > LAST:
        del runs[next(iter(runs))]
    while len(groups) > MOST:
        del groups[next(iter(groups))]


def _company(jobs: JobTable) -> tuple[dict[int, set[int]], FloatArray]:
    """Return the jobs on the GPUs of each that shares, by row, and the largest sum of utilisations with one of them."""
    there = np.flatnonzero(jobs.shares)
    of, gpus = gpus_of_all(jobs, there)
    one, other = pairs_on(jobs.node_list.codes[there], of, gpus)
    partners: dict[int, set[int]] = {}
    util = np.zeros(len(jobs))
    for first, second in zip(there[one].tolist(), there[other].tolist(), strict=True):
        total = jobs.gpu_util[first] + jobs.gpu_util[second]
        for row, beside in ((first, second), (second, first)):
            partners.setdefault(row, set()).add(int(jobs.job_id[beside]))
            util[row] = np.maximum(util[row], total)  # NaN where one is unknown
    return partners, util
