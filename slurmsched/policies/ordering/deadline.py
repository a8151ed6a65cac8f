"""Orderings by deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import Changes, ordering
from ..deadlines.promised_ends import next_step_s
from .attained_service import srtf
from .static import FAR_S

_ACCEPTED = {"rest": ("submission", "remaining"), "late": ("first", "rest")}


@dataclass(frozen=True)
class EarliestDeadline:
    """The key of ``edf``, with jobs without a deadline in order of submission, or by *remaining* time.

    If it *drops* jobs, each stands by the first step of its deadline that it can still make, and one that can make none
    among the jobs without a deadline.
    """

    remaining: bool = False
    drops: bool = False

    @property
    def changes(self) -> Changes:
        """The moments at which a key changes: remaining time falls while a job runs."""
        return "with_time" if self.drops else "while_running" if self.remaining else "never"

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        deadline_s = next_step_s(view.now_s, view.pending, srtf(view)) if self.drops else view.pending.deadline_s
        rest = srtf(view) if self.remaining else view.pending.came_s
        return np.where(np.isfinite(deadline_s), deadline_s - FAR_S, rest)


def _tuned(settings: Mapping[str, str]) -> EarliestDeadline:
    """Return the key of *settings*; ConfigError for anything that is not accepted."""
    if any(text not in _ACCEPTED.get(name, ()) for name, text in settings.items()):
        raise ConfigError(
            "edf: accepted are rest=submission or rest=remaining, the order of jobs without a deadline, and late=first "
            "or late=rest, the place of jobs that can no longer make theirs"
        )
    return EarliestDeadline(settings.get("rest") == "remaining", settings.get("late") == "rest")


@ordering("edf", changes="never", tuned=_tuned, defaults="rest=submission late=first", bare="rest")
def edf(view: View) -> FloatArray:
    """Earliest deadline first; jobs without one after all jobs with one, in order of submission."""
    return EarliestDeadline()(view)
