"""Promises to jobs that run in leases: offers beside the lease schedule, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ...policies.deadlines.lateness import in_doubt
from ...policies.deadlines.lease_schedule import (
    LeaseRequests,
    LeaseSchedule,
    lease_requests,
    placed_by_plans,
    steady_room,
)
from ...policies.deadlines.lease_terms import YEAR_S, LeaseTerms
from ...policies.deadlines.promised_ends import promised_ends, with_promise
from ...policies.deadlines.remaining_work import RemainingWork, remaining_work
from ...policies.deadlines.reservations import DeadlineRequests
from ..rules import DeadlineRules
from .offers import NO_ROOM

TOO_LONG = "its planned runtime ends after that"
KEPT_BACK = "the GPUs that are left are kept for smaller jobs, since jobs were refused for want of GPUs"


class LeasedJobs:
    """The running and pending jobs of a *view* under lease *terms*, running ones first."""

    def __init__(self, view: View, promises: PromiseTable, rules: DeadlineRules, terms: LeaseTerms) -> None:
        self.now_s, self.terms, self.promises = view.now_s, terms, promises
        self.jobs = view.running.joined(view.pending)
        forecast, restart_s = view.forecast_running.joined(view.forecast), terms.restart_costs_s(self.jobs.gpus)
        self.work: RemainingWork = remaining_work(self.jobs, forecast, view.now_s, restart_s)
        self.ends_s = promised_ends(view.now_s, self.jobs, self.work, promises, terms, rules.soft_steps)
        room = steady_room(view, self.work.left_s[: len(view.running)], terms.beat_s)
        self.schedule = LeaseSchedule(view.now_s, terms.beat_s, room)

    def held(self) -> LeaseRequests:
        """Return the requests of the jobs with a promise that the schedule places."""
        every = lease_requests(self.jobs, self.work, self.ends_s)
        return every.take(np.isfinite(self.ends_s) & placed_by_plans(self.jobs))

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


class LeaseOffer:
    """The room for new promises beside the lease schedule of *held* ones, planned afresh for each of them."""

    def __init__(self, schedule: LeaseSchedule, held: LeaseRequests, terms: LeaseTerms, refused_s: float) -> None:
        self._schedule, self._held, self._terms, self._refused_s = schedule, held, terms, refused_s

    def afresh(self) -> LeaseOffer:
        """Return the offer itself, since every plan is made afresh."""
        return self

    def earliest(self, request: DeadlineRequests) -> float:
        """Return the earliest start from which the job could be promised an end; NaN if there is none in a year."""
        needs_s, tick_s = float(request.needs_s[0]), self._schedule.tick_s
        low_s, high_s = 0.0, tick_s
        if self._fits(_by(request, self._schedule.now_s + needs_s), self._terms.reserve):
            return self._schedule.now_s
        while not self._fits(_by(request, self._schedule.now_s + needs_s + high_s), self._terms.reserve):
            low_s, high_s = high_s, 2 * high_s
            if high_s > YEAR_S:
                return np.nan
        while high_s - low_s > tick_s:
            middle_s = (low_s + high_s) / 2
            fits = self._fits(_by(request, self._schedule.now_s + needs_s + middle_s), self._terms.reserve)
            low_s, high_s = (low_s, middle_s) if fits else (middle_s, high_s)
        return self._schedule.now_s + high_s

    def earliest_tenable(self, request: DeadlineRequests) -> float:
        """Return the same, since every plan is made afresh."""
        return self.earliest(request)

    def beside(self, request: DeadlineRequests) -> bool:
        """Promise *request* if all promises can be kept then, and enough is left for others; return whether it does."""
        if not self._fits(request, self._terms.reserve + self._kept_back(request)):
            return False
        self._held = self._held.joined(_leased(request))
        return True

    def anew(self, requests: Sequence[DeadlineRequests]) -> list[bool]:
        """Promise none of *requests*: ``beside`` has tried them in a plan made afresh."""
        return [False] * len(requests)

    def untenable(self, requests: Sequence[DeadlineRequests]) -> set[int]:
        """Return no place: the next decision makes the same plan."""
        return set()

    def refusal(self, request: DeadlineRequests) -> str:
        """Return the reason why *request* was not promised; after a want of GPUs large jobs are promised less."""
        if request.due_s[0] - request.needs_s[0] < self._schedule.now_s:
            return TOO_LONG
        if self._fits(request, self._terms.reserve):
            return KEPT_BACK
        self._refused_s = self._schedule.now_s
        return NO_ROOM

    def _kept_back(self, request: DeadlineRequests) -> float:
        """Return the share of the GPUs that is kept from this job for smaller ones that come later."""
        if self._schedule.now_s - self._refused_s > self._terms.memory_s:
            return 0.0
        size = float(request.needs_s[0] * request.gpus[0]) / self._terms.largest_s
        return self._terms.kept_back * min(1.0, size)

    def _fits(self, request: DeadlineRequests, share: float) -> bool:
        """Return whether all promises and this one can be kept with a *share* of the GPUs left over."""
        plan = self._schedule.latest(self._held.joined(_leased(request)), share=min(share, 1.0))
        return not plan.late.any() and not plan.hopeless[len(self._held) :].any()


def last_refusal_s(promises: PromiseTable) -> float:
    """Return when a job was last refused for want of GPUs; minus infinity if none was."""
    wanted = promises.reason.map([reason == NO_ROOM for reason in promises.reason.names], np.bool_)
    rows = (promises.state == PromiseState.REFUSED) & wanted
    return float(promises.asked_s[rows].max(initial=-np.inf))


def _leased(request: DeadlineRequests) -> LeaseRequests:
    return LeaseRequests(request.gpus, request.needs_s, request.due_s, request.stoppable)


def _by(request: DeadlineRequests, due_s: float) -> DeadlineRequests:
    return replace(request, due_s=np.array([due_s]))
