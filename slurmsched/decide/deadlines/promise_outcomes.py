"""Outcomes of promises: settle them by the present state of jobs in Slurm."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray, Labels, places_of
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.promises import SAME_S, PromiseState, PromiseTable
from ...cluster.state import ClusterState

LATE_S = 7 * 86_400.0
"""Time after its loss during which a promise may still be settled: slurmctld keeps runs until slurmdbd is back."""

Verdict = tuple[PromiseState, str]  # what became of a promise, and the reason if it was not met

_GO_ON = (JobState.REQUEUED, JobState.PREEMPTED)


class _End(NamedTuple):
    at_s: float
    state: JobState
    first_submit_s: float
    ran: bool


@dataclass(frozen=True)
class JobEnds:
    """The state of jobs with promises: their present table and row, and the end of those that are gone.

    A run of state OTHER ended unobserved; accounting is asked about it.
    """

    tables: tuple[JobTable, ...]  #: of present jobs; a later one wins
    ended: tuple[JobTable | OutcomeTable, ...]  #: likewise
    unsettled: frozenset[int] = field(default_factory=frozenset)  #: jobs that may or may not be gone

    @classmethod
    def of(cls, state: ClusterState, ended: OutcomeTable, unsettled: Collection[int] = ()) -> JobEnds:
        """Build it from an observed state and the runs that ended by then."""
        return cls((state.running, state.pending), (ended, state.ended), frozenset(unsettled))

    @cached_property
    def present(self) -> JobTable:
        """The present jobs, of which a later one wins."""
        return reduce(JobTable.followed_by, self.tables)

    @cached_property
    def ends(self) -> dict[int, _End]:
        """The end of each job that ended."""
        return _ends(self.ended)

    def unseen(self, promises: PromiseTable) -> list[int]:
        """Return the jobs with an open promise that are gone and whose end was not observed."""
        rows = np.flatnonzero(promises.open)
        gone = rows[self.here(promises, rows) < 0].tolist()
        return sorted({int(promises.job_id[row]) for row in gone if self._unseen(promises, row)})

    def late(self, promises: PromiseTable, now_s: float) -> list[int]:
        """Return the jobs with a recently lost promise, of which accounting may have a run by now."""
        return sorted(set(promises.job_id[_late(promises, now_s)].tolist()))

    def _unseen(self, promises: PromiseTable, row: int) -> bool:
        job_id = int(promises.job_id[row])
        if job_id in self.unsettled:
            return False
        end = self.end(promises, row)
        return end is None or end.state == JobState.OTHER

    def here(self, promises: PromiseTable, rows: IntArray) -> IntArray:
        """Return the row of each promised job in ``present``; -1 if it is gone, or another job has its id now."""
        places = places_of(promises.job_id[rows], self.present.job_id)
        found = np.flatnonzero(places >= 0)
        apart_s = np.abs(self.present.first_submit_s[places[found]] - promises.first_submit_s[rows[found]])
        places[found[~(apart_s <= SAME_S)]] = -1
        return places

    def end(self, promises: PromiseTable, row: int) -> _End | None:
        """Return the last end of the job since its promise; None if there is none."""
        end = self.ends.get(int(promises.job_id[row]))
        if end is None or end.at_s < promises.asked_s[row] - SAME_S:
            return None
        return end if abs(end.first_submit_s - promises.first_submit_s[row]) <= SAME_S else None

    def with_runs(self, past: OutcomeTable) -> JobEnds:
        """Return a copy with the runs that accounting has."""
        return replace(self, ended=(*self.ended, past))

    def waiting_for(self, jobs: Collection[int]) -> JobEnds:
        """Return a copy in which *jobs* stay unsettled."""
        return replace(self, unsettled=self.unsettled | frozenset(jobs))


def settle(promises: PromiseTable, ends: JobEnds, now_s: float) -> PromiseTable:
    """Return *promises* with those settled that were met, broken, withdrawn or lost.

    A promise is met if a run of the job ended in time, even if it failed: GPUs in time were promised, not success. A
    lost promise is settled anew by a run that turns up later.
    """
    rows = np.flatnonzero(promises.open)
    places = ends.here(promises, rows)
    verdicts = _verdicts_here(promises, rows[places >= 0], ends, places[places >= 0], now_s)
    verdicts |= {row: _verdict(promises, row, ends, now_s) for row in rows[places < 0].tolist()}
    for row in np.flatnonzero(_late(promises, now_s)).tolist():
        verdicts[row] = _verdict_of_end(promises, row, ends.end(promises, row), now_s)
    verdict_of = {row: verdict for row, verdict in verdicts.items() if verdict is not None}
    if not verdict_of:
        return promises
    states, settled_s, reasons = promises.state.copy(), promises.settled_s.copy(), list(promises.reason)
    for row, (verdict, reason) in verdict_of.items():
        states[row], reasons[row], settled_s[row] = verdict, reason, now_s
    return replace(promises, state=states, settled_s=settled_s, reason=Labels.of(reasons))


def _ends(tables: Iterable[JobTable | OutcomeTable]) -> dict[int, _End]:
    end_of: dict[int, _End] = {}
    for table in tables:
        # A job removed from the queue (cancelled, or at its --deadline) has a start equal to its end in Slurm.
        at_once = np.isin(table.state, (JobState.CANCELLED, JobState.TIMEOUT)) & (table.started_s >= table.ended_s)
        columns = (table.ended_s, table.state, table.first_submit_s, np.isfinite(table.started_s) & ~at_once)
        rows = zip(table.job_id.tolist(), *(column.tolist() for column in columns), strict=True)
        end_of |= {job: _End(at_s, JobState(state), first_s, ran) for job, at_s, state, first_s, ran in rows}
    return end_of


def _verdicts_here(
    promises: PromiseTable, rows: IntArray, ends: JobEnds, places: IntArray, now_s: float
) -> dict[int, Verdict | None]:
    """Return the outcomes of the promises in *rows*, whose jobs are at *places* of the present ones, unless open."""
    jobs, unsettled = ends.present, np.isin(promises.job_id[rows], list(ends.unsettled))
    late = now_s > promises.promised_s[rows]
    moved = ~(np.abs(jobs.deadline_s[places] - promises.deadline_s[rows]) <= SAME_S)
    resized = jobs.gpus[places] != promises.gpus[rows]
    causes: tuple[tuple[BoolArray, Verdict], ...] = (
        (resized, (PromiseState.WITHDRAWN, "its GPUs were changed")),
        (moved, (PromiseState.WITHDRAWN, "its deadline was changed")),
        (late, (PromiseState.BROKEN, "the job had not ended by then")),
    )
    return {row: verdict for where, verdict in causes for row in rows[where & ~unsettled].tolist()}


def _verdict(promises: PromiseTable, row: int, ends: JobEnds, now_s: float) -> Verdict | None:
    """Return the outcome of one promise to a job that is gone, and the reason if it was not met; None while open."""
    if int(promises.job_id[row]) in ends.unsettled:
        return None
    end = ends.end(promises, row)
    if end is None or end.state == JobState.OTHER:
        return PromiseState.LOST, "Slurm no longer has the job, and no run of it is known to have ended in time"
    return _verdict_of_end(promises, row, end, now_s)


def _late(promises: PromiseTable, now_s: float) -> BoolArray:
    return np.asarray((promises.state == PromiseState.LOST) & (promises.settled_s > now_s - LATE_S))


def _verdict_of_end(promises: PromiseTable, row: int, end: _End | None, now_s: float) -> Verdict | None:
    """Return the outcome of one promise by the end of a run; None if no end is known, or the job goes on."""
    until_s = float(promises.promised_s[row])
    if end is None or end.state == JobState.OTHER:
        return None
    if end.state in _GO_ON and now_s <= until_s:
        return None
    if end.at_s > until_s:
        return PromiseState.BROKEN, "the job ended later"
    if end.state == JobState.CANCELLED:
        return PromiseState.WITHDRAWN, "the job was cancelled"
    if end.state == JobState.NODE_FAIL:
        return PromiseState.BROKEN, "a node of the job failed"
    return (PromiseState.MET, "") if end.ran else (PromiseState.BROKEN, "the job never ran")
