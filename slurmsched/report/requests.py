"""What runs asked for beside what they used: time limits, memory of GPUs, CPUs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, places_of
from ..cluster.jobs import JobState
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.profiles import MeasuredNodes
from ..cluster.records.usage import KeptUsage
from ..models.completion.completion_calibration import size_of
from .answer import CpuHours, GpuMemory, NodeMemory, Requests
from .gpu_time import keys, run_of

HOUR_S = 3600.0
SIZES = ("no GPU", "1 GPU", "2-8 GPUs", "over 8 GPUs")
_WHOLE = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY)


def requests(runs: OutcomeTable, since_s: float) -> Iterator[Requests]:
    """Yield requested against used limits of runs that ended by themselves since *since_s*: of all, then by size."""
    ended = np.isin(runs.state, _WHOLE) & (runs.ended_s >= since_s) & np.isfinite(runs.started_s)
    limited = ended & np.isfinite(runs.time_limit_s) & (runs.time_limit_s > 0)
    if not limited.any():
        return
    yield _requests("", runs.take(limited))
    for size, rows in by_size(runs.gpus):
        if (limited & rows).any():
            yield _requests(size, runs.take(limited & rows))


def by_size(gpus: IntArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield each class of sizes with the mask of its rows."""
    distinct, which = np.unique(gpus, return_inverse=True)
    names = np.array([size_of(int(many)) for many in distinct], dtype=object)[which.reshape(-1)] if len(gpus) else gpus
    for size in SIZES:
        yield size, np.asarray(names == size, dtype=np.bool_)


def gpu_memory(runs: OutcomeTable, nodes: MeasuredNodes) -> GpuMemory | None:
    """Return the largest use of memory per GPU over measured runs; None where nothing was measured."""
    run = run_of(runs, nodes.job_id, nodes.restart, nodes.start_s)
    known = (run >= 0) & np.isfinite(nodes.memory_mib) & (nodes.gpus > 0)
    if not known.any():
        return None
    most: FloatArray = np.full(len(runs), -np.inf)
    np.maximum.at(most, run[known], nodes.memory_mib[known] / nodes.gpus[known] / 1024.0)
    most = most[np.isfinite(most)]
    p50, p90 = np.percentile(most, (50, 90))
    return {"runs": len(most), "p50": float(p50), "p90": float(p90), "most": float(most.max())}


def cpu_hours(runs: OutcomeTable, seconds: FloatArray, use: KeptUsage) -> CpuHours:
    """Return the CPU-hours of *runs* that ran for these *seconds*, and what accounting measured of them."""
    cpu_s, row = runs.cpus * seconds, _row_of(runs, use)
    busy = np.where(row >= 0, (use.cpus * use.nodes)[row], np.nan) if len(use) else np.full(len(runs), np.nan)
    known = np.isfinite(busy)
    return {
        "held": float(cpu_s.sum()) / HOUR_S,
        "beside_gpus": float(cpu_s[runs.gpus > 0].sum()) / HOUR_S,
        "measured": float((runs.cpus * runs.runtime_s)[known].sum()) / HOUR_S,
        "used": float((busy * runs.runtime_s)[known].sum()) / HOUR_S,
    }


def node_memory(runs: OutcomeTable, use: KeptUsage) -> NodeMemory | None:
    """Return the memory that *runs* held beside the most that they used; None where accounting measured none."""
    row = _row_of(runs, use)
    runs, row = runs.take(row >= 0), row[row >= 0]
    held, most = use.held_memory_mib[row], use.memory_mib[row]
    known = np.isfinite(held) & np.isfinite(most) & (held > 0)
    if not known.any():
        return None
    held, most, node_h = held[known], most[known], (use.nodes[row] * runs.runtime_s)[known] / HOUR_S
    p50, p90 = np.percentile(most / held, (50, 90))
    return {
        "runs": len(held),
        "held": float((held * node_h).sum()) / 1024.0,
        "used": float((most * node_h).sum()) / 1024.0,
        "share_p50": float(p50),
        "share_p90": float(p90),
    }


def _row_of(runs: OutcomeTable, use: KeptUsage) -> IntArray:
    """Return the row of *use* of each run, by its job and the second of its end; -1 where there is none."""
    known, asked = (keys(table.job_id, table.ended_s) for table in (use, runs))
    return np.where(runs.state == JobState.RUNNING, -1, places_of(asked, known, first=True))


def asked_hours(runs: OutcomeTable) -> float:
    """Return the GPU-hours that the limits of *runs* reserved; those without a limit are left out."""
    limited = np.isfinite(runs.time_limit_s)
    return float((runs.gpus[limited] * runs.time_limit_s[limited]).sum()) / HOUR_S


def _requests(size: str, runs: OutcomeTable) -> Requests:
    p10, p50, p90 = np.percentile(runs.runtime_s / runs.time_limit_s, (10, 50, 90))
    return {
        "size": size,
        "runs": len(runs),
        "asked": asked_hours(runs),
        "held": float((runs.gpus * runs.runtime_s).sum()) / HOUR_S,
        "used_p10": float(p10),
        "used_p50": float(p50),
        "used_p90": float(p90),
        "timeouts": int((runs.state == JobState.TIMEOUT).sum()),
    }
