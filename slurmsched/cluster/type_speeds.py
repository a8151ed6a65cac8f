"""The speed of kinds of jobs by the type of their GPUs, from the runtimes of runs that completed and from paces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from .columns import FloatArray, Labels
from .job_kind import kind_of
from .jobs import JobState, JobTable
from .nodes import NodeTable
from .records.outcomes import OutcomeTable
from .state import ClusterState
from .text.hostlist import expanded

LAST = 20  #: runs of a kind on one type that count, the newest
LEAST = 2  #: runs on a type without which nothing is known of it
MOST = 20_000  #: kinds in memory, those heard of last
SHORT_S = 60.0  #: what takes less is mostly a job's start, which is as long on all types
DIGITS = 4  #: of a speed

G = TypeVar("G")
K = TypeVar("K")
T = TypeVar("T")


class Group(NamedTuple):
    """A kind of job, that is owner and name, and its number of GPUs."""

    kind: str
    gpus: int


@dataclass(frozen=True)
class TypeSpeed:
    """The speed of a kind of job on a type of GPU, as a share of that on its fastest type."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    seconds: float  #: the median runtime, or iteration time
    speed: float


class TypeSpeeds:
    """Runtimes and iteration times by kind of job and type of GPU; in memory, from history and from running jobs.

    Iteration times count before runtimes where they are known on more than one type: how much a job has to do differs
    from run to run.
    """

    def __init__(self) -> None:
        self._runtimes: dict[Group, dict[str, list[float]]] = {}
        self._paces: dict[Group, dict[str, dict[tuple[int, int], float]]] = {}
        self._texts: dict[Group, str] = {}
        self._stale: set[Group] = set()

    def learn(self, runs: OutcomeTable) -> None:
        """Note the runtimes of *runs* that completed at once, on GPUs of one type."""
        typed = runs.gpu_type.map([bool(name) for name in runs.gpu_type.names], np.bool_)
        whole = (runs.state == JobState.COMPLETED) & (runs.restart == 0) & (runs.gpus > 0)
        for row in np.flatnonzero(typed & whole & (runs.runtime_s >= SHORT_S)).tolist():
            group = Group(kind_of(runs.user[row], runs.name[row]), int(runs.gpus[row]))
            took_s = latest(self._runtimes, group).setdefault(runs.gpu_type[row], [])
            took_s.append(float(runs.runtime_s[row]))
            del took_s[:-LAST]
            self._stale.add(group)

    def observe(self, state: ClusterState) -> None:
        """Note the iteration times of running jobs that show them, and share GPUs with no other job."""
        jobs = state.running
        alone = (jobs.beside == 0) & (jobs.guest_gpus == 0) & ~jobs.shares
        rows = np.flatnonzero(np.isfinite(jobs.pace_s) & (jobs.gpus > 0) & alone & (jobs.state == JobState.RUNNING))
        if not len(rows):
            return
        types = run_types(jobs.take(rows), state.nodes)
        for at, row in enumerate(rows.tolist()):
            if not types[at]:
                continue
            group = Group(kind_of(jobs.user[row], jobs.name[row]), int(jobs.gpus[row]))
            paces = latest(self._paces, group).setdefault(types[at], {})
            run = int(jobs.job_id[row]), int(jobs.restarts[row])
            if paces.get(run) != jobs.pace_s[row]:
                paces[run] = float(jobs.pace_s[row])
                self._stale.add(group)
            while len(paces) > LAST:
                del paces[next(iter(paces))]

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with the known speeds of its jobs."""
        for group in self._stale:
            self._texts[group] = " ".join(f"{one.gpu_type}={one.speed:.{DIGITS}g}" for one in self._speeds(group))
        self._stale.clear()
        if not any(self._texts.values()):
            return state
        return replace(state, pending=self._with_speeds(state.pending), running=self._with_speeds(state.running))

    def table(self) -> tuple[TypeSpeed, ...]:
        """Return what is known on more than one type, by kind."""
        known = sorted({*self._runtimes, *self._paces})
        return tuple(one for group in known for one in self._speeds(group))

    def _speeds(self, group: Group) -> Iterator[TypeSpeed]:
        """Yield the speeds of a kind; nothing where it is known on one type at most."""
        paces = {name: list(runs.values()) for name, runs in self._paces.get(group, {}).items()}
        for by_type in (paces, self._runtimes.get(group, {})):
            typical = {name: (len(s), median(s)) for name, s in sorted(by_type.items()) if len(s) >= LEAST}
            if len(typical) > 1:
                least_s = min(each_s for _, each_s in typical.values())
                for name, (runs, each_s) in typical.items():
                    yield TypeSpeed(*group, name, runs, each_s, least_s / each_s)
                return

    def _with_speeds(self, jobs: JobTable) -> JobTable:
        if not len(jobs):
            return jobs
        keys = np.stack([jobs.user.codes, jobs.name.codes, jobs.gpus])
        _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        texts = [
            self._texts.get(Group(kind_of(jobs.user[row], jobs.name[row]), int(jobs.gpus[row])), "")
            for row in first.tolist()
        ]
        return jobs.changed(type_speeds=Labels(which.reshape(-1).astype(np.int64), tuple(texts)).renamed(texts))


def latest(groups: dict[G, dict[K, T]], group: G) -> dict[K, T]:
    """Return what is noted of *group*, as the one heard of last; the others are forgotten first."""
    groups[group] = found = groups.pop(group, {})
    while len(groups) > MOST:
        del groups[next(iter(groups))]
    return found


def read_speeds(text: str) -> dict[str, float]:
    """Return the speeds that a row of the column ``type_speeds`` stands for, by type."""
    pairs = (item.rpartition("=") for item in text.split(" ") if item)
    return {name: float(speed) for name, _, speed in pairs}


def speeds_on(texts: Sequence[str], types: Sequence[str]) -> FloatArray:
    """Return the speed that each of *texts* stands for on each of *types*, as a share of that on its fastest one.

    1 everywhere where less than two are known. An unknown type counts as the slowest known one.
    """
    speeds = np.ones((len(texts), len(types)))
    for at, text in enumerate(texts):
        known = {name: speed for name, speed in read_speeds(text).items() if name in types}
        if len(known) > 1:
            speeds[at] = [known.get(name, min(known.values())) for name in types]
    return speeds


def write_speeds(types: tuple[str, ...], speeds: FloatArray) -> str:
    """Return the text of *speeds* on *types* of GPUs for the column ``type_speeds``; 0 stands for an unknown one."""
    known = [(name, speed / speeds.max()) for name, speed in zip(types, speeds.tolist(), strict=True) if speed > 0]
    return " ".join(f"{name}={speed:.{DIGITS}g}" for name, speed in known)


def run_types(jobs: JobTable, nodes: NodeTable) -> list[str]:
    """Return the type of the GPUs of each job's nodes; empty where it is not known, or they are of several."""
    type_of: Mapping[str, str] = dict(zip(nodes.name, nodes.gpu_type, strict=True))
    used = np.unique(jobs.node_list.codes).tolist()
    by_code = dict(zip(used, (_type(jobs.node_list.names[code], type_of) for code in used), strict=True))
    return [by_code[code] for code in jobs.node_list.codes.tolist()]


def _type(names: str, type_of: Mapping[str, str]) -> str:
    types = {type_of.get(name, "") for name in expanded(names)}
    return types.pop() if len(types) == 1 else ""
