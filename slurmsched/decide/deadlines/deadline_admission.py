"""Admission: decide which deadline requests become promises, users in turn, keeping all earlier promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.records.promises import PromiseState, PromiseTable, promise_table
from ...cluster.state import View
from ...policies.deadlines.reservations import DeadlineRequests
from ...policies.deadlines.value_steps import steps_of
from ..rules import DeadlineRules
from ..unshown_nodes import unshown_nodes
from .gpu_availability import GpuAvailability
from .offers import NO_ROOM, Offer
from .quotas import Quotas

UNKNOWN = ("no history", "no forecast")
"""Prefixes of the source of a forecast that rests on no run at all."""

GROUPS = 16
"""Number of groups in which simultaneous requests are answered, each group with its own plans."""


@dataclass
class _Candidate:
    """A job that requests a deadline, and its answer."""

    row: int
    request: DeadlineRequests  #: with no deadline yet
    steps: list[tuple[float, float]]
    earliest_s: float = np.nan  #: the earliest end that could be promised
    refused: str = ""
    step: int = -1  #: the one that was promised

    def by(self, step: int) -> DeadlineRequests:
        """Return the request for the deadline of one of its steps."""
        return replace(self.request, due_s=np.array([self.steps[step][0]]))


class PromiseAdmission:
    """Answers to deadline requests, beside the promises of *offer*."""

    def __init__(
        self, view: View, rules: DeadlineRules, availability: GpuAvailability, offer: Offer, quotas: Quotas
    ) -> None:
        self._view, self._rules, self._availability, self._offer, self._quotas = (
            view,
            rules,
            availability,
            offer,
            quotas,
        )

    def answers(self, rows: IntArray, steers: bool) -> tuple[PromiseTable, IntArray]:
        """Return one answer for each of the pending *rows*, older jobs first, and the rows that got a promise.

        Users take turns, and jobs are answered in groups: jobs that fit beside the plan are promised at once, the
        others of a group are planned anew together with all promises. *steers* tells whether power.order is on.
        """
        jobs = self._view.pending
        candidates = self._candidates(rows[np.lexsort((jobs.job_id[rows], jobs.first_submit_s[rows]))])
        turns = in_turn([jobs.user[one.row] for one in candidates])
        for group in np.array_split(turns, min(GROUPS, len(turns))):
            self._answer([candidates[place] for place in group.tolist()], steers)
        self._give_up([candidates[place] for place in turns.tolist() if candidates[place].step >= 0])
        if refused := [one for one in candidates if one.step < 0]:
            offer = self._offer.afresh()
            for one in refused:
                one.earliest_s = offer.earliest_tenable(one.request) + float(one.request.needs_s[0])
        promised = [one.row for one in candidates if one.step >= 0]
        return self._answered(candidates), np.array(promised, dtype=np.int64)

    def _candidates(self, rows: IntArray) -> list[_Candidate]:
        jobs, rules = self._view.pending, self._rules
        requests = self._availability.requests(rows, np.full(len(rows), np.inf), self._view.now_s + rules.lead_s)
        if self._availability.moved.any():  # they may just have begun a lease
            requests = replace(requests, since_s=requests.since_s + rules.promised_lease_s + rules.stop_s)
        return [
            _Candidate(
                row,
                requests.take(np.array([place])),
                steps_of(jobs, row, rules.soft_steps),
            )
            for place, row in enumerate(rows.tolist())
        ]

    def _answer(self, group: list[_Candidate], steers: bool) -> None:
        """Answer the jobs of a group: promise each the first of its steps that is possible, if any."""
        for one in group:
            one.refused = self._refused_outright(one.row, steers) or self._quotas.share_of_user(one.row)
            one.earliest_s = self._offer.earliest(one.request) + float(one.request.needs_s[0])
        hopeful = [one for one in group if not one.refused]
        for step in range(max((len(one.steps) for one in hopeful), default=0)):
            waiting = [one for one in hopeful if one.step < 0 and step < len(one.steps)]
            waiting = [one for one in waiting if not self._beside(one, step)]
            self._anew(waiting, step)
            for one in waiting:
                if one.step < 0:
                    self._beside(one, step)

    def _beside(self, one: _Candidate, step: int) -> bool:
        """Promise a step if quotas allow it and it fits beside the present plan; return whether it was promised."""
        request = one.by(step)
        one.refused = self._quotas.refusal(one.row, request)
        if one.refused or not self._offer.beside(request, one.steps[step][1]):
            one.refused = one.refused or self._offer.refusal(request)
            return False
        self._quotas.add(one.row, request)
        one.step, one.refused = step, ""
        return True

    def _anew(self, group: list[_Candidate], step: int) -> None:
        """Promise a step to the jobs of *group* that quotas allow together and that fit into a new plan."""
        tried = []
        for one in group:
            if not self._quotas.refusal(one.row, one.by(step)):
                self._quotas.add(one.row, one.by(step))
                tried.append(one)
        fits = self._offer.anew([one.by(step) for one in tried], [one.steps[step][1] for one in tried])
        for one, fitting in zip(tried, fits, strict=True):
            if fitting:
                one.step, one.refused = step, ""
            else:
                self._quotas.remove(one.row, one.by(step))

    def _give_up(self, promised: list[_Candidate]) -> None:
        """Revoke promises made in this decision that would not fit when the next decision plans everything afresh."""
        for place in self._offer.untenable([one.by(one.step) for one in promised]):
            one = promised[place]
            one.step, one.refused = -1, NO_ROOM

    def _refused_outright(self, row: int, steers: bool) -> str:
        """Return the reason why a job can get no promise under any plan; empty if it can."""
        jobs, needs_s = self._view.pending, self._availability.needs_s[row]
        if not steers:
            return "power.order is off, and without it no promise can be kept"
        if jobs.deadline_s[row] <= self._view.now_s:
            return "the deadline has passed"
        if jobs.tasks[row] > 1 or jobs.array_job_id[row]:
            return "it is an array; promises are made to single jobs"
        if jobs.gpus[row] <= 0:
            return "it asks for no GPU; promises are about GPUs"
        unknown = not np.isfinite(jobs.time_limit_s[row]) and self._view.forecast.source[row].startswith(UNKNOWN)
        if unknown or not np.isfinite(needs_s):
            return "nothing is known about its runtime: there is no history of such jobs, and it has no time limit"
        if jobs.gpus[row] > self._availability.most(row):
            shown = "" if row not in unshown_nodes(self._view) else " and that Slurm shows"
            return f"it asks for more GPUs than the nodes that are up{shown} have for it"
        return ""

    def _answered(self, candidates: list[_Candidate]) -> PromiseTable:
        """Return the answers as rows of a promise table."""
        jobs, rows = self._view.pending, np.array([one.row for one in candidates], dtype=np.int64)
        steps = [one.steps[one.step] if one.step >= 0 else (np.nan, 0.0) for one in candidates]
        return promise_table(
            len(rows),
            job_id=jobs.job_id[rows],
            first_submit_s=jobs.first_submit_s[rows],
            asked_s=np.full(len(rows), self._view.now_s),
            user=jobs.user.take(rows),
            account=jobs.account.take(rows),
            gpus=jobs.gpus[rows],
            deadline_s=jobs.deadline_s[rows],
            needs_s=self._availability.charged_s[rows],
            state=[PromiseState.REFUSED if one.step < 0 else PromiseState.OPEN for one in candidates],
            promised_s=[until_s for until_s, _ in steps],
            worth=[worth for _, worth in steps],
            earliest_s=[one.earliest_s for one in candidates],
            reason=[one.refused for one in candidates],
        )


def in_turn(users: Sequence[str]) -> IntArray:
    """Return a round-robin order of *users*: the first place of each user, then the second of each."""
    turns: Counter[str] = Counter()
    turn = []
    for user in users:
        turn.append(turns[user])
        turns[user] += 1
    return np.argsort(turn, kind="stable")
