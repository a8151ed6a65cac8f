"""The speed of kinds of jobs by their number of GPUs, from runs that completed and from paces; what restarts cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from .columns import FloatArray, Labels
from .job_kind import kind_of
from .jobs import JobState, JobTable
from .records.outcomes import OutcomeTable
from .state import ClusterState
from .type_speeds import DIGITS, LAST, LEAST, SHORT_S, latest, run_types

LONGEST_S = 3_600.0
"""The longest time from a stop request to the next start that counts: after a longer one others had come first."""


class _Place(NamedTuple):
    gpu_type: str
    gpus: int


class SizeSpeeds:
    """Runtimes and iteration times by kind of job and number of GPUs; in memory, from history and from running jobs.

    Iteration times count before runtimes where they are known on more than one number. Of several types of GPUs the one
    counts on which most numbers are known. Of jobs with ``batch=``, whose iterations have more samples on more GPUs,
    the time of a sample counts.
    """

    def __init__(self) -> None:
        self._runtimes: dict[str, dict[_Place, list[float]]] = {}
        self._paces: dict[str, dict[_Place, dict[tuple[int, int], float]]] = {}
        self._sample_paces: dict[str, dict[_Place, dict[tuple[int, int], float]]] = {}
        self._shown: dict[int, tuple[int, float]] = {}  # the run that first showed the present pace of a job, and that
        self._texts: dict[str, tuple[str, str]] = {}  # speeds, and samples in a second
        self._stale: set[str] = set()

    def learn(self, runs: OutcomeTable) -> None:
        """Note the runtimes of *runs* that completed at once."""
        whole = (runs.state == JobState.COMPLETED) & (runs.restart == 0) & (runs.gpus > 0)
        for row in np.flatnonzero(whole & (runs.runtime_s >= SHORT_S)).tolist():
            kind, place = kind_of(runs.user[row], runs.name[row]), _Place(runs.gpu_type[row], int(runs.gpus[row]))
            took_s = latest(self._runtimes, kind).setdefault(place, [])
            took_s.append(float(runs.runtime_s[row]))
            del took_s[:-LAST]
            self._stale.add(kind)

    def observe(self, state: ClusterState) -> None:
        """Note the iteration times of running jobs that show them, and share GPUs with no other job.

        A comment keeps the time of the run before until the next report; that one was on other GPUs.
        """
        jobs = state.running
        alone = (jobs.beside == 0) & (jobs.guest_gpus == 0) & ~jobs.shares & (jobs.most_gpus > 0)
        grows = jobs.batch_least < jobs.batch_most
        alone &= ~grows | (jobs.step_samples > 0)
        rows = np.flatnonzero(np.isfinite(jobs.pace_s) & (jobs.gpus > 0) & alone & (jobs.state == JobState.RUNNING))
        types = run_types(jobs.take(rows), state.nodes)
        self._shown = {job: shown for job, shown in self._shown.items() if job in set(jobs.job_id.tolist())}
        for row, gpu_type in zip(rows.tolist(), types, strict=True):
            job, restart, pace_s = int(jobs.job_id[row]), int(jobs.restarts[row]), float(jobs.pace_s[row])
            if self._shown.get(job, (restart, np.nan))[1] != pace_s:
                self._shown[job] = restart, pace_s
            if self._shown[job][0] == restart:
                kind = kind_of(jobs.user[row], jobs.name[row])
                known = self._sample_paces if grows[row] else self._paces
                paces = latest(known, kind).setdefault(_Place(gpu_type, int(jobs.gpus[row])), {})
                paces[job, restart] = pace_s / float(jobs.step_samples[row]) if grows[row] else pace_s
                while len(paces) > LAST:
                    del paces[next(iter(paces))]
                self._stale.add(kind)

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with the known speeds of jobs that run on different numbers of GPUs."""
        for kind in self._stale:
            self._texts[kind] = write_sizes(self.speeds(kind)), write_sizes(self.sample_speeds(kind))
        self._stale.clear()
        if not any(any(texts) for texts in self._texts.values()):
            return state
        return replace(state, pending=self._with_speeds(state.pending), running=self._with_speeds(state.running))

    def speeds(self, kind: str) -> dict[int, float]:
        """Return the speeds of a kind by number of GPUs, over that on the fewest; empty unless several are known."""
        runs = self._runtimes.get(kind, {})
        seconds = {place: median(took_s) for place, took_s in runs.items() if len(took_s) >= LEAST}
        return _over_fewest(_typical(_medians(self._paces, kind), seconds))

    def sample_speeds(self, kind: str) -> dict[int, float]:
        """Return the samples in a second of a kind with ``batch=`` by number of GPUs, over those on the fewest."""
        return _over_fewest(_typical(_medians(self._sample_paces, kind)))

    def _with_speeds(self, jobs: JobTable) -> JobTable:
        rows = np.flatnonzero(jobs.most_gpus > 0)
        if not len(rows):
            return jobs
        texts = [("", "")] * len(jobs)
        for row in rows.tolist():
            texts[row] = self._texts.get(kind_of(jobs.user[row], jobs.name[row]), ("", ""))
        speeds, samples = zip(*texts, strict=True)
        return jobs.changed(size_speeds=Labels.of(speeds), sample_speeds=Labels.of(samples))


def _medians(paces: dict[str, dict[_Place, dict[tuple[int, int], float]]], kind: str) -> dict[_Place, float]:
    """Return the median iteration time of a kind on each place."""
    return {place: median(each.values()) for place, each in paces.get(kind, {}).items()}


def _typical(*known: dict[_Place, float]) -> Iterator[dict[int, float]]:
    """Yield the seconds by number of GPUs, for each type of GPU those of each of *known*, in this order."""
    for gpu_type in sorted({place.gpu_type for seconds in known for place in seconds}):
        for seconds in known:
            yield {place.gpus: took_s for place, took_s in seconds.items() if place.gpu_type == gpu_type}


def _over_fewest(typical: Iterator[dict[int, float]]) -> dict[int, float]:
    """Return the speeds where most numbers are known, over that on the fewest; empty unless several are."""
    best: dict[int, float] = {}
    for seconds in typical:
        if len(seconds) > max(len(best), 1):
            best = seconds
    return {gpus: best[min(best)] / best[gpus] for gpus in sorted(best)}


class RestartCosts:
    """The time from a stop request to the next start of jobs with ``ckpt``, by kind; in memory."""

    def __init__(self) -> None:
        self._costs: dict[str, dict[tuple[int, int], float]] = {}

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with what restarts cost jobs that run on different numbers of GPUs; note those it shows."""
        jobs = state.running
        again = jobs.ckpt & (jobs.restarts > 0) & (jobs.asked_s < jobs.started_s)
        for row in np.flatnonzero(again & (jobs.started_s - jobs.asked_s <= LONGEST_S)).tolist():
            costs = latest(self._costs, kind_of(jobs.user[row], jobs.name[row]))
            costs[int(jobs.job_id[row]), int(jobs.restarts[row])] = float(jobs.started_s[row] - jobs.asked_s[row])
            while len(costs) > LAST:
                del costs[next(iter(costs))]
        sizes = np.flatnonzero(jobs.most_gpus > 0)
        if not self._costs or not len(sizes):
            return state
        every_s = median([cost for costs in self._costs.values() for cost in costs.values()])
        cost_s: FloatArray = np.zeros(len(jobs))
        for row in sizes.tolist():
            own = self._costs.get(kind_of(jobs.user[row], jobs.name[row]))
            cost_s[row] = median(own.values()) if own else every_s
        return replace(state, running=jobs.changed(restart_cost_s=cost_s))


def read_sizes(text: str) -> dict[int, float]:
    """Return the speeds that a row of the column ``size_speeds`` stands for, by number of GPUs."""
    pairs = (item.partition("=") for item in text.split(" ") if item)
    return {int(gpus): float(speed) for gpus, _, speed in pairs}


def write_sizes(speeds: dict[int, float]) -> str:
    """Return the text of *speeds* by number of GPUs for the column ``size_speeds``."""
    return " ".join(f"{gpus}={speed:.{DIGITS}g}" for gpus, speed in sorted(speeds.items()))


def ran_further(text: str, gpus: int, more_s: float) -> str:
    """Return the text of a row of the column ``ran_on`` after *more_s* further seconds on so many GPUs."""
    ran_s = read_sizes(text)
    if gpus > 0 and more_s > 0:
        ran_s[gpus] = ran_s.get(gpus, 0.0) + more_s
    return " ".join(f"{on}={seconds:.1f}" for on, seconds in sorted(ran_s.items()))
