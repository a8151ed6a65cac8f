"""Requests for deadlines and their answers, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of

SAME_S = 2.0
"""The largest difference between two readings of one time: Slurm counts in whole seconds."""


class PromiseState(IntEnum):
    """The state of a request for a deadline."""

    REFUSED = 0  #: nothing was promised; the job runs like any other
    OPEN = 1  #: promised, the job has not ended, and the promise can still be kept
    MET = 2  #: a run of the job ended by then, by our own observation or by accounting
    BROKEN = 3  #: promised, but not met
    WITHDRAWN = 4  #: promised, then the owner or an admin changed or cancelled the job
    LOST = 5  #: promised, then Slurm forgot the job, without a known run that ended in time


@dataclass(frozen=True, eq=False)
class PromiseTable(Table):
    """Requests for deadlines, one row each, oldest first; times are Unix seconds, NaN where missing."""

    job_id: IntArray
    first_submit_s: FloatArray
    asked_s: FloatArray  #: when the answer was given
    user: Labels
    account: Labels
    gpus: IntArray
    deadline_s: FloatArray  #: by the comment at that time
    needs_s: FloatArray  #: the runtime that counts against quotas: planned without its pace, more once it ran longer
    state: IntArray  #: a PromiseState
    promised_s: FloatArray  #: the promised time: the deadline, or a later step of a soft one
    worth: FloatArray  #: value of that time, 1 for the deadline itself, 0 where nothing was promised
    earliest_s: FloatArray  #: the earliest end that could have been promised
    reason: Labels  #: the cause of a refusal, withdrawal, breach or loss, in words
    announced_s: FloatArray  #: when its owner was warned that it is at risk
    settled_s: FloatArray  #: when it was met, broken, withdrawn or lost
    start_by_s: FloatArray  #: latest start by the last plan, for a waiting job; not stored in the database
    planned_s: FloatArray  #: start of what is left by the last plan, of a running job too; likewise

    @property
    def open(self) -> BoolArray:
        """A mask of the promises that are still open."""
        return np.asarray(self.state == PromiseState.OPEN)

    def counts(self) -> dict[str, int]:
        """Return the number of rows in each state, by its name in lower case."""
        return {state.name.lower(): int((self.state == state).sum()) for state in PromiseState}

    def last_of(self, job_id: int, first_submit_s: float | None = None) -> int | None:
        """Return the row of the latest answer to the job with that id and first submit time; None without one.

        Slurm reuses ids: without a time, it is the latest job with that id and a request.
        """
        mine = self.job_id == job_id
        if first_submit_s is not None:
            mine &= np.abs(self.first_submit_s - first_submit_s) <= SAME_S
        rows = np.flatnonzero(mine)
        return int(rows[-1]) if len(rows) else None


_MAYBE = ("needs_s", "promised_s", "earliest_s", "announced_s", "settled_s", "start_by_s", "planned_s")
_NEUTRAL: dict[str, Any] = dict.fromkeys(_MAYBE, np.nan)


def promise_table(length: int, **columns: Any) -> PromiseTable:
    """Build a PromiseTable of *length* rows from *columns*; missing times are NaN."""
    return table_of(PromiseTable, length, _NEUTRAL, columns)


NO_PROMISES = promise_table(0)
"""An empty table."""
