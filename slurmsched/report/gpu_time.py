"""The GPU time of runs in a span, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.profiles import MeasuredNodes

SAME_S = 60.0  #: the greatest difference between the clocks of a node and of the controller
IDLE_BELOW = 0.05  #: mean utilisation below which a GPU with processes counts as idle


@dataclass(frozen=True, eq=False)
class GpuTime:
    """GPU-seconds of each run in the span: those it held, and the parts that were measured."""

    held_s: FloatArray
    measured_s: FloatArray
    used_s: FloatArray  #: measured, weighted by utilisation
    no_process_s: FloatArray  #: measured, without a process
    below_s: FloatArray  #: measured, with processes that hardly used the GPU

    def sums(self, rows: BoolArray | slice = slice(None)) -> dict[str, float]:
        """Return the sums over *rows*, in hours, by name without the unit."""
        return {f.name.removesuffix("_s"): float(getattr(self, f.name)[rows].sum()) / 3600.0 for f in fields(self)}


def gpu_time(runs: OutcomeTable, nodes: MeasuredNodes, since_s: float, until_s: float) -> GpuTime:
    """Sum the GPU time of *runs* in [since_s, until_s), and what *nodes* measured of it.

    A run that began before the span, or went on after it, counts with its part, its suspended time in
    proportion. What was measured is never more than what the run held.
    """
    held_s = runs.gpus * seconds_in(runs, since_s, until_s)
    run, sums = _measured(runs, nodes, since_s, until_s)
    measured_s = np.bincount(run, sums[0], len(runs))
    part = np.divide(held_s, measured_s, out=np.zeros(len(runs)), where=measured_s > 0)
    part = np.minimum(part, 1.0)
    of_runs: list[FloatArray] = [part * np.bincount(run, each, len(runs)) for each in sums]
    return GpuTime(held_s, *of_runs)


def seconds_in(runs: OutcomeTable, since_s: float, until_s: float) -> FloatArray:
    """Return how long each run ran in [since_s, until_s); 0 for one that never started."""
    began_s = np.where(np.isfinite(runs.started_s), runs.started_s, runs.ended_s)
    inside_s = np.minimum(runs.ended_s, until_s) - np.maximum(began_s, since_s)
    whole_s = runs.ended_s - began_s
    awake = np.divide(runs.runtime_s, whole_s, out=np.zeros(len(runs)), where=whole_s > 0)
    return np.asarray(np.maximum(inside_s, 0.0) * np.minimum(awake, 1.0))


def run_of(runs: OutcomeTable, job_id: IntArray, restart: IntArray, at_s: FloatArray) -> IntArray:
    """Return the row of the run of each job, restart and start by a node's clock; -1 where there is none.

    Slurm reuses ids: of several such runs it is the last that had begun.
    """
    began = np.flatnonzero(np.isfinite(runs.started_s))
    keys = np.concatenate([_key(runs.job_id[began], runs.restart[began]), _key(job_id, restart)])
    _, rank = np.unique(keys, return_inverse=True)
    rank = rank.reshape(-1).astype(np.int64)
    of_run = (rank[: len(began)] << 34) + runs.started_s[began].astype(np.int64)
    of_node = (rank[len(began) :] << 34) + (at_s + SAME_S).astype(np.int64)
    order = np.argsort(of_run, kind="stable")
    place = np.searchsorted(of_run[order], of_node, side="right") - 1
    if not len(began):
        return np.full(len(job_id), -1, dtype=np.int64)
    row = order[np.maximum(place, 0)]
    same = (place >= 0) & (rank[row] == rank[len(began) :])
    same &= at_s <= runs.ended_s[began[row]] + SAME_S
    return np.where(same, began[row], -1)


def keys(job_id: IntArray, at_s: FloatArray) -> IntArray:
    """Return a key for each job and second; Slurm reuses ids."""
    whole_s = np.where(np.isfinite(at_s), at_s, 0.0).astype(np.int64)
    return (job_id.astype(np.int64) << 31) + (whole_s & (2**31 - 1))


def _key(job_id: IntArray, restart: IntArray) -> IntArray:
    return (job_id.astype(np.int64) << 20) + restart


def _measured(
    runs: OutcomeTable, nodes: MeasuredNodes, since_s: float, until_s: float
) -> tuple[IntArray, tuple[FloatArray, ...]]:
    """Return the run of each record of a node, and its GPU-seconds: all, used, without a process, hardly used."""
    run = run_of(runs, nodes.job_id, nodes.restart, nodes.start_s)
    known = (run >= 0) & np.isfinite(nodes.process_share) & np.isfinite(nodes.gpu_util) & (nodes.measured_s > 0)
    nodes, run = nodes.take(known), run[known]
    inside_s = np.minimum(nodes.end_s, until_s) - np.maximum(nodes.start_s, since_s)
    part = np.clip(inside_s / np.maximum(nodes.end_s - nodes.start_s, 1.0), 0.0, 1.0)
    all_s = nodes.gpus * nodes.measured_s * part
    busy_s = all_s * np.clip(nodes.process_share, 0.0, 1.0)
    used_s = busy_s * np.clip(nodes.gpu_util, 0.0, 1.0)
    below_s = np.where(nodes.gpu_util < IDLE_BELOW, busy_s, 0.0)
    return run, (all_s, used_s, all_s - busy_s, below_s)
