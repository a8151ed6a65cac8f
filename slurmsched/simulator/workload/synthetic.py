"""Synthetic workloads with the shapes seen on GPU clusters, at a chosen load, reproducible by seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import FloatArray, Labels
from .synthetic_users import SyntheticUsers, semisynthetic
from .workload import Workload, workload

DAY_S = 86400.0
ARRIVALS = ("poisson", "diurnal", "bursty")
RUNTIMES = ("lognormal", "pareto")

_BUSIEST_S = 15 * 3600.0  #: of the day
_SWING = 0.8  #: amplitude of the daily cycle, relative to the mean
_BURST = 10  #: jobs in a burst, on average
_BURST_GAP_S = 5.0
_GRID_S = 600.0


@dataclass(frozen=True)
class SyntheticSpec:
    """The parameters of a workload. ValueError names an invalid one and what is accepted."""

    jobs: int = 10_000
    cluster_gpus: int = 64  #: size of the cluster that *load* refers to
    load: float = 0.9  #: GPU-seconds of jobs per GPU-second of the cluster, until the last arrival
    seed: int = 0
    arrivals: str = "poisson"  #: one of ARRIVALS
    runtimes: str = "lognormal"  #: one of RUNTIMES
    median_s: float = 900.0  #: of the runtimes
    spread: float = 2.0  #: log-normal: standard deviation of log runtime
    tail: float = 1.2  #: Pareto: exponent; the smaller, the heavier
    longest_s: float = 14 * DAY_S
    gpu_mix: tuple[tuple[int, float], ...] = ((1, 0.7), (2, 0.08), (4, 0.1), (8, 0.1), (16, 0.02))  #: GPUs, weight
    partitions: int = 1  #: virtual clusters, all alike
    habits: SyntheticUsers = field(default_factory=SyntheticUsers)
    start_s: float = 0.0  #: the origin of time; midnight for ``diurnal``

    def __post_init__(self) -> None:
        self._check("jobs", self.jobs >= 1, "1 and more")
        self._check("cluster_gpus", self.cluster_gpus >= 1, "1 and more")
        self._check("load", 0 < self.load < math.inf, "a number above 0")
        self._check("arrivals", self.arrivals in ARRIVALS, ", ".join(ARRIVALS))
        self._check("runtimes", self.runtimes in RUNTIMES, ", ".join(RUNTIMES))
        self._check("median_s", 1 <= self.median_s <= self.longest_s < math.inf, "seconds from 1 to longest_s")
        self._check("spread", 0 <= self.spread < math.inf, "0 and more")
        self._check("tail", 0 < self.tail < math.inf, "a number above 0")
        self._check("partitions", self.partitions >= 1, "1 and more")
        fit = all(gpus >= 1 and weight >= 0 for gpus, weight in self.gpu_mix)
        self._check("gpu_mix", fit and sum(weight for _, weight in self.gpu_mix) > 0, "pairs of GPUs and weight")

    def _check(self, name: str, holds: bool, accepted: str) -> None:
        if not holds:
            raise ValueError(f"{name} = {getattr(self, name)!r}: accepted are {accepted}")


def synthetic(spec: SyntheticSpec, random: np.random.Generator | None = None) -> Workload:
    """Generate a workload from *spec*, with *random* or its seed; whole seconds make it reproducible to the bit."""
    random = np.random.default_rng(spec.seed) if random is None else random
    runtime_s = _runtimes(spec, random)
    sizes, weights = np.array([gpus for gpus, _ in spec.gpu_mix]), np.array([weight for _, weight in spec.gpu_mix])
    gpus = random.choice(sizes, size=spec.jobs, p=weights / weights.sum())
    span_s = float(np.sum(runtime_s * gpus)) / (spec.load * spec.cluster_gpus)
    virtual = random.integers(0, spec.partitions, spec.jobs)
    jobs = workload(
        spec.jobs,
        job_id=np.arange(1, spec.jobs + 1),
        submit_s=spec.start_s + np.round(_arrivals(spec, span_s, random)),
        runtime_s=runtime_s,
        gpus=gpus,
        partition=Labels(virtual, tuple(f"vc{number}" for number in range(spec.partitions))),
    )
    return semisynthetic(jobs, spec.habits, random)


def _runtimes(spec: SyntheticSpec, random: np.random.Generator) -> FloatArray:
    if spec.runtimes == "lognormal":
        drawn = spec.median_s * np.exp(spec.spread * random.standard_normal(spec.jobs))
    else:
        least_s = spec.median_s / 2 ** (1 / spec.tail)
        drawn = least_s * (1 + random.pareto(spec.tail, spec.jobs))
    return np.asarray(np.clip(np.round(drawn), 1, spec.longest_s))


def _arrivals(spec: SyntheticSpec, span_s: float, random: np.random.Generator) -> FloatArray:
    """Return rising seconds from the start; the last job arrives at the end of the span, which makes the load exact."""
    if spec.arrivals == "bursty":
        first = random.random(spec.jobs) < 1 / _BURST
        first[0] = True
        starts_s = np.sort(random.uniform(0, span_s, int(first.sum())))
        since_s = np.cumsum(random.exponential(_BURST_GAP_S, spec.jobs))
        burst = np.cumsum(first) - 1
        at_s = np.sort(starts_s[burst] + since_s - since_s[first][burst])
    else:
        at_s = np.cumsum(random.exponential(1.0, spec.jobs))
    at_s = at_s * (span_s / at_s[-1]) if at_s[-1] > 0 else np.full(spec.jobs, span_s)
    return _by_day(at_s, span_s) if spec.arrivals == "diurnal" else at_s


def _by_day(at_s: FloatArray, span_s: float) -> FloatArray:
    """Warp even arrivals to a daily cycle of busy and quiet hours; the last one stays where it is."""
    grid_s = np.linspace(0, span_s, int(span_s / _GRID_S) + 2)
    turn = 2 * math.pi / DAY_S
    passed = grid_s + _SWING / turn * (np.sin(turn * (grid_s - _BUSIEST_S)) + math.sin(turn * _BUSIEST_S))
    return np.asarray(np.interp(at_s * (passed[-1] / span_s), passed, grid_s)) if span_s > 0 else at_s
