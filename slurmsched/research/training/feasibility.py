"""What cannot be of jobs that train: more than there is on a node, GPUs of three jobs, work that took no time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.nodes import NodeTable
from ...cluster.training import Allocations
from .progress import JobProgress

_CLOSE = 1e-9


def wrong_amounts(new: Allocations, count: int, nodes: NodeTable) -> str:
    """Say why *count* jobs cannot have *new* on *nodes* at once; empty if they can."""
    shape = count, len(nodes)
    if problem := _no_amount("GPUs", new.gpus, shape):
        return problem
    if new.gpus.dtype.kind not in "iu":
        return f"GPUs of type {new.gpus.dtype}, not whole numbers"
    owned = new.gpus
    if new.beside is not None:
        if problem := _no_pairs(new.beside, new.gpus):
            return problem
        owned = np.where((new.beside > np.arange(count))[:, None], 0, owned)
    for name, given, there in (
        ("GPUs", owned, nodes.gpus),
        ("CPUs", new.cpus, nodes.cpus),
        ("memory", new.memory_mib, nodes.memory_mib),
    ):
        if given is None:
            continue
        if problem := _no_amount(name, given, shape):
            return problem
        if (over := np.flatnonzero(given.sum(axis=0) > there * (1 + _CLOSE))).size:
            return f"more {name} than {nodes.name[over[0]]} has"
    return ""


def _no_amount(name: str, given: Any, shape: tuple[int, int]) -> str:
    if not isinstance(given, np.ndarray) or given.shape != shape or not (given >= 0).all():  # NaN is no amount either
        return f"{name} of no amount per job and node"
    return ""


def _no_pairs(beside: IntArray, gpus: IntArray) -> str:
    """Say why jobs cannot share GPUs as *beside* says; empty if they can."""
    rows = np.arange(len(gpus))
    if beside.shape != rows.shape or beside.dtype.kind not in "iu" or not ((beside >= -1) & (beside < len(gpus))).all():
        return "pairs with rows that are none"
    shares = np.flatnonzero(beside >= 0)
    other = beside[shares]
    if (other == shares).any() or (beside[other] != shares).any() or (gpus[other] != gpus[shares]).any():
        return "pairs that are not two jobs on the same GPUs"
    return ""


def impossible_progress(progress: JobProgress, submit_s: FloatArray, start_s: FloatArray) -> list[str]:
    """Return what is impossible of jobs that were submitted, began and progressed so, all of which must have ended."""
    problems = []
    if not np.isfinite(progress.end_s).all():
        problems.append("a job never ended")
    if not (start_s >= submit_s).all() or not (progress.end_s >= start_s).all():
        problems.append("a job began before it came, or ended before it began")
    last = np.take_along_axis(progress.until, progress.epochs[:, None] - 1, axis=1)[:, 0]
    if not (progress.done == last).all():
        problems.append("a job ended before its work")
    if not (np.abs(progress.credit - last) <= progress.rounding + _CLOSE * last).all():
        problems.append("a job did more or less than its rates and its time allow")
    return problems
