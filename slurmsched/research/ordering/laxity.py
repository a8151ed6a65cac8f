"""Jobs that are about to miss their deadline first, and all others by remaining time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ...policies.contract import ordering
from ...policies.deadlines.promised_ends import next_step_s
from ...policies.ordering.attained_service import srtf
from ...policies.ordering.static import FAR_S
from ...policies.parameters import defaults_of, of_numbers


@dataclass(frozen=True)
class LaxityOrder:
    """The key of ``laxity``; ConfigError for a negative or unknown time."""

    within_s: float = 3_600.0
    """A job with less time to spare than this comes before all others."""

    def __post_init__(self) -> None:
        if not 0 <= self.within_s < np.inf:
            raise ConfigError("laxity: accepted is within_s=SECONDS from 0 on")

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        left_s = srtf(view)
        spare_s = next_step_s(view.now_s, view.pending, left_s) - view.now_s - np.nan_to_num(left_s)
        return np.asarray(np.where(spare_s < self.within_s, spare_s - FAR_S, left_s), np.float64)


@ordering(
    "laxity",
    changes="with_time",
    tuned=partial(of_numbers, LaxityOrder, "laxity"),
    defaults=defaults_of(LaxityOrder),
    bare="within_s",
)
def laxity(view: View) -> FloatArray:
    """Jobs with little time to spare before the first step of a deadline that they can make; then `srtf`."""
    return LaxityOrder()(view)
