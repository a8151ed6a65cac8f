"""Figures of a replay: for the cluster, for its jobs, and checks that it was possible."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.text.plural import count
from ..machine.pace import pace_of
from ..replay import Replay, restart_costs
from ..workload.workload import DOUBLING
from .deadlines import Deadlines
from .fairness import Fairness
from .forecast_accuracy import ForecastAccuracy
from .link_bandwidth import LinkBandwidth
from .training_figures import TrainingFigures

QUANTILES = {"median": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


@dataclass(frozen=True)
class Distribution:
    """A distribution in seconds; percentiles interpolate linearly."""

    mean: float
    median: float
    p90: float
    p99: float
    p999: float

    @classmethod
    def of(cls, values: FloatArray) -> Distribution:
        """Compute the distribution of *values*; NaN where there are none."""
        if not len(values):
            return cls(*[float("nan")] * 5)
        return cls(float(values.mean()), *(float(q) for q in np.percentile(values, list(QUANTILES.values()))))


@dataclass(frozen=True)
class Summary:
    """The figures of one policy in a comparison; NaN where one does not apply or is not known."""

    policy: str
    selection: str
    placement: str
    forecast: str
    jobs: int
    unfinished: tuple[int, ...]  #: ids of those that did not end in the replay: without their times there are no means
    jct_s: Distribution  #: end - submit
    queue_s: Distribution  #: JCT - runtime: all time not spent on work, restarts included
    response_s: Distribution  #: first start - submit
    makespan_s: float  #: last end - first submit
    utilisation: float  #: GPU-seconds of work over all GPU-seconds of the makespan
    idle_while_waiting: float  #: GPU-seconds free while any job waited, over the same
    fragmentation: float  #: those of them free while a waiting job asked for no more GPUs than were free, over the same
    preemptions: int
    lost_gpu_hours: float  #: spent on resuming after preemptions
    spread_jobs: int  #: jobs that were on more nodes than they needed
    fairness: Fairness
    deadline_miss_rate: float  #: share of the jobs with a deadline that ended after it
    weighted_deadline_miss_rate: float  #: share of all possible rewards of deadlines that was not earned
    accuracy: ForecastAccuracy  #: of the policy's runtime forecasts
    decided_by: str  #: decide, the daemon's own function; fast, compiled loops that tests hold equal to it
    cycles: int  #: decisions made by the former
    decide_ms: dict[str, float]  #: their time: p50 and p99
    deadlines: dict[str, float]  #: missed, unearned (shares), promised, refused, broken, warned, alarms (jobs)
    best_effort_jct_s: float  #: mean JCT of jobs without a deadline
    pairs: int  #: changes of jobs to shared GPUs
    auto: dict[str, Any] | None  #: decisions, switches, max_decision_s, changes; None where the composition is fixed
    yields: int  #: running jobs that were requeued or asked to stop for others
    links: LinkBandwidth
    load_control: str | None  #: of the executor tasks; None elsewhere, and so is the next
    training: TrainingFigures | None


def summary(replay: Replay) -> Summary:
    """Compute the figures of *replay*: about jobs of the measured ones, about the cluster of all that happened."""
    setup, counted = replay.setup, replay.measured
    jobs = replay.workload.take(counted)
    jct_s = (replay.end_s - replay.workload.submit_s)[counted]
    makespan_s, work = _extent(replay)
    capacity = makespan_s * replay.fleet.total
    stops, spread = replay.stops[counted], replay.spread[counted]
    needed = np.maximum(-(-jobs.gpus // max(replay.fleet.size, 1)), 1)
    deadlines = Deadlines.of(replay)
    return Summary(
        policy=setup.label,
        selection=setup.selection,
        placement=setup.placement,
        forecast=setup.forecast,
        jobs=len(jobs),
        unfinished=tuple(jobs.job_id[np.isnan(jct_s)].tolist()),
        jct_s=Distribution.of(jct_s),
        queue_s=Distribution.of(jct_s - jobs.runtime_s),
        response_s=Distribution.of(replay.start_s[counted] - jobs.submit_s),
        makespan_s=makespan_s,
        utilisation=work / capacity if capacity else 0.0,
        idle_while_waiting=replay.idle_gpu_s / capacity if capacity else np.nan,
        fragmentation=replay.fragmented_gpu_s / capacity if capacity else np.nan,
        preemptions=int(stops.sum()),
        lost_gpu_hours=float((stops * jobs.gpus * restart_costs(jobs, setup)).sum() / 3600),
        spread_jobs=int((spread > needed).sum()) if setup.placement != "pool" else 0,
        fairness=Fairness.of(replay),
        deadline_miss_rate=deadlines.missed,
        weighted_deadline_miss_rate=deadlines.unearned,
        accuracy=ForecastAccuracy.of(replay),
        links=LinkBandwidth.of(replay),
        load_control=None if replay.tasks is None else setup.load_control,
        training=TrainingFigures.of(replay),
        **_of_decisions(replay, deadlines, jct_s),
    )


def _extent(replay: Replay) -> tuple[float, float]:
    """Return the time from the first submission to the last end, and the GPU-seconds of work in it, NaN if unknown."""
    if not len(replay.workload):
        return 0.0, 0.0
    jobs, go_on = replay.workload, np.isnan(replay.end_s).any()
    makespan_s = float(np.nanmax(replay.end_s) - jobs.submit_s.min())
    served_gpu_s = jobs.runtime_s * jobs.gpus if replay.served_gpu_s is None else replay.served_gpu_s
    return makespan_s, np.nan if go_on else float(served_gpu_s.sum())


def _of_decisions(replay: Replay, deadlines: Deadlines, jct_s: FloatArray) -> dict[str, Any]:
    """Return the figures about decisions, and about deadlines and the other jobs."""
    made, best_effort = replay.decisions, ~np.isfinite(replay.workload.deadline_s[replay.measured])
    counts = {name: getattr(made, name) for name in ("promised", "refused", "broken", "warned", "alarms")}
    return {
        "decided_by": made.decided_by,
        "cycles": made.cycles,
        "decide_ms": dict(zip(("p50", "p99"), made.decide_ms, strict=True)),
        "deadlines": {"missed": deadlines.missed, "unearned": deadlines.unearned, **counts},
        "best_effort_jct_s": float(jct_s[best_effort].mean()) if best_effort.any() else np.nan,
        "pairs": made.pairs,
        "auto": None if replay.synthesis is None else asdict(replay.synthesis),
        "yields": made.yields,
    }


def violations(replay: Replay) -> list[str]:
    """List impossible outcomes: jobs lost, started before their submit, work not done, more GPUs than exist."""
    jobs = replay.workload
    found = []
    if np.isnan(replay.end_s).any():
        found.append(f"{count(int(np.isnan(replay.end_s).sum()), 'job')} never ended")
        return found
    if (replay.start_s < jobs.submit_s).any():
        found.append(f"{count(int((replay.start_s < jobs.submit_s).sum()), 'job')} started before submission")
    spent_s = replay.end_s - replay.start_s
    needed_s = jobs.runtime_s + replay.stops * restart_costs(jobs, replay.setup)
    shares = replay.fleet.sharing is not None
    pace = pace_of(jobs, replay.fleet)
    slows = (pace.by_nodes != 1).any(axis=1)[pace.kind] | (pace.by_type != 1).any(axis=1)[pace.type_kind]
    elastic = _elastic(replay)
    within = np.where(_on_one_node(replay), max(replay.fleet.size, 1), replay.fleet.total)
    most_gpus = np.minimum(jobs.most_gpus, within)[elastic]
    needed_s[elastic] = jobs.runtime_s[elastic] / (most_gpus / jobs.gpus[elastic]) ** np.log2(DOUBLING)
    undisturbed = (replay.stops == 0) & ~slows & ~elastic & (not shares)
    wrong = np.where(
        undisturbed, np.abs(spent_s - needed_s) > 1e-6 * (1 + np.abs(replay.end_s)), spent_s < needed_s - 1e-3
    )
    if wrong.any():
        found.append(f"{count(int(wrong.sum()), 'job')} did not do all work between start and end")
    most = _most_gpus(replay)
    if most > replay.fleet.total * (1 + shares):
        found.append(f"{most} GPUs were in use and {replay.fleet.total} exist")
    return found


def _elastic(replay: Replay) -> BoolArray:
    """Select the jobs that could have had other numbers of GPUs than their own."""
    rules = replay.setup.resizing if replay.setup.site is None else replay.setup.site.rules.resizing
    if rules is None:
        return np.zeros(len(replay.workload), dtype=np.bool_)
    return np.asarray((replay.workload.most_gpus > 0) & (_on_one_node(replay) | rules.nodes))


def _on_one_node(replay: Replay) -> BoolArray:
    """Select the jobs that need no more than one node."""
    jobs = replay.workload
    return np.asarray((jobs.gpus <= replay.fleet.size) & (jobs.nodes <= 1))


def _most_gpus(replay: Replay) -> int:
    """Return the most GPUs in use at once by jobs that kept theirs all the time; at one instant ends come first."""
    rows = np.flatnonzero((replay.stops == 0) & ~_elastic(replay))
    times = np.concatenate([replay.start_s[rows], replay.end_s[rows]])
    gpus = np.concatenate([replay.workload.gpus[rows], -replay.workload.gpus[rows]])
    order = np.lexsort((gpus, times))
    return int(np.cumsum(gpus[order]).max(initial=0))
