"""Amounts of GPUs in which slices count as their part of a GPU."""

from __future__ import annotations

import numpy as np

from .columns import FloatArray, IntArray
from .jobs import JobTable
from .nodes import NodeTable, by_type
from .text.gpu_types import GpuParts
from .text.plural import count


def gpus_of_nodes(nodes: NodeTable, parts: GpuParts) -> tuple[FloatArray, FloatArray]:
    """Return the GPUs of each node, and those in use; slices count as their parts."""
    part = parts.of_each(nodes.gpu_type)
    has, used = nodes.gpus * part, nodes.gpus_used * part
    for row in np.flatnonzero(nodes.gpu_types.nonempty()).tolist():
        each = {kind: parts.of(kind) for kind in by_type(nodes.gpu_types[row])}
        has[row] = sum(many * each[kind] for kind, many in by_type(nodes.gpu_types[row]).items())
        in_use = by_type(nodes.gpu_types_used[row])
        share = float(nodes.gpus_used[row]) / max(1, int(nodes.gpus[row]))
        used[row] = sum(many * each.get(kind, 1.0) for kind, many in in_use.items()) if in_use else has[row] * share
    return has, used


def gpus_of_jobs(jobs: JobTable, parts: GpuParts) -> FloatArray:
    """Return the GPUs of each job, of an array those of one task; slices count as their parts."""
    return np.asarray(jobs.gpus * parts.of_each(jobs.gpu_type), dtype=np.float64)


def asked_words(jobs: JobTable, rows: IntArray, parts: GpuParts) -> str:
    """Return what some *rows* ask for with all their tasks: ``3 GPUs and 7 slices``, ``16 cores`` without any GPU."""
    slices = jobs.gpu_type.map([parts.is_slice(name) for name in jobs.gpu_type.names], np.bool_)[rows]
    asked = (jobs.gpus * jobs.tasks)[rows]
    whole, cut = int(asked[~slices].sum()), int(asked[slices].sum())
    if not whole and not cut:
        return count(int((jobs.cpus * jobs.tasks)[rows].sum()), "core")
    return " and ".join([count(whole, "GPU")] * bool(whole) + [count(cut, "slice")] * bool(cut))
