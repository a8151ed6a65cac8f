"""Answers to deadline requests in the AdminComment of jobs, shown by ``squeue`` and ``scontrol show job``."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from ...cluster.actions import Action, SetAdminComment
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View


def answer_wishes(view: View, promises: PromiseTable) -> list[Action]:
    """Return a SetAdminComment for each pending or running job whose answer differs from its AdminComment."""
    if not len(promises):
        return []
    last = {job: place for place, job in enumerate(promises.job_id.tolist())}
    wishes: list[Action] = []
    for jobs in (view.pending, view.running):
        for row, job in enumerate(jobs.job_id.tolist()):
            if job in last and (text := answer_text(promises, last[job])) != jobs.told[row]:
                wishes.append(SetAdminComment(job, text))
    return wishes


def answer_text(promises: PromiseTable, place: int) -> str:
    """Return one answer as a word without blanks, since scontrol's standard input allows none; times are UTC."""
    state = PromiseState(int(promises.state[place]))
    if state is PromiseState.REFUSED:
        earliest = _moment(promises.earliest_s[place])
        return "slurmsched:not-guaranteed" + (f",earliest={earliest}" if earliest else "")
    if state is PromiseState.OPEN:
        word = "in-doubt" if math.isfinite(promises.announced_s[place]) else "guaranteed"
        return f"slurmsched:{word},finish-by={_moment(promises.promised_s[place])}"
    return f"slurmsched:{state.name.lower()}"


def _moment(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}" if math.isfinite(at_s) else ""
