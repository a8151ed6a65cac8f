"""Orderings by deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import Changes, ordering
from .attained_service import srtf
from .static import FAR_S


@dataclass(frozen=True)
class EarliestDeadline:
    """The key of ``edf``, with jobs without a deadline in order of submission, or by *remaining* time."""

    remaining: bool = False

    @property
    def changes(self) -> Changes:
        """The moments at which a key changes: remaining time falls while a job runs."""
        return "while_running" if self.remaining else "never"

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        deadline_s = view.pending.deadline_s
        rest = srtf(view) if self.remaining else view.pending.came_s
        return np.where(np.isfinite(deadline_s), deadline_s - FAR_S, rest)


def _tuned(settings: Mapping[str, str]) -> EarliestDeadline:
    """Return the key of ``rest=submission`` or ``rest=remaining``; ConfigError for anything else."""
    if set(settings) != {"rest"} or settings["rest"] not in ("submission", "remaining"):
        raise ConfigError("edf: accepted is rest=submission or rest=remaining: the order of jobs without a deadline")
    return EarliestDeadline(settings["rest"] == "remaining")


@ordering("edf", changes="never", tuned=_tuned, defaults="rest=submission", bare="rest")
def edf(view: View) -> FloatArray:
    """Earliest deadline first; jobs without one after all jobs with one, in order of submission."""
    return EarliestDeadline()(view)
