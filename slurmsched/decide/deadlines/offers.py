"""Offers: the room left for new promises beside a plan of the existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.deadlines.latest_leases import Latest
from ...policies.deadlines.lease_schedule import LeaseSchedule
from ...policies.deadlines.lease_terms import YEAR_S, LeaseTerms
from ...policies.deadlines.reservations import DeadlineRequests, Room, together
from ...policies.deadlines.turns_ahead import TurnsAhead
from .foreseen_requests import ForeseenRequests

NO_ROOM = "there are not enough GPUs in time beside what was promised before"
TOO_LONG = "its planned runtime ends after that"
FORESEEN = "the GPUs that are left are kept for smaller jobs with deadlines, as many as asked in the last day"

PLANNED = 12_000
"""Maximum number of jobs planned in one decision; after that, new promises must fit beside the last plan."""

AT_LAST = 0.5
"""The part of the room for smaller jobs that a job leaves at its last moment: what is free then may stay so."""

ATTEMPTS = 4
"""Number of plans that drop only the promises without a place; each later one drops half of the new promises."""


class Offer:
    """The room for new promises beside the schedule of the promises *held*, less the reserve of the *terms*.

    Jobs that cannot be stopped have one reservation each, and new ones are placed beside those; jobs that can are
    planned in leases afresh each time. Any promise leaves room for the smaller jobs that are *foreseen*.
    """

    def __init__(
        self, schedule: LeaseSchedule, terms: LeaseTerms, held: DeadlineRequests, foreseen: ForeseenRequests
    ) -> None:
        self._schedule, self._terms, self._foreseen = schedule, terms, foreseen
        self._room, self._now_s = schedule.room.less(terms.reserve), schedule.now_s
        self._held, self._parts = held.take(~held.stoppable), held.take(held.stoppable)
        self._starts_s, self._left, _ = schedule.reserved(self._held, 0.0, self._room)
        self._open: Room | None = None  #: the room beside reservations, for jobs in leases; None before it is needed
        self._late = self._late_parts(self._unreserved(), self._parts)
        self._late_turns = self._late_in_turns(self._unreserved(), self._parts)
        self._earlier, self._earlier_starts_s, self._planned_jobs = self._held, self._starts_s, 0

    def afresh(self) -> Offer:
        """Return the offer of the next decision, which plans all promises afresh."""
        return Offer(self._schedule, self._terms, together([self._held, self._parts]), self._foreseen)

    def earliest(self, request: DeadlineRequests, since_s: float | None = None) -> float:
        """Return the earliest start beside the plan, from *since_s* on if given; NaN if there is none."""
        if request.stoppable[0]:
            return self._earliest_in_leases(request)
        since_s = float(request.since_s[0]) if since_s is None else since_s
        left = self._beyond(self._left_beside_leases(), request)
        return left.earliest(request.rows[0], int(request.gpus[0]), float(request.needs_s[0]), since_s)

    def earliest_tenable(self, request: DeadlineRequests) -> float:
        """Return the earliest start that a fresh plan can hold too, as far as the budget PLANNED allows the search."""
        start_s, needs_s = self.earliest(request), float(request.needs_s[0])
        if request.stoppable[0]:
            return start_s
        while np.isfinite(start_s + needs_s) and self._planned_jobs < PLANNED:
            self._planned_jobs += len(self._held) + 1
            if not self.untenable([_by(request, start_s + needs_s)]):
                break
            later_s = self._left.begins_s[self._left.begins_s > start_s]
            if not len(later_s):
                break
            start_s = self.earliest(request, float(later_s[0]))
        return start_s

    def beside(self, request: DeadlineRequests, worth: float = 1.0) -> bool:
        """Promise *request*, a step of some *worth*, if it fits beside the present plan; return whether it does."""
        if request.stoppable[0]:
            if not self._fits_in_leases(request) or not self._leaves_room(request, worth):
                return False
            self._parts = self._parts.plus(request)
            return True
        start_s = _latest(self._beyond(self._left, request, worth), request)
        if np.isnan(start_s):
            return False
        unreserved = self._unreserved().copy() if len(self._parts) else None
        taken = (request.rows[0], int(request.gpus[0]), start_s, start_s + float(request.needs_s[0]))
        if unreserved is not None:
            unreserved.take(*taken)
            if not self._holds_parts(unreserved):
                return False
        self._left.take(*taken)
        self._open = unreserved
        self._hold(request, np.array([start_s]))
        return True

    def anew(self, requests: Sequence[DeadlineRequests], worths: Sequence[float]) -> list[bool]:
        """Promise the *requests*, steps of some *worths*, that fit into a new plan of all; return one flag for each.

        If they would displace an earlier promise, only the first half of them is tried, and so on. Jobs that can be
        stopped are planned anew by ``beside`` already.
        """
        promised = [False] * len(requests)
        # the others would not fit if nothing had been promised
        tried = [
            place
            for place, request in enumerate(requests)
            if not request.stoppable[0] and np.isfinite(_latest(self._room, request))
        ]
        while tried and self._planned_jobs < PLANNED:
            fits = self._planned([requests[place] for place in tried], [worths[place] for place in tried])
            if fits is not None:
                for place, fitting in zip(tried, fits, strict=True):
                    promised[place] = fitting
                break
            tried = tried[: len(tried) // 2]
        return promised

    def untenable(self, requests: Sequence[DeadlineRequests]) -> set[int]:
        """Return the places in *requests*, all promised here in this order, that a fresh plan cannot hold.

        The next decisions plan afresh, and must not lose a promise that had a place before.
        """
        whole = [place for place, request in enumerate(requests) if not request.stoppable[0]]
        tenable = list(whole)
        for attempt in range(len(whole)):
            held = [replace(requests[place], since_s=np.array([self._now_s])) for place in tenable]
            starts_s = self._schedule.reserved(together([self._earlier, *held]), 0.0, self._schedule.room).starts_s
            before_s, new_s = np.split(starts_s, [len(self._earlier)])
            lost = not np.isfinite(before_s[np.isfinite(self._earlier_starts_s)]).all()
            if not lost and np.isfinite(new_s).all():
                break
            if not np.isfinite(new_s).all() and attempt < ATTEMPTS:
                tenable = [place for place, fits in zip(tenable, np.isfinite(new_s).tolist(), strict=True) if fits]
            else:
                tenable = tenable[: len(tenable) // 2]
            if not tenable:
                break
        return set(whole) - set(tenable)

    def refusal(self, request: DeadlineRequests) -> str:
        """Return the reason why *request* was not promised."""
        if request.due_s[0] - request.needs_s[0] < self._now_s:
            return TOO_LONG
        if request.stoppable[0]:
            fits = self._fits_in_leases(request)
        else:
            fits = np.isnan(_latest(self._beyond(self._left, request), request))
            fits &= np.isfinite(_latest(self._left, request))
        return FORESEEN if fits else NO_ROOM

    def _share(self, request: DeadlineRequests, worth: float) -> float:
        """Return the share of the GPUs that smaller jobs are expected to ask for; what is worth less is larger."""
        if not self._terms.foreseen or not request.gpus[0] or int(request.job_id[0]) in self._foreseen.confined:
            return 0.0
        return self._terms.foreseen * self._foreseen.below(_size(request, worth))

    def _at_last(self, request: DeadlineRequests) -> float:
        """Return the part of that room which is left to them: a job that must start within ``last_s`` leaves less.

        So it is if it was refused before: no smaller job took what is free then.
        """
        spare_s = float(request.due_s[0] - request.needs_s[0] - request.since_s[0])
        return AT_LAST if spare_s <= self._terms.last_s and self._foreseen.asked(int(request.job_id[0])) else 1.0

    def _beyond(self, left: Room, request: DeadlineRequests, worth: float = 1.0) -> Room:
        """Return the room *left* less what a job that cannot be stopped leaves to smaller ones."""
        return Room(left.begins_s, left.free - self._for_smaller(left, self._held, self._starts_s, request, worth))

    def _for_smaller(
        self, left: Room, held: DeadlineRequests, starts_s: FloatArray, request: DeadlineRequests, worth: float
    ) -> IntArray:
        """Return the GPUs, row x stretch of *left*, that smaller jobs are expected to ask for and do not have yet.

        What smaller ones among the jobs *held* have from *starts_s* on counts for that. A job that is alone on its
        rows of room finds its own GPUs there.
        """
        kept, most = np.zeros(left.free.shape, dtype=np.int64), self._schedule.room.free.max(axis=1, initial=0)
        share = self._share(request, worth)
        if not share:
            return kept
        kept[:] = np.ceil(share * self._at_last(request) * most - 1e-9).astype(np.int64)[:, None]
        smaller = np.flatnonzero((held.gpus * held.needs_s < _size(request, worth)) & np.isfinite(starts_s))
        some, begin_s = held.take(smaller), starts_s[smaller]
        change, begins_s = np.zeros((len(left.begins_s) + 1, len(most)), dtype=np.int64), left.begins_s
        first = np.maximum(np.searchsorted(begins_s, begin_s, side="right") - 1, 0)
        taken = some.rows * some.gpus[:, None]
        np.add.at(change, first, taken)
        np.subtract.at(change, np.searchsorted(begins_s, begin_s + some.needs_s, side="left"), taken)
        kept -= np.cumsum(change, axis=0)[:-1].T
        own = np.maximum(most - int(request.gpus[0]), 0)
        return np.asarray(np.minimum(np.maximum(kept, 0), own[:, None]))

    def _fits_in_leases(self, request: DeadlineRequests) -> bool:
        """Return whether a job that can be stopped fits with all earlier promises."""
        parts, left = self._parts.plus(request), self._unreserved()
        if not _holds_last(self._schedule.in_leases(parts, self._less(left, parts))[1], parts, self._late):
            return False
        return self._late_in_turns(left, parts) <= self._late_turns

    def _leaves_room(self, request: DeadlineRequests, worth: float = 1.0) -> bool:
        """Return whether a job that can be stopped fits beside the smaller ones that are foreseen.

        What is worth less counts as larger. Where these jobs leave nothing, even the widest job finds no room.
        """
        share = self._share(request, worth)
        if not share:
            return True
        parts, left = self._parts.plus(request), self._unreserved()
        widest = int(parts.gpus.max()) if share < 1.0 else 1
        room = left.less(min(self._terms.reserve + share * self._at_last(request), 1.0), widest)
        before = _lateness(self._schedule.in_leases(self._parts, room)[1], self._parts) if len(self._parts) else 0
        return _holds_last(self._schedule.in_leases(parts, room)[1], parts, before)

    def _less(self, left: Room, parts: DeadlineRequests) -> Room:
        """Return the room of jobs in leases without the reserve."""
        return left.less(self._terms.reserve, int(parts.gpus.max(initial=0)))

    def _earliest_in_leases(self, request: DeadlineRequests) -> float:
        """Return the start from which a job that can be stopped could be promised its end; NaN for none in a year."""
        needs_s, tick_s, now_s = float(request.needs_s[0]), self._schedule.tick_s, self._now_s
        if not np.isfinite(needs_s):
            return np.nan
        low_s, high_s = 0.0, tick_s
        if self._could_have(_by(request, now_s + needs_s)):
            return now_s
        while not self._could_have(_by(request, now_s + needs_s + high_s)):
            low_s, high_s = high_s, 2 * high_s
            if high_s > YEAR_S:
                return np.nan
        while high_s - low_s > tick_s:
            middle_s = (low_s + high_s) / 2
            fits = self._could_have(_by(request, now_s + needs_s + middle_s))
            low_s, high_s = (low_s, middle_s) if fits else (middle_s, high_s)
        return now_s + high_s

    def _could_have(self, request: DeadlineRequests) -> bool:
        return self._fits_in_leases(request) and self._leaves_room(request)

    def _unreserved(self) -> Room:
        """Return the room beside reservations alone, without a share kept free."""
        if self._open is None:
            self._open = self._schedule.reserved(self._held, 0.0, self._schedule.room).left
        return self._open

    def _holds_parts(self, left: Room) -> bool:
        """Return whether the promised jobs in leases are no later in the room *left* than they were before."""
        late, in_turns = self._late_parts(left, self._parts), self._late_in_turns(left, self._parts)
        return late <= self._late and in_turns <= self._late_turns

    def _late_in_turns(self, left: Room, parts: DeadlineRequests) -> int:
        """Return how many promised jobs in leases are late if they take turns from now on, with what stops cost."""
        now_s, terms = self._now_s, self._terms
        return TurnsAhead(now_s, terms.next_beat_s(now_s), terms.beat_s, left, parts).fewest_late()[0]

    def _late_parts(self, left: Room, parts: DeadlineRequests) -> int:
        """Return the GPU-ticks for which promised jobs find no GPUs in leases."""
        if not len(parts):
            return 0
        return _lateness(self._schedule.in_leases(parts, self._less(left, parts))[1], parts)

    def _left_beside_leases(self) -> Room:
        """Return the room that jobs with leases leave, too."""
        if not len(self._parts):
            return self._left
        bounds_s, plan = self._schedule.in_leases(self._parts, self._left)
        left = self._left.copy()
        for stretch in np.flatnonzero(plan.used.any(axis=0)).tolist():
            left.lose(plan.used[:, stretch], float(bounds_s[stretch]), float(bounds_s[stretch + 1]))
        return left

    def _planned(self, requests: list[DeadlineRequests], worths: list[float]) -> list[bool] | None:
        """Promise *requests* that fit into a new plan; return one flag each, or None if an earlier promise is lost.

        So it is if one of them leaves too little to smaller jobs.
        """
        self._planned_jobs += len(self._held) + len(requests)
        every = together([self._held, *requests])
        starts_s, left, _ = self._schedule.reserved(every, 0.0, self._room)
        unreserved = self._schedule.reserved(every, 0.0, self._schedule.room).left if len(self._parts) else None
        before_s, new_s = np.split(starts_s, [len(self._held)])
        lost = not np.isfinite(before_s[np.isfinite(self._starts_s)]).all()
        if lost or (unreserved is not None and not self._holds_parts(unreserved)):
            return None
        fits = np.isfinite(new_s)
        for place in np.flatnonzero(fits).tolist():
            request, start_s = requests[place], float(new_s[place])
            spare = left.free - self._for_smaller(left, every, starts_s, request, worths[place])
            during = (left.begins_s >= start_s) & (left.begins_s < start_s + request.needs_s[0])
            if (spare[np.ix_(request.rows[0], during)] < 0).any():
                return None
        self._left, self._open, self._starts_s = left, unreserved, before_s
        for place in np.flatnonzero(fits).tolist():
            self._hold(requests[place], new_s[place : place + 1])
        return [bool(fit) for fit in fits]

    def _hold(self, request: DeadlineRequests, start_s: FloatArray) -> None:
        """Add a promise with its start in the present plan."""
        self._held = self._held.plus(replace(request, since_s=np.array([self._now_s])))
        self._starts_s = np.concatenate([self._starts_s, start_s])


def _size(request: DeadlineRequests, worth: float) -> float:
    """Return the GPU-seconds of a request, more of one that is worth less."""
    return float(request.needs_s[0] * request.gpus[0]) / max(float(worth), 1e-9)


def _holds_last(plan: Latest, parts: DeadlineRequests, before: int) -> bool:
    """Return whether the last of *parts* has a place in *plan*, and the others are no later than *before*."""
    return not (plan.hopeless[-1] or plan.late[-1]) and _lateness(plan, parts) <= before


def _lateness(plan: Latest, parts: DeadlineRequests) -> int:
    """Return the GPU-ticks of *plan* that do not fit before the ends of its jobs."""
    return int((plan.late * parts.gpus).sum())


def _by(request: DeadlineRequests, due_s: float) -> DeadlineRequests:
    return replace(request, due_s=np.array([due_s]))


def _latest(room: Room, request: DeadlineRequests) -> float:
    return room.latest(
        request.rows[0],
        int(request.gpus[0]),
        float(request.needs_s[0]),
        float(request.since_s[0]),
        float(request.due_s[0]),
    )
