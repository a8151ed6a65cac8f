"""The ordering of jobs without a promise beside promised ones (Chronus)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import ordering
from ..deadlines.promised_ends import hopeful, with_promise
from ..deadlines.remaining_work import remaining_work
from ..parameters import defaults_of, of_numbers


@dataclass(frozen=True)
class ChronusOrder:
    """The key of ``chronus``; ConfigError for parameters that make no sense."""

    hope: float = 0.125
    """The share of its remaining time that counts for a job of one GPU that may make a deadline without a promise.

    On more GPUs it is the square root of their number times as much, up to all of it, since a deadline earns no more on
    many GPUs. 1 treats it like best effort, 0 puts it before all of that."""

    least: float = 0.5
    """The least probability of making it."""

    slack_s: float = 3_600.0
    """It counts only for a job with less time to spare than this."""

    def __post_init__(self) -> None:
        if not (0 <= self.hope <= 1 and 0 <= self.least <= 1 and 0 <= self.slack_s < np.inf):
            raise ConfigError("chronus: accepted are hope=0..1, least=0..1 and slack_s=SECONDS from 0 on")

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        jobs = view.pending
        work = remaining_work(jobs, view.forecast, view.now_s, np.zeros(len(jobs)))
        ends_s = np.full(len(jobs), np.inf)
        ends_s[with_promise(jobs, view.promises)[0]] = view.now_s
        counts = np.minimum(self.hope * np.sqrt(np.maximum(jobs.gpus, 1)), 1.0)
        hopes = hopeful(view.now_s, jobs, work, ends_s, self.least, self.slack_s)
        return np.asarray(np.where(hopes, counts, 1.0) * work.left_s, np.float64)


@ordering(
    "chronus",
    changes="with_time",
    tuned=partial(of_numbers, ChronusOrder, "chronus"),
    defaults=defaults_of(ChronusOrder),
)
def chronus(view: View) -> FloatArray:
    """Shortest remaining time first; it counts for less where a job without a promise may make its deadline."""
    return ChronusOrder()(view)
