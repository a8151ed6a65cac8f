"""What every event loop works on: the trace, the nodes, the gate, when decisions are made, and what is filled in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled
from .allocations import Allocations, PoolNodes, Segments, no_grants
from .queue import NEVER, Gate, gate


class PoolTrace(NamedTuple):
    """What happens: jobs in submit order."""

    submit_s: FloatArray
    runtime_s: FloatArray
    gpus: IntArray
    restart_s: FloatArray  #: what going on after a stop costs a job


class PoolResult(NamedTuple):
    """What came of it, to be filled: NaN and zeros at the beginning."""

    start_s: FloatArray  #: first start
    end_s: FloatArray
    nodes: IntArray  #: most nodes a job was spread over
    stops: IntArray  #: preemptions
    idle: FloatArray  #: GPU-seconds free while any job waited, and while one inside asked for no more than were


class PoolContext(NamedTuple):
    """All that a loop works on, whatever it decides by."""

    trace: PoolTrace
    site: PoolNodes
    books: Allocations
    gate: Gate
    beat_s: float
    result: PoolResult
    log: Segments


def stage(trace: PoolTrace, site: PoolNodes, most: float, beat_s: float, log: Segments) -> PoolContext:
    """Before the first event, where jobs inside may ask for *most* GPUs together."""
    count = len(trace.submit_s)
    books = no_grants(count, site.free)
    nothing = PoolResult(
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(2),
    )
    return PoolContext(trace, site, books, gate(most), beat_s, nothing, log)


@compiled
def count_idle(idle: FloatArray, gpu_s: float, fits: bool) -> None:
    """Account for GPU-seconds free while a job waited, and whether they were while one inside fitted."""
    idle[0] += gpu_s
    if fits:
        idle[1] += gpu_s


@compiled
def decision_due(decide_s: float, now_s: float, beat_s: float) -> float:
    """When the decision is made that is wanted now, *decide_s* being one that was set before, or NEVER."""
    if beat_s <= 0:
        return now_s
    return decide_s if decide_s < NEVER else np.ceil(now_s / beat_s) * beat_s
