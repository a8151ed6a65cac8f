"""A case: the jobs of a run. Policies are compared on one case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..cluster.columns import BoolArray
from ..cluster.forecast import Forecast
from .speeds.speed_files import SpeedFiles
from .traces.convergence import stopped_at_convergence
from .traces.partitions import mapped
from .traces.source import Source
from .traces.trace import Trace, TraceError
from .workload.workload import EVERY_JOB, Workload


@dataclass(frozen=True)
class Case:
    """A selection of jobs from a trace, and their arrival rate. Small; the jobs are loaded once per process."""

    source: Source
    seed: int | None = None  #: of generated jobs; None for recorded ones, or for the source's own seed
    load: float = 1.0  #: factor on the arrival rate of jobs
    span: str | None = None  #: only the jobs a:b
    train: str | None = None  #: train forecasts on the jobs a:b too; None for all before *span*
    partitions: tuple[tuple[str, str], ...] = ()  #: partitions of the trace, each with the partition of the cluster
    ckpt: float | None = None  #: share of the jobs that save their work, drawn by seed; None for what the trace says
    stops: str | None = None  #: a file with the part of the work after which jobs converge, and stop
    measure: str | None = None  #: the jobs a:b of those replayed that count in figures about jobs; None for all
    until_measured: bool = False  #: stop once those ended
    speeds: SpeedFiles | None = None  #: how fast its jobs train; None where their runtimes are in the trace
    left_out: tuple[int, ...] = ()  #: rows of what is replayed that could never run on the cluster
    any_type: bool = False  #: jobs take GPUs of any type, since the cluster names no types
    elastic: float | None = None  #: share of the jobs that run on half to twice their GPUs, and save their work
    lean: float | None = None  #: share of the jobs that need no more CPUs and memory than belong to their GPUs

    def __str__(self) -> str:
        load = "" if self.load == 1 else f", load {self.load:g}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.source.name}{load}{seed}"

    def trace(self) -> Trace:
        """Return the jobs to replay; TraceError where there are none."""
        return _trace(self)

    def measured(self) -> slice:
        """Return the rows of ``trace()`` that count in figures about jobs; TraceError where there are none."""
        if self.measure is None:
            return EVERY_JOB
        first, stop = _trace(replace(self, left_out=())).rows(self.measure)
        measured = slice(*(row - sum(out < row for out in self.left_out) for row in (first, stop)))
        if measured.start == measured.stop:
            raise TraceError(f"no job of {self.measure} could ever run on this cluster")
        return measured

    def foresight(self, forecast: str = "history") -> Forecast:
        """Forecast each job's runtime as at its submission: by ``learnt``, or by ``trained`` for *forecast* "model"."""
        return _foresight(self, forecast)


@lru_cache(maxsize=2)
def _whole(source: Source, seed: int | None, partitions: tuple[tuple[str, str], ...]) -> Trace:
    whole = source.load(seed)
    return mapped(whole, partitions) if partitions else whole


@lru_cache(maxsize=4)
def _trace(case: Case) -> Trace:
    whole = _whole(case.source, case.seed, case.partitions)
    trace = (whole if case.span is None else whole.jobs(case.span)).scaled(case.load)
    if case.any_type:
        trace = trace.of_any_type()
    if case.stops is not None:
        trace = stopped_at_convergence(trace, case.stops)
    if case.ckpt is not None:
        trace = replace(trace, workload=replace(trace.workload, ckpt=_drawn(case, len(trace), case.ckpt)))
    if case.elastic is not None:
        trace = replace(trace, workload=_elastic(trace.workload, _drawn(case, len(trace), case.elastic, 1)))
    if case.lean is not None:
        trace = replace(trace, workload=replace(trace.workload, lean=_drawn(case, len(trace), case.lean, 2)))
    return trace.without(case.left_out) if case.left_out else trace


def _drawn(case: Case, count: int, share: float, *stream: int) -> BoolArray:
    """Draw a *share* of so many jobs by the seed; another *stream* draws others."""
    return np.asarray(np.random.default_rng([case.seed or 0, *stream]).random(count) < share)


def _elastic(jobs: Workload, drawn: BoolArray) -> Workload:
    """Return *jobs* with ranges of half to twice their GPUs for those *drawn*, which save their work."""
    some = drawn & (jobs.gpus > 0)
    return replace(
        jobs,
        least_gpus=np.where(some, np.maximum(jobs.gpus // 2, 1), jobs.least_gpus),
        most_gpus=np.where(some, 2 * jobs.gpus, jobs.most_gpus),
        ckpt=jobs.ckpt | some,
    )


@lru_cache(maxsize=2)
def _foresight(case: Case, forecast: str) -> Forecast:
    from .trace_forecasts import learnt, trained  # models, which few replays need

    forecaster = trained if forecast == "model" else learnt
    whole, jobs = _whole(case.source, case.seed, case.partitions), _trace(case).workload
    first = 0 if case.span is None else whole.rows(case.span)[0]
    begin, end = (0, first) if case.train is None else whole.rows(case.train)
    if end > first:
        raise TraceError(f"learning from jobs {case.train!r}: accepted are jobs before those replayed, 0:{first}")
    if begin == end:
        return forecaster(jobs, whole.past)
    # The first replayed job keeps its submit time, and earlier jobs keep their distance from it in the scaled time.
    since_s = float(whole.workload.submit_s[first])
    return forecaster(jobs, whole.jobs(f"{begin}:{end}").scaled(case.load, since_s).workload)
