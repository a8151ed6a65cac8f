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


@ordering("genie", changes="with_time")
def genie(view: View) -> FloatArray:
    """Least time to spare before the deadline first; then jobs that must miss it, then jobs without one.

    The time to spare is that until the deadline less the remaining runtime by forecast, which counts as 0 where there
    is none. The other jobs are in order of submission (Chen et al., TPDS'20, as Chronus section 4.3 has it).
    """
    pending = view.pending
    left_s = np.nan_to_num(np.maximum(srtf(view), 0.0))
    spare_s = pending.deadline_s - view.now_s - left_s
    level = np.where(np.isinf(spare_s), 2, spare_s < 0) * FAR_S
    return level + np.where(level > 0, pending.came_s, spare_s)
