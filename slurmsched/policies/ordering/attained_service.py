"""Orderings by attained or remaining service: for clusters, real or simulated, with preemptible jobs.

``ran_s`` is the time that a pending job ran before it was preempted. Without preemption it is 0, and ``srtf`` is
``sjf``.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.state import View
from ..contract import ordering
from .static import FAR_S

TIRESIAS_STEPS = (3_600.0, 36_000.0)
"""GPU-seconds between the queues of ``tiresias``: one and ten GPU-hours."""

PROMOTE_KNOB = 8.0
"""The ratio of waiting time to time run at which ``tiresias-promoting`` promotes a job."""


@ordering("srtf", changes="while_running")
def srtf(view: View) -> FloatArray:
    """Shortest remaining time first, by forecast."""
    return view.forecast.rank_s - view.pending.ran_s


@ordering("srsf", changes="while_running")
def srsf(view: View) -> FloatArray:
    """Shortest remaining service first: GPUs times remaining time (Tiresias with known sizes)."""
    return (view.forecast.rank_s - view.pending.ran_s) * np.maximum(view.pending.gpus, 1)


@ordering("las", changes="while_running")
def las(view: View) -> FloatArray:
    """Least attained service first: GPUs times the time run so far."""
    return view.pending.ran_s * np.maximum(view.pending.gpus, 1)


@ordering("tiresias", changes="while_running", steps=TIRESIAS_STEPS)
def tiresias(view: View) -> FloatArray:
    """Queues by attained service, first come first served inside each (Tiresias' two-dimensional discretised LAS)."""
    return _queue(view) * FAR_S + view.pending.first_submit_s


@ordering("tiresias-promoting", changes="with_time", steps=TIRESIAS_STEPS)
def tiresias_promoting(view: View) -> FloatArray:
    """Tiresias that takes starving jobs up: one that waited eight times as long as it ran is in the first queue again.

    This is the PROMOTEKNOB of Gu et al. (NSDI'19). A job that never ran is in the first queue anyway; a promoted job
    stays there until its ratio falls below the knob.
    """
    ran_s = view.pending.ran_s
    waited_s = view.now_s - view.pending.first_submit_s - ran_s
    starves = (ran_s > 0) & (waited_s >= PROMOTE_KNOB * ran_s)
    return np.where(starves, 0, _queue(view)) * FAR_S + view.pending.first_submit_s


def _queue(view: View) -> IntArray:
    """Return the queue of each job by its attained service; the first is 0."""
    attained = view.pending.ran_s * np.maximum(view.pending.gpus, 1)
    return np.searchsorted(TIRESIAS_STEPS, attained, side="right")
