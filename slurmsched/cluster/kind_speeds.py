"""The speed of kinds of jobs by type, number and spread of their GPUs, from runs that ended and iteration times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .columns import BoolArray, IntArray, Labels
from .filling import NOTHING, Knowing, NewColumns
from .job_kind import kind_of
from .jobs import JobState, JobTable
from .records.outcomes import OutcomeTable
from .run_types import run_hosts
from .speed_texts import write_speeds
from .state import ClusterState

LAST = 20  #: runs of a kind on one place that count, the newest
LEAST = 2  #: runs on a place without which nothing is known of it
LEAST_SPREAD = 3  #: runs on as few nodes as needed, and on more, without which nothing is known of spread
MOST = 20_000  #: kinds in memory, those heard of last: names of jobs are whatever users write
PLACES = 100  #: of a kind, those heard of last
SHORT_S = 60.0  #: what takes less is mostly a job's start, which is as long everywhere

K = TypeVar("K")
T = TypeVar("T")
Run = tuple[int, int]  #: job, restart


class Group(NamedTuple):
    """A kind of job, that is owner and name, and its number of GPUs."""

    kind: str
    gpus: int


class Place(NamedTuple):
    """GPUs of a run."""

    gpu_type: str  #: empty where it is not known, or of several types
    gpus: int
    spread: bool = False  #: over more nodes than needed


@dataclass(frozen=True)
class TypeSpeed:
    """The speed of a kind of job on a type of GPU, as a share of that on its fastest type."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    seconds: float  #: the median runtime, or iteration time
    speed: float


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


@dataclass(frozen=True)
class _Runs:
    """What is noted of one kind, by place."""

    runtimes: dict[Place, dict[Run, float]] = field(default_factory=dict)
    paces: dict[Place, dict[Run, float]] = field(default_factory=dict)  #: iteration times
    sample_paces: dict[Place, dict[Run, float]] = field(default_factory=dict)  #: the time of a sample


class _Speeds(NamedTuple):
    """What is known of one kind."""

    types: Mapping[int, tuple[TypeSpeed, ...]]  #: by number of GPUs
    spread: tuple[SpreadSpeed, ...]
    sizes: Mapping[int, float]  #: over that on the fewest GPUs
    samples: Mapping[int, float]  #: samples in a second of a batch that grows, likewise
    type_texts: Mapping[int, str]
    size_texts: tuple[str, str]
    spread_speed: float


class KindSpeeds(Knowing):
    """Runtimes and iteration times by kind and place; in memory, from history and from running jobs.

    A job shows its iteration time as ``pace`` in its comment; runs that share GPUs show none of a place. These count
    before runtimes where they are known on more than one place: how much a job has to do differs from run to run. Of
    jobs with ``batch=``, whose iterations have more samples on more GPUs, the time of a sample counts.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _Runs] = {}
        self._known: dict[str, _Speeds] = {}
        self._stale: set[str] = set()
        self._shown: dict[int, tuple[int, float]] = {}  # the run that first showed the present pace of a job, and that

    def learn(self, runs: OutcomeTable) -> None:
        """Note the runtimes of *runs* that completed at once."""
        whole = (runs.state == JobState.COMPLETED) & (runs.restart == 0) & (runs.gpus > 0)
        for row in np.flatnonzero(whole & (runs.runtime_s >= SHORT_S)).tolist():
            place = Place(runs.gpu_type[row], int(runs.gpus[row]))
            noted = self._of(kind_of(runs.user[row], runs.name[row])).runtimes
            _note(noted, place, (int(runs.job_id[row]), int(runs.restart[row])), float(runs.runtime_s[row]))

    def observe(self, state: ClusterState) -> None:
        """Note the iteration times of running jobs that share GPUs with no other job.

        A comment keeps the time of the run before until the next report; that one was on other GPUs.
        """
        jobs = state.running
        grows = jobs.batch_least < jobs.batch_most
        rows = np.flatnonzero(np.isfinite(jobs.pace_s) & _alone(jobs) & (~grows | (jobs.step_samples > 0)))
        present = set(jobs.job_id.tolist())
        self._shown = {job: shown for job, shown in self._shown.items() if job in present}
        for row, hosts in zip(rows.tolist(), run_hosts(jobs.take(rows), state.nodes), strict=True):
            run, pace_s = (int(jobs.job_id[row]), int(jobs.restarts[row])), float(jobs.pace_s[row])
            shown = self._shown.get(run[0])
            if shown is None or shown[1] != pace_s:
                self._shown[run[0]] = run[1], pace_s
            elif shown[0] != run[1]:
                continue
            gpus = int(jobs.gpus[row])
            place = Place(hosts.gpu_type, gpus, hosts.gpus > 0 and hosts.many > -(-gpus // hosts.gpus))
            noted = self._kinds.get(kind_of(jobs.user[row], jobs.name[row]), _NOTHING)
            seconds = pace_s / float(jobs.step_samples[row]) if grows[row] else pace_s
            if (noted.sample_paces if grows[row] else noted.paces).get(place, {}).get(run) != seconds:
                noted = self._of(kind_of(jobs.user[row], jobs.name[row]))
                _note(noted.sample_paces if grows[row] else noted.paces, place, run, seconds)

    def columns(self, state: ClusterState) -> NewColumns:
        """Return what is known of the kinds of its jobs."""
        return self._of_jobs(state, self._spread_speeds, self._type_texts, self._size_texts)

    def of_spread(self, state: ClusterState) -> NewColumns:
        """Return the measured speeds of its jobs when spread, and nothing else."""
        return self._of_jobs(state, self._spread_speeds)

    def by_type(self) -> tuple[TypeSpeed, ...]:
        """Return what was known on more than one type when a state was last filled, by kind; from any thread."""
        known = sorted(self._known.copy().items(), key=itemgetter(0))
        return tuple(row for _, one in known for rows in one.types.values() for row in rows)

    def by_spread(self) -> tuple[SpreadSpeed, ...]:
        """Return what was then measured on both sides, the slowest when spread first; from any thread."""
        found = [row for one in self._known.copy().values() for row in one.spread]
        return tuple(sorted(found, key=lambda row: (row.speed, row.kind, row.gpus, row.gpu_type)))

    def _of(self, kind: str) -> _Runs:
        """Return what is noted of *kind*, as the one heard of last; the others are forgotten first."""
        self._stale.add(kind)
        return latest(self._kinds, kind, _Runs)

    def _update(self) -> None:
        """Conclude anew for kinds of which something was noted; forget the others that are gone."""
        for kind in self._stale & self._kinds.keys():
            self._known[kind] = _concluded(kind, self._kinds[kind])
        self._stale.clear()
        for kind in self._known.keys() - self._kinds.keys():
            del self._known[kind]

    def _of_jobs(self, state: ClusterState, *makers: Callable[[JobTable], Mapping[str, Any]]) -> NewColumns:
        self._update()
        if not self._known:
            return NOTHING
        tables = {"pending": state.pending, "running": state.running}
        return {table: dict(chain(*(make(jobs).items() for make in makers))) for table, jobs in tables.items()}

    def _type_texts(self, jobs: JobTable) -> Mapping[str, Any]:
        first, which, kinds = _kinds_of(jobs, jobs.gpus)
        texts = [
            known.type_texts.get(int(jobs.gpus[row]), "") for row, known in zip(first, self._each(kinds), strict=True)
        ]
        return {"type_speeds": Labels(which, tuple(texts)).renamed(texts)} if any(texts) else {}

    def _size_texts(self, jobs: JobTable) -> Mapping[str, Any]:
        """Return the texts of jobs that run on different numbers of GPUs."""
        _, which, kinds = _kinds_of(jobs, jobs.most_gpus > 0)
        texts = [known.size_texts for known in self._each(kinds)]
        if not any(any(pair) for pair in texts):
            return {}
        several = jobs.most_gpus > 0
        each = [texts[at] if sized else ("", "") for at, sized in zip(which.tolist(), several.tolist(), strict=True)]
        sizes, samples = zip(*each, strict=True)
        return {"size_speeds": Labels.of(sizes), "sample_speeds": Labels.of(samples)}

    def _spread_speeds(self, jobs: JobTable) -> Mapping[str, Any]:
        _, which, kinds = _kinds_of(jobs)
        speeds = np.array([known.spread_speed for known in self._each(kinds)])
        return {"spread_speed": speeds[which]} if len(speeds) else {}

    def _each(self, kinds: Iterable[str]) -> list[_Speeds]:
        return [self._known.get(kind, _UNKNOWN) for kind in kinds]


def latest(groups: dict[K, T], group: K, new: Callable[[], T]) -> T:
    """Return what is noted of *group*, as the one heard of last; the others are forgotten first."""
    groups[group] = found = groups.pop(group) if group in groups else new()
    while len(groups) > MOST:
        del groups[next(iter(groups))]
    return found


def _note(noted: dict[Place, dict[Run, float]], place: Place, run: Run, seconds: float) -> None:
    """Note the time of a run; older runs and places are forgotten."""
    noted[place] = runs = noted.pop(place, {})
    runs[run] = seconds
    while len(runs) > LAST:
        del runs[next(iter(runs))]
    while len(noted) > PLACES:
        del noted[next(iter(noted))]


def _alone(jobs: JobTable) -> BoolArray:
    """Select the jobs that run and share GPUs with no other."""
    runs = (jobs.state == JobState.RUNNING) & (jobs.gpus > 0)
    return np.asarray(runs & (jobs.beside == 0) & (jobs.guest_gpus == 0) & ~jobs.shares)


def _kinds_of(jobs: JobTable, *beside: IntArray | BoolArray) -> tuple[list[int], IntArray, list[str]]:
    """Return the first row of each kind (and value of *beside*), the number of that of each row, and the kinds."""
    keys = np.stack([jobs.user.codes, jobs.name.codes, *beside])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rows = first.tolist()
    return rows, which.reshape(-1).astype(np.int64), [kind_of(jobs.user[row], jobs.name[row]) for row in rows]


def _concluded(kind: str, runs: _Runs) -> _Speeds:
    """Return what *runs* of a kind say."""
    every = {place.gpus for noted in (runs.paces, runs.runtimes) for place in noted}
    types = {gpus: tuple(_types(kind, gpus, runs)) for gpus in sorted(every)}
    types = {gpus: rows for gpus, rows in types.items() if rows}
    spread = tuple(_spread(kind, runs.paces))
    sizes = _over_fewest(_by_size(runs.paces, 1), _by_size(runs.runtimes, LEAST))
    samples = _over_fewest(_by_size(runs.sample_paces, 1))
    weights = [min(row.runs, row.spread_runs) for row in spread]
    return _Speeds(
        types,
        spread,
        sizes,
        samples,
        {gpus: write_speeds({row.gpu_type: row.speed for row in rows}) for gpus, rows in types.items()},
        (write_speeds(sizes), write_speeds(samples)),
        float(np.average([row.speed for row in spread], weights=weights)) if spread else np.nan,
    )


def _types(kind: str, gpus: int, runs: _Runs) -> Iterator[TypeSpeed]:
    """Yield the speeds of a kind on a number of GPUs; nothing where it is known on one type at most."""
    for noted in (runs.paces, runs.runtimes):
        by_type: dict[str, list[float]] = {}
        for place, each in noted.items():
            if place.gpus == gpus and place.gpu_type:
                by_type.setdefault(place.gpu_type, []).extend(each.values())
        typical = {name: (len(s), median(s)) for name, s in sorted(by_type.items()) if len(s) >= LEAST}
        if len(typical) > 1:
            least_s = min(each_s for _, each_s in typical.values())
            for name, (many, each_s) in typical.items():
                yield TypeSpeed(kind, gpus, name, many, each_s, least_s / each_s)
            return


def _spread(kind: str, paces: Mapping[Place, Mapping[Run, float]]) -> Iterator[SpreadSpeed]:
    """Yield the iteration times of a kind on as few nodes as needed and on more."""
    for place, runs in paces.items():
        packed = paces.get(place._replace(spread=False), {})
        if place.spread and place.gpus > 1 and min(len(packed), len(runs)) >= LEAST_SPREAD:
            packed_s, spread_s = median(packed.values()), median(runs.values())
            yield SpreadSpeed(kind, place.gpus, place.gpu_type, len(packed), packed_s, len(runs), spread_s)


def _by_size(noted: Mapping[Place, Mapping[Run, float]], least: int) -> dict[str, dict[int, float]]:
    """Return the median seconds by type and number of GPUs."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for place, runs in noted.items():
        seconds.setdefault((place.gpu_type, place.gpus), []).extend(runs.values())
    found: dict[str, dict[int, float]] = {}
    for (gpu_type, gpus), each in seconds.items():
        if len(each) >= least:
            found.setdefault(gpu_type, {})[gpus] = median(each)
    return found


def _over_fewest(*known: dict[str, dict[int, float]]) -> dict[int, float]:
    """Return the speeds on the type where most numbers are known, over that on the fewest; empty unless several are."""
    best: dict[int, float] = {}
    for gpu_type in sorted({name for by_type in known for name in by_type}):
        for by_type in known:
            if len(by_type.get(gpu_type, {})) > max(len(best), 1):
                best = by_type[gpu_type]
    return {gpus: best[min(best)] / best[gpus] for gpus in sorted(best)}


_NOTHING = _Runs()
_UNKNOWN = _concluded("", _NOTHING)
