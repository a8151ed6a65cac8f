"""The training runs of a model: a bounded, canonical extract of the history."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table
from ...cluster.jobs import JobState
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from .baseline_features import features

#: Ends caused by the job, its owner or its own limit. After a lost node, a preemption or a requeue one knows only that
#: the run would have lasted longer.
TELLING = (JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.TIMEOUT, JobState.CANCELLED)


@dataclass(frozen=True, eq=False)
class Runs(Table):
    """Runs whose length is evidence for the next one, in the order they ended, each once.

    A run that met its time limit counts as it is: its successor with the same limit will hold its GPUs as long. A
    cancelled run counts if it had started.
    """

    job_id: IntArray
    restart: IntArray
    user: Labels
    bucket: Labels
    gpus: IntArray
    time_limit_s: FloatArray  #: infinite where there is none
    submitted_s: FloatArray  #: when a forecast of it was first needed
    ended_s: FloatArray
    log_runtime: FloatArray  #: natural logarithm of seconds, at least one second

    @classmethod
    def of(cls, history: OutcomeTable, until_s: float = np.inf) -> Runs:
        """Extract the runs of *history* that ended before *until_s*, in whatever order its rows come."""
        started = np.isfinite(history.started_s) & np.isfinite(history.first_submit_s)
        measured = started & (history.runtime_s >= 0) & (history.ended_s < until_s)
        rows = history.take(measured & np.isin(history.state, TELLING))
        job_features = features(rows)
        return cls(
            rows.job_id,
            rows.restart,
            job_features.user,
            job_features.bucket,
            job_features.gpus,
            job_features.time_limit_s,
            rows.first_submit_s,
            rows.ended_s,
            in_points(np.log(np.maximum(rows.runtime_s, 1.0))),
        )._canonical()

    def plus(self, other: Runs) -> Runs:
        """Return the runs of both."""
        columns: dict[str, Any] = {f.name: _joined(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return Runs(**columns)._canonical()

    def latest(self, recent: int, most: int, *groups: tuple[IntArray, int]) -> Runs:
        """Take the last *recent* runs and those among the last *n* of a group, for each ``(codes, n)``; *most* in all.

        Up to *most*, extracts may be added up in any order: dropped runs never come back.
        """
        chosen = _among_last(np.zeros(len(self), dtype=np.int64), recent)
        for codes, last in groups:
            chosen |= _among_last(codes, last)
        return self.take(np.flatnonzero(chosen)[-most:])._relabelled()

    def _canonical(self) -> Runs:
        order = np.lexsort((self.log_runtime, self.submitted_s, self.restart, self.job_id, self.ended_s))
        new = np.zeros(len(order), dtype=np.bool_)
        new[:1] = True
        for key in (self.ended_s, self.job_id, self.restart, self.submitted_s):
            new[1:] |= np.diff(key[order]) != 0
        return self.take(order[new])._relabelled()

    def _relabelled(self) -> Runs:
        return replace(self, user=_alphabetical(self.user), bucket=_alphabetical(self.bucket))


def _joined(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, Labels):
        return Labels(np.concatenate([mine.codes, theirs.codes + len(mine.names)]), mine.names + theirs.names)
    return np.concatenate([mine, theirs])


def _among_last(codes: IntArray, last: int) -> BoolArray:
    """Select the rows among the *last* ones of their code."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], codes[order], side="right")
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[ends - np.arange(len(order)) <= last]] = True
    return chosen


def _alphabetical(texts: Labels) -> Labels:
    """Drop unused and repeated texts and sort the rest: equal columns get equal codes."""
    used = sorted({texts.names[code] for code in np.unique(texts.codes).tolist()})
    numbers = {name: number for number, name in enumerate(used)}
    return Labels(texts.map([numbers.get(name, -1) for name in texts.names], np.int64), tuple(used))
