"""What a replay was like: for the cluster, for its jobs, and whether it was possible at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cluster.columns import FloatArray
from .experiment import Replay

QUANTILES = {"median": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


@dataclass(frozen=True)
class Spread:
    """A distribution in seconds; percentiles interpolate linearly."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float

    @classmethod
    def of(cls, values: FloatArray) -> Spread:
        """The distribution of *values*; NaN where there are none."""
        if not len(values):
            return cls(*[float("nan")] * 5)
        return cls(float(values.mean()), *(float(q) for q in np.percentile(values, list(QUANTILES.values()))))


@dataclass(frozen=True)
class Summary:
    """One row of a comparison."""

    policy: str
    selection: str
    placement: str
    forecast: str
    jobs: int
    jct_s: Spread  #: end - submit
    queue_s: Spread  #: JCT - runtime: all time not spent on work, restarts included
    response_s: Spread  #: first start - submit
    makespan_s: float  #: last end - first submit
    utilisation: float  #: GPU-seconds of work over all GPU-seconds of the makespan
    preemptions: int
    lost_gpu_hours: float  #: spent on going on after preemptions
    spread_jobs: int  #: jobs that were on more nodes than they needed


def summary(replay: Replay) -> Summary:
    """The figures of *replay*."""
    jobs, setup = replay.workload, replay.setup
    jct_s = replay.end_s - jobs.submit_s
    makespan_s = float(replay.end_s.max() - jobs.submit_s.min()) if len(jobs) else 0.0
    work = float((jobs.runtime_s * jobs.gpus).sum())
    needed = -(-jobs.gpus // replay.fleet.size)
    return Summary(
        policy=setup.ordering.name,
        selection=setup.selection,
        placement=setup.placement,
        forecast=setup.forecast,
        jobs=len(jobs),
        jct_s=Spread.of(jct_s),
        queue_s=Spread.of(jct_s - jobs.runtime_s),
        response_s=Spread.of(replay.start_s - jobs.submit_s),
        makespan_s=makespan_s,
        utilisation=work / (makespan_s * replay.fleet.total) if makespan_s else 0.0,
        preemptions=int(replay.stops.sum()),
        lost_gpu_hours=float((replay.stops * jobs.gpus).sum() * setup.restart_s / 3600),
        spread_jobs=int((replay.spread > needed).sum()) if setup.placement != "pool" else 0,
    )


def violations(replay: Replay) -> list[str]:
    """What cannot have happened: jobs lost, started before their submit, work not done, more GPUs than exist."""
    jobs = replay.workload
    found = []
    if np.isnan(replay.end_s).any():
        found.append(f"{int(np.isnan(replay.end_s).sum())} jobs never ended")
        return found
    if (replay.start_s < jobs.submit_s).any():
        found.append(f"{int((replay.start_s < jobs.submit_s).sum())} jobs started before they were submitted")
    spent_s = replay.end_s - replay.start_s
    needed_s = jobs.runtime_s + replay.stops * replay.setup.restart_s
    undisturbed = replay.stops == 0
    wrong = np.where(
        undisturbed, np.abs(spent_s - needed_s) > 1e-6 * (1 + np.abs(replay.end_s)), spent_s < needed_s - 1e-3
    )
    if wrong.any():
        found.append(f"{int(wrong.sum())} jobs did not do their work between their start and their end")
    most = _most_gpus(replay)
    if most > replay.fleet.total:
        found.append(f"{most} GPUs were in use and {replay.fleet.total} exist")
    return found


def _most_gpus(replay: Replay) -> int:
    """GPUs in use at once by jobs that were never preempted; at one instant ends come first."""
    rows = np.flatnonzero(replay.stops == 0)
    times = np.concatenate([replay.start_s[rows], replay.end_s[rows]])
    gpus = np.concatenate([replay.workload.gpus[rows], -replay.workload.gpus[rows]])
    order = np.lexsort((gpus, times))
    return int(np.cumsum(gpus[order]).max(initial=0))
