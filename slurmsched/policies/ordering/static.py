"""Basic orderings: Slurm's own, and by forecast runtime or service."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ..contract import ordering

FAR_S = 1e11
"""Later than any time in Unix seconds."""


@ordering("fifo", changes="never", native=True)
def fifo(view: View) -> FloatArray:
    """Slurm's own order: whatever multifactor says, untouched by us."""
    return np.zeros(len(view.pending))


@ordering("unchanged")
def unchanged(view: View) -> FloatArray:
    """The order that jobs have: by their priority in Slurm, with the points that they got before."""
    return -view.pending.priority.astype(np.float64)


@ordering("sjf", changes="never")
def sjf(view: View) -> FloatArray:
    """Shortest job first, by forecast runtime."""
    return view.forecast.rank_s


@ordering("qssf", changes="never")
def qssf(view: View) -> FloatArray:
    """Quasi-shortest service first: GPUs times forecast runtime (Lucid, Algorithm 2)."""
    return view.forecast.rank_s * np.maximum(view.pending.gpus, 1)


@ordering("lucid", changes="never")
def lucid(view: View) -> FloatArray:
    """GPUs times forecast runtime (Lucid, Algorithm 2): what `qssf` does, for a composition that also packs jobs."""
    return qssf(view)
