"""What became of promises: settled by what Slurm shows now."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..cluster.columns import Labels
from ..cluster.history import OutcomeTable
from ..cluster.jobs import JobState, JobTable
from ..cluster.promises import PromiseState, PromiseTable
from ..cluster.state import ClusterState

SAME_S = 2.0
"""Times of one thing differ by less: Slurm counts in whole seconds."""

_GO_ON = (JobState.REQUEUED, JobState.PREEMPTED)


class _End(NamedTuple):
    at_s: float
    state: JobState


def settle(promises: PromiseTable, state: ClusterState, ended: OutcomeTable, now_s: float) -> PromiseTable:
    """*promises* with those settled that were met, broken or withdrawn, by a look and the runs it showed to be over.

    A promise is met where the job ended by then, however it ended: what was promised are GPUs in time.
    """
    rows = np.flatnonzero(promises.open).tolist()
    if not rows:
        return promises
    present = {
        int(job_id): (table, row)
        for table in (state.running, state.pending)
        for row, job_id in enumerate(table.job_id.tolist())
    }
    ends = _ends(state.ended, ended)
    verdicts = {row: _verdict(promises, row, present, ends, now_s) for row in rows}
    found = {row: verdict for row, verdict in verdicts.items() if verdict is not None}
    if not found:
        return promises
    states, settled_s, reasons = promises.state.copy(), promises.settled_s.copy(), list(promises.reason)
    for row, (verdict, reason) in found.items():
        states[row], reasons[row], settled_s[row] = verdict, reason, now_s
    return replace(promises, state=states, settled_s=settled_s, reason=Labels.of(reasons))


def _ends(remembered: JobTable, outcomes: OutcomeTable) -> dict[int, _End]:
    found: dict[int, _End] = {}
    for table in (outcomes, remembered):
        columns = (table.job_id.tolist(), table.ended_s.tolist(), table.state.tolist())
        found |= {job: _End(at_s, JobState(state)) for job, at_s, state in zip(*columns, strict=True)}
    return found


def _verdict(
    promises: PromiseTable, row: int, present: dict[int, tuple[JobTable, int]], ends: dict[int, _End], now_s: float
) -> tuple[PromiseState, str] | None:
    """What became of one promise, and why where it was not met; None while it stands."""
    job_id, until_s = int(promises.job_id[row]), float(promises.promised_s[row])
    if job_id in present:
        jobs, at = present[job_id]
        if abs(jobs.first_submit_s[at] - promises.first_submit_s[row]) > SAME_S:
            return PromiseState.WITHDRAWN, "another job has its number now"
        if now_s > until_s:
            return PromiseState.BROKEN, "the job had not ended by then"
        if not abs(jobs.deadline_s[at] - promises.deadline_s[row]) <= SAME_S:
            return PromiseState.WITHDRAWN, "its deadline was changed"
        return (PromiseState.WITHDRAWN, "its GPUs were changed") if jobs.gpus[at] != promises.gpus[row] else None
    end = ends.get(job_id)
    if end is None or end.at_s < promises.asked_s[row] - SAME_S:
        return PromiseState.WITHDRAWN, "it left the queue while nobody looked"
    if end.state in _GO_ON and now_s <= until_s:
        return None
    if end.at_s > until_s:
        return PromiseState.BROKEN, "the job ended later"
    if end.state == JobState.CANCELLED:
        return PromiseState.WITHDRAWN, "the job was cancelled"
    if end.state == JobState.NODE_FAIL:
        return PromiseState.BROKEN, "a node of the job failed"
    return PromiseState.MET, ""
