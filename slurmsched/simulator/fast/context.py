"""The context of every event loop: trace, nodes, admission, times of decisions, and results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled
from ..workload.workload import EVERY_JOB
from . import allocations
from .allocations import Allocations, PoolNodes, Segments, no_grants
from .queue import NEVER, Gate, gate


class PoolTrace(NamedTuple):
    """The jobs to replay, in submit order."""

    submit_s: FloatArray
    runtime_s: FloatArray
    gpus: IntArray
    restart_s: FloatArray  #: cost of resuming each job after a preemption


class PoolResult(NamedTuple):
    """The results of a replay, filled by the loop: NaN and zeros at the beginning."""

    start_s: FloatArray  #: first start
    end_s: FloatArray
    nodes: IntArray  #: most nodes a job was spread over
    stops: IntArray  #: preemptions
    idle: FloatArray  #: GPU-seconds free while any job waited, and while an admitted one asked for no more than were


class AwaitedJobs(NamedTuple):
    """The rows whose ends end a replay."""

    first: IntArray  #: of one: the first of them that goes on
    stop: int  #: the row after the last


class PoolContext(NamedTuple):
    """All that a loop reads and writes, whatever its rule of decision."""

    trace: PoolTrace
    site: PoolNodes
    books: Allocations
    gate: Gate
    beat_s: float
    result: PoolResult
    log: Segments
    awaited: AwaitedJobs


def stage(
    trace: PoolTrace,
    site: PoolNodes,
    most: float,
    beat_s: float,
    log: Segments,
    awaited: slice = EVERY_JOB,
) -> PoolContext:
    """Return the context before the first event.

    *most* bounds the GPUs that admitted jobs request together. The replay ends with the last of the *awaited* rows.
    """
    count = len(trace.submit_s)
    books = no_grants(count, site.free)
    nothing = PoolResult(
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(2),
    )
    first, stop, _ = awaited.indices(count)
    wanted = AwaitedJobs(np.full(1, first), stop)
    return PoolContext(trace, site, books, gate(most), beat_s, nothing, log, wanted)


@compiled
def awaited_ended(awaited: AwaitedJobs, end_s: FloatArray) -> bool:
    """Return True once every awaited job has ended."""
    while awaited.first[0] < awaited.stop and not np.isnan(end_s[awaited.first[0]]):
        awaited.first[0] += 1
    return bool(awaited.first[0] >= awaited.stop)


@compiled
def count_idle(idle: FloatArray, gpu_s: float, fits: bool) -> None:
    """Add GPU-seconds that were free while a job waited, and whether an admitted job would have fitted."""
    idle[0] += gpu_s
    if fits:
        idle[1] += gpu_s


@compiled
def decision_due(decide_s: float, now_s: float, beat_s: float) -> float:
    """Return the time of the decision needed now; *decide_s* is one already set, or NEVER."""
    if beat_s <= 0:
        return now_s
    return decide_s if decide_s < NEVER else np.ceil(now_s / beat_s) * beat_s


def validate(stage: PoolContext, capacity: IntArray) -> None:
    """Raise AssertionError where allocations, admission or results disagree; *capacity* is the GPUs of each node."""
    allocations.validate(stage.site, stage.books, capacity)
    gate, over = stage.gate, ~np.isnan(stage.result.end_s)
    assert 0 <= gate.inside[0] <= gate.arrived[0] <= len(over), "more jobs were admitted than have arrived"
    inside = np.arange(len(over)) < gate.inside[0]
    active = stage.trace.gpus[inside & ~over].sum()
    assert gate.requested_gpus[0] == active, "the GPUs of admitted jobs are not those of jobs that go on"
    result = stage.result
    assert (result.start_s[over] <= result.end_s[over]).all(), "a job has ended before it started"
