"""Promised jobs on a cluster without Slurm, where leases end at once: requests of the schedule, and warnings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.promises import PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lateness import in_doubt
from ...policies.deadlines.lease_schedule import LeaseSchedule, lease_requests, placed_by_plans, steady_room
from ...policies.deadlines.lease_terms import LeaseTerms
from ...policies.deadlines.promised_ends import promised_ends, with_promise
from ...policies.deadlines.remaining_work import RemainingWork, remaining_work
from ...policies.deadlines.reservations import DeadlineRequests
from ...policies.deadlines.stop_costs import resume_costs_s
from ..rules import DeadlineRules


class LeasedJobs:
    """The running and pending jobs of a *view* under lease *terms*, running ones first."""

    def __init__(self, view: View, promises: PromiseTable, rules: DeadlineRules, terms: LeaseTerms) -> None:
        self.now_s, self.terms, self.promises = view.now_s, terms, promises
        self.jobs, self._waiting = view.running.followed_by(view.pending), len(view.pending)
        forecast, restart_s = view.forecast_running.joined(view.forecast), resume_costs_s(self.jobs, terms)
        self.work: RemainingWork = remaining_work(self.jobs, forecast, view.now_s, restart_s)
        self.ends_s = promised_ends(view.now_s, self.jobs, self.work, promises, terms, rules.soft_steps)
        room = steady_room(view, self.work.left_s[: len(view.running)], terms.beat_s)
        self.schedule = LeaseSchedule(view.now_s, terms.beat_s, room, view.solved)

    def held(self) -> DeadlineRequests:
        """Return the requests of the jobs with a promise that the schedule places."""
        every = lease_requests(self.jobs, self.work, self.now_s, self.ends_s)
        return every.take(np.isfinite(self.ends_s) & placed_by_plans(self.jobs))

    def pending(self, rows: IntArray, due_s: FloatArray) -> DeadlineRequests:
        """Return the requests of pending *rows* to end by *due_s*."""
        places = len(self.jobs) - self._waiting + rows
        every = lease_requests(self.jobs, self.work, self.now_s, np.full(len(self.jobs), np.inf))
        return replace(every.take(places), due_s=due_s)

    def announced(self) -> PromiseTable:
        """Return the promises with ``announced_s``: since when the present forecast endangers each of them."""
        rows, places = with_promise(self.jobs, self.promises)
        still = self.promises.open[places]
        rows, places = rows[still], places[still]
        promised_s = self.promises.promised_s[places]
        late = self.work.take(rows).chances_late(self.now_s, promised_s[:, None])[:, 0]
        window_s = promised_s - self.promises.first_submit_s[places]
        doubtful = in_doubt(late, promised_s - self.now_s, window_s, self.terms.beat_s, self.terms.doubt)
        announced_s = self.promises.announced_s.copy()
        since_s = np.where(np.isfinite(announced_s[places]), announced_s[places], self.now_s)
        announced_s[places] = np.where(doubtful, since_s, np.nan)
        return replace(self.promises, announced_s=announced_s)
