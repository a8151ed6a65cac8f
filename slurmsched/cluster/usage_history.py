"""The CPUs and the memory per node that kinds of jobs use at most, from runs that ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .columns import FloatArray
from .filling import NOTHING, Knowing, NewColumns
from .job_kind import kind_of
from .jobs import JobState, JobTable
from .kind_speeds import Group
from .records.usage import UsageTable
from .state import ClusterState

LAST = 100  #: runs of a kind that count, the newest
LEAST = 19  #: runs without which nothing is known: the largest of these is exceeded by the next run once in twenty
LEVEL = 0.95  #: of the runs to come that use no more, if they are like those before
MOST = 20_000  #: kinds in memory, those heard of last
SHORT_S = 60.0  #: what takes less may have ended before it used much

_COUNTED = (JobState.COMPLETED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY)


@dataclass(frozen=True)
class KindUse:
    """What a kind of job uses of a node at most: a bound that one run in twenty exceeds. NaN where unknown."""

    kind: str
    gpus: int
    runs: int
    cpus: float
    memory_mib: float  #: infinite if a run needed more than it had


class UsageHistory(Knowing):
    """The use of nodes by kind of job, that is owner, name and number of GPUs. One thread learns, another one reads."""

    def __init__(self) -> None:
        self._runs: dict[Group, list[tuple[float, float]]] = {}
        self._bounds: dict[Group, KindUse] = {}

    def learn(self, runs: UsageTable) -> None:
        """Note what *runs* used that were long enough and not stopped before their end."""
        counts = np.isin(runs.state, _COUNTED) & (runs.runtime_s >= SHORT_S) & (runs.gpus > 0)
        fresh: set[Group] = set()
        for row in np.flatnonzero(counts).tolist():
            group = Group(kind_of(runs.user[row], runs.name[row]), int(runs.gpus[row]))
            self._runs[group] = uses = self._runs.pop(group, [])
            uses.append((float(runs.cpus[row]), float(runs.memory_mib[row])))
            del uses[:-LAST]
            fresh.add(group)
        while len(self._runs) > MOST:
            del self._runs[next(iter(self._runs))]
        kept = {group: use for group, use in self._bounds.items() if group in self._runs}
        self._bounds = kept | {group: _use(group, self._runs[group]) for group in fresh if group in self._runs}

    def columns(self, state: ClusterState) -> NewColumns:
        """Return the known use of pending jobs."""
        return {"pending": _use_of(state.pending, self._bounds)} if self._bounds else NOTHING

    def table(self) -> tuple[KindUse, ...]:
        """Return what is known, by kind."""
        known = (use for _, use in sorted(self._bounds.items()))
        return tuple(use for use in known if not (math.isnan(use.cpus) and math.isnan(use.memory_mib)))


def bound(values: FloatArray) -> float:
    """Return what the next run uses at most with probability ``LEVEL``, by earlier ones; NaN where these are too few.

    It is a value of an earlier run, and holds for runs in any order, whatever their distribution. Infinite values stay.
    """
    known = np.sort(values[~np.isnan(values)])
    if len(known) < LEAST:
        return math.nan
    if not np.isfinite(known[-1]):
        return math.inf
    return float(known[math.ceil(LEVEL * (len(known) + 1) - 1e-9) - 1])


def _use(group: Group, runs: list[tuple[float, float]]) -> KindUse:
    cpus, memory_mib = np.array(runs, dtype=np.float64).T
    return KindUse(*group, len(runs), bound(cpus), bound(memory_mib))


def _use_of(jobs: JobTable, bounds: dict[Group, KindUse]) -> Mapping[str, FloatArray]:
    if not len(jobs):
        return {}
    keys = np.stack([jobs.user.codes, jobs.name.codes, jobs.gpus])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    groups = [Group(kind_of(jobs.user[row], jobs.name[row]), int(jobs.gpus[row])) for row in first.tolist()]
    uses = [bounds.get(group, KindUse(*group, 0, math.nan, math.nan)) for group in groups]
    codes = which.reshape(-1)
    return {
        "used_cpus": np.array([use.cpus for use in uses])[codes],
        "used_memory_mib": np.array([use.memory_mib for use in uses])[codes],
    }
