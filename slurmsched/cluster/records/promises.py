"""Deadlines that were asked for, and what was answered, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of

SAME_S = 2.0
"""Times of one thing differ by less: Slurm counts in whole seconds."""


class PromiseState(IntEnum):
    """What became of a deadline that was asked for."""

    REFUSED = 0  #: nothing was promised; the job runs like any other
    OPEN = 1  #: promised, the job has not ended, and the promise can still be kept
    MET = 2  #: a run of the job ended by then, by our own sight or by accounting
    BROKEN = 3  #: promised, and not so
    WITHDRAWN = 4  #: promised, and then the owner or an admin changed or cancelled the job
    LOST = 5  #: promised, and then Slurm forgot the job, of which no run is known that ended in time


@dataclass(frozen=True, eq=False)
class PromiseTable(Table):
    """One row for each time a deadline was asked for, oldest first; times are Unix seconds, NaN where there is none."""

    job_id: IntArray
    first_submit_s: FloatArray
    asked_s: FloatArray  #: when the answer was given
    user: Labels
    account: Labels
    gpus: IntArray
    deadline_s: FloatArray  #: as the comment said it then
    needs_s: FloatArray  #: runtime that was planned with
    state: IntArray  #: a PromiseState
    promised_s: FloatArray  #: the moment that was promised: the deadline, or a later step of a soft one
    worth: FloatArray  #: of that moment, 1 for the deadline itself, 0 where nothing was promised
    earliest_s: FloatArray  #: the earliest end that could have been promised
    reason: Labels  #: why it was refused, withdrawn, broken or lost, in words
    announced_s: FloatArray  #: since when its owner has been told that it will hardly be kept
    settled_s: FloatArray  #: when it was met, broken, withdrawn or lost
    start_by_s: FloatArray  #: by the latest plan, of a job that waits; not kept in the database

    @property
    def open(self) -> BoolArray:
        """Which promises are to be kept."""
        return np.asarray(self.state == PromiseState.OPEN)

    def counts(self) -> dict[str, int]:
        """How many rows are in each state, by its name in lower case."""
        return {state.name.lower(): int((self.state == state).sum()) for state in PromiseState}

    def last_of(self, job_id: int, first_submit_s: float | None = None) -> int | None:
        """The row of the latest answer to the job *job_id* that was first submitted then; None where it never asked.

        Slurm gives ids out again: where no time is said, the latest job that asked under that id is meant.
        """
        mine = self.job_id == job_id
        if first_submit_s is not None:
            mine &= np.abs(self.first_submit_s - first_submit_s) <= SAME_S
        rows = np.flatnonzero(mine)
        return int(rows[-1]) if len(rows) else None


_MAYBE = ("needs_s", "promised_s", "earliest_s", "announced_s", "settled_s", "start_by_s")
_NEUTRAL: dict[str, Any] = dict.fromkeys(_MAYBE, np.nan)


def promise_table(length: int, **columns: Any) -> PromiseTable:
    """A PromiseTable of *length* rows from the columns that are known."""
    return table_of(PromiseTable, length, _NEUTRAL, columns)


NO_PROMISES = promise_table(0)
"""Nobody ever asked."""
