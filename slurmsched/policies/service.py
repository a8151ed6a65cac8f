"""Orderings by the service a job has had or still needs: for clusters, real or simulated, whose jobs can yield.

``ran_s`` is what a pending job has run before it yielded. Where jobs never yield it is zero, and ``srtf`` is ``sjf``.
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.state import View
from .hooks import ordering

TIRESIAS_STEPS = (3_600.0, 36_000.0)
"""GPU-seconds between the queues of ``tiresias``: one and ten GPU-hours."""

FAR_S = 1e11
"""Later than any submit time."""


@ordering("srtf", changes="while_running")
def srtf(view: View) -> FloatArray:
    """Shortest remaining time first, by forecast."""
    return view.forecast.runtime_s - view.pending.ran_s


@ordering("srsf", changes="while_running")
def srsf(view: View) -> FloatArray:
    """Shortest remaining service first: GPUs times remaining time (Tiresias with known sizes)."""
    return (view.forecast.runtime_s - view.pending.ran_s) * np.maximum(view.pending.gpus, 1)


@ordering("las", changes="while_running")
def las(view: View) -> FloatArray:
    """Least attained service first: GPUs times the time run so far."""
    return view.pending.ran_s * np.maximum(view.pending.gpus, 1)


@ordering("tiresias", changes="while_running", steps=TIRESIAS_STEPS)
def tiresias(view: View) -> FloatArray:
    """Queues by attained service, first come first served inside each (Tiresias' two-dimensional discretised LAS)."""
    attained = view.pending.ran_s * np.maximum(view.pending.gpus, 1)
    return np.searchsorted(TIRESIAS_STEPS, attained, side="right") * FAR_S + view.pending.first_submit_s
