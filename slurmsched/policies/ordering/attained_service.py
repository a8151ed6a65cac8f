"""Orderings by attained or remaining service: for clusters, real or simulated, with preemptible jobs.

``ran_s`` is the time that a pending job ran before it was preempted. Without preemption it is 0, and ``srtf`` is
``sjf``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import ordering
from .static import FAR_S

TIRESIAS_STEPS = (3_600.0, 36_000.0)
"""GPU-seconds between the queues of ``tiresias``: one and ten GPU-hours."""

PROMOTE_KNOB = 8.0
"""The ratio of waiting time to time run at which ``tiresias-promoting`` promotes a job."""


@ordering("srtf", changes="while_running", turns=True)
def srtf(view: View) -> FloatArray:
    """Shortest remaining time first, by forecast."""
    return view.forecast.rank_s - view.pending.ran_s


@ordering("srsf", changes="while_running", turns=True)
def srsf(view: View) -> FloatArray:
    """Shortest remaining service first: GPUs times remaining time (Tiresias with known sizes)."""
    return (view.forecast.rank_s - view.pending.ran_s) * np.maximum(view.pending.gpus, 1)


@ordering("las", changes="while_running", turns=True)
def las(view: View) -> FloatArray:
    """Least attained service first: GPUs times the time run so far."""
    return view.pending.ran_s * np.maximum(view.pending.gpus, 1)


@dataclass(frozen=True)
class ServiceQueues:
    """The key of ``tiresias`` with queues between *steps*, in GPU-seconds of attained service."""

    steps: tuple[float, ...] = TIRESIAS_STEPS
    promotes: bool = False

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        queue = np.searchsorted(self.steps, view.pending.ran_s * np.maximum(view.pending.gpus, 1), side="right")
        return np.where(_starves(view) & self.promotes, 0, queue) * FAR_S + view.pending.came_s


def _queues(settings: Mapping[str, str]) -> ServiceQueues:
    """Return the queues of ``steps=3600,36000``; ConfigError unless these are rising numbers above 0."""
    try:
        steps = tuple(float(step) for step in settings.get("steps", "").split(","))
    except ValueError:
        steps = ()
    rising = all(one < other for one, other in pairwise((0.0, *steps, math.inf)))
    if set(settings) != {"steps"} or not steps or not rising:
        raise ConfigError("tiresias: accepted is steps=A,B,...: GPU-seconds between its queues, above 0 and rising")
    return ServiceQueues(steps)


def _promoting(settings: Mapping[str, str]) -> ServiceQueues:
    return replace(_queues(settings), promotes=True)


_DEFAULTS = "steps=" + ",".join(f"{step:g}" for step in TIRESIAS_STEPS)


@ordering(
    "tiresias",
    changes="while_running",
    turns=True,
    steps=TIRESIAS_STEPS,
    tuned=_queues,
    defaults=_DEFAULTS,
    bare="steps",
)
def tiresias(view: View) -> FloatArray:
    """Queues by attained service, first come first served inside each (Tiresias' two-dimensional discretised LAS)."""
    return ServiceQueues()(view)


@ordering(
    "tiresias-promoting",
    changes="with_time",
    turns=True,
    steps=TIRESIAS_STEPS,
    tuned=_promoting,
    defaults=_DEFAULTS,
    bare="steps",
)
def tiresias_promoting(view: View) -> FloatArray:
    """Tiresias that takes starving jobs up: one that waited eight times as long as it ran is in the first queue again.

    This is the PROMOTEKNOB of Gu et al. (NSDI'19). A job that never ran is in the first queue anyway; a promoted job
    stays there until its ratio falls below the knob.
    """
    return ServiceQueues(promotes=True)(view)


def _starves(view: View) -> BoolArray:
    """Select the jobs that waited PROMOTE_KNOB times as long as they ran."""
    ran_s = view.pending.ran_s
    waited_s = view.now_s - view.pending.came_s - ran_s
    starves: BoolArray = (ran_s > 0) & (waited_s >= PROMOTE_KNOB * ran_s)
    return starves
