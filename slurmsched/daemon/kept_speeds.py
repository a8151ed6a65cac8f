"""The speed that jobs keep beside others on their GPUs, by kind, measured from the iterations that they report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from ..cluster.columns import BoolArray, FloatArray
from ..cluster.job_kind import kind_of
from ..cluster.jobs import JobState, JobTable
from ..cluster.records.progress import ProgressTable
from ..cluster.state import ClusterState
from ..decide.sharing.shared_nodes import gpus_of_all, pairs_on

LAST = 20  #: runs of a kind that count on each side
LEAST = 3  #: runs on each side without which nothing is concluded
MEASURED_S = 120.0  #: time between two reports in the same company from which a speed counts
SHORT_S = 20.0  #: the same for the story of one job
CYCLES = 20  #: and as many cycles, since a report is seen up to a cycle late
MOST = 20_000  #: runs and kinds in memory, the newest

Run = tuple[int, int]  #: job, restart
Group = tuple[str, int]  #: kind, GPUs
Value = TypeVar("Value")


@dataclass(frozen=True)
class _Company:
    """A run beside the same jobs: the first report that was seen of it there, and the latest."""

    partners: frozenset[int]
    group: Group
    util: float  #: sum of the utilisations of both alone
    formed_s: float
    came_at: int  #: iterations known when the company formed; -1 of a job that reports none
    first: tuple[int, float] | None = None  #: iterations and Unix time
    latest: int = -1
    rate: float = np.nan  #: iterations per second there


@dataclass(frozen=True)
class SharedTime:
    """The time of a job beside the same others, which is over."""

    job_id: int
    partners: tuple[int, ...]
    seconds: float
    group: Group
    util: float  #: sum of the utilisations of both alone
    speed: float  #: relative to alone, by its iterations; NaN if not measured


class KeptSpeeds:
    """Iterations per second of running jobs alone and beside others, by kind and GPUs; in memory.

    A new process begins anew. Called from the cycle's thread.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._looked_s = monotonic, np.nan
        self._now: dict[Run, _Company] = {}
        self._own: dict[Run, float] = {}  #: iterations per second of running jobs when they were alone
        self._alone: dict[Group, dict[Run, float]] = {}
        self._beside: dict[Group, dict[Run, tuple[float, float]]] = {}  #: and the utilisation of both alone

    def observe(self, state: ClusterState, progress: ProgressTable, now_s: float) -> list[SharedTime]:
        """Note how far jobs are that run in the same company as before; return the times together that are over."""
        looked_s = self._monotonic()
        since_s = looked_s - self._looked_s
        least_s, self._looked_s = max(MEASURED_S, CYCLES * since_s) if np.isfinite(since_s) else np.inf, looked_s
        jobs, iterations = state.running, dict(zip(progress.job_id.tolist(), progress.iteration.tolist(), strict=True))
        running = (jobs.gpus > 0) & (jobs.state == JobState.RUNNING)
        partners, util = _company(jobs, running)
        known = np.isin(jobs.job_id, progress.job_id) & running
        known[list(partners)] = True
        started_s = dict(zip(jobs.job_id.tolist(), jobs.started_s.tolist(), strict=True))
        seen: dict[Run, _Company] = {}
        for row in np.flatnonzero(known)[:MOST].tolist():
            job_id = int(jobs.job_id[row])
            run, done = (job_id, int(jobs.restarts[row])), iterations.get(job_id, -1)
            beside = frozenset(partners.get(row, ()))
            was = self._now.get(run)
            if was is None or was.partners != beside or done < was.came_at:
                began_s = now_s if was else max(started_s[each] for each in (job_id, *beside))
                group = kind_of(jobs.user[row], jobs.name[row]), int(jobs.gpus[row])
                seen[run] = _Company(beside, group, float(util[row]), began_s, done)
            elif done == max(was.came_at, was.latest):
                seen[run] = was
            elif was.first is None:
                seen[run] = replace(was, first=(done, now_s), latest=done)
            else:
                took_s = now_s - was.first[1]
                rate = (done - was.first[0]) / took_s if took_s >= SHORT_S else np.nan
                seen[run] = replace(was, latest=done, rate=rate)
                if took_s >= least_s:
                    self._note(run, seen[run])
        over = [
            self._shared_time(run, was, now_s)
            for run, was in self._now.items()
            if was.partners and (run not in seen or seen[run].partners != was.partners)
        ]
        self._now, self._own = seen, {run: rate for run, rate in self._own.items() if run in seen}
        return over

    def factors(
        self, curve: Callable[[FloatArray], FloatArray], known: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[tuple[str, float], ...]:
        """Return what kinds of jobs keep of the speed by *curve*, sorted; those that keep all of it are left out.

        The median of a kind's runs counts, of several numbers of GPUs the lowest. What is *known* holds until then.
        """
        found: dict[str, float] = {}
        for group, runs in self._beside.items():
            alone = self._alone.get(group, {})
            if min(len(runs), len(alone)) < LEAST:
                continue
            rates, sums = np.array(list(runs.values())).T
            kept = rates / median(alone.values()) / curve(sums)
            found[group[0]] = min(found.get(group[0], 1.0), round(float(np.median(kept)), 2))
        return tuple(sorted((kind, factor) for kind, factor in {**known, **found}.items() if factor < 1.0))

    def _note(self, run: Run, company: _Company) -> None:
        if not company.partners:
            self._own[run] = company.rate
            _keep(self._alone, company.group, run, company.rate)
        elif np.isfinite(company.util):
            _keep(self._beside, company.group, run, (company.rate, company.util))

    def _shared_time(self, run: Run, company: _Company, now_s: float) -> SharedTime:
        alone = self._alone.get(company.group, {})
        alone_rate = self._own.get(run, median(alone.values()) if alone else np.nan)
        seconds, partners = max(0.0, now_s - company.formed_s), tuple(sorted(company.partners))
        return SharedTime(run[0], partners, seconds, company.group, company.util, company.rate / alone_rate)


def _keep(groups: dict[Group, dict[Run, Value]], group: Group, run: Run, value: Value) -> None:
    """Store the value of a run as the newest of its group, within bounds."""
    runs = groups[group] = groups.pop(group, {})
    runs.pop(run, None)
    runs[run] = value
    while len(runs) > LAST:
        del runs[next(iter(runs))]
    while len(groups) > MOST:
        del groups[next(iter(groups))]


def _company(jobs: JobTable, running: BoolArray) -> tuple[dict[int, set[int]], FloatArray]:
    """Return the jobs on the GPUs of each that shares, by row, and the largest sum of utilisations with one of them."""
    there = np.flatnonzero(jobs.shares & running)
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
