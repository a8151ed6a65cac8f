"""Offers: the room left for new promises beside a plan of the existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ...cluster.columns import FloatArray
from ...policies.deadlines.reservations import DeadlineRequests, Room, latest_plan, together

NO_ROOM = "there are not enough GPUs in time beside what was promised before"

PLANNED = 12_000
"""Maximum number of jobs planned in one decision; after that, new promises must fit beside the last plan."""

ATTEMPTS = 4
"""Number of plans that drop only the promises without a place; each later one drops half of the new promises."""


class PromiseOffer(Protocol):
    """The room for new promises beside the existing ones."""

    def afresh(self) -> PromiseOffer:
        """Return the offer of the next decision, which plans all promises afresh."""
        ...

    def earliest(self, request: DeadlineRequests) -> float:
        """Return the earliest start beside all promises; NaN if there is none."""
        ...

    def earliest_tenable(self, request: DeadlineRequests) -> float:
        """Return the earliest start that a fresh plan can hold too."""
        ...

    def beside(self, request: DeadlineRequests) -> bool:
        """Promise *request* if it fits beside the present plan; return whether it does."""
        ...

    def anew(self, requests: Sequence[DeadlineRequests]) -> list[bool]:
        """Promise the *requests* that fit into a new plan of all promises; return one flag per request."""
        ...

    def untenable(self, requests: Sequence[DeadlineRequests]) -> set[int]:
        """Return the places in *requests*, all promised here in this order, that a fresh plan cannot hold."""
        ...

    def refusal(self, request: DeadlineRequests) -> str:
        """Return the reason why *request* was not promised."""
        ...


class Offer:
    """The room for new promises: *room* less a share *reserve*, beside a plan of the promises *held*."""

    def __init__(self, room: Room, reserve: float, held: DeadlineRequests, now_s: float) -> None:
        self._whole, self._room, self._held, self._now_s = room, room.less(reserve), held, now_s
        self._reserve = reserve
        self._starts_s, self._left = latest_plan(self._room, held)
        self._earlier, self._earlier_starts_s, self._planned_jobs = held, self._starts_s, 0

    def afresh(self) -> Offer:
        """Return the offer of the next decision, which plans all promises afresh."""
        return Offer(self._whole, self._reserve, self._held, self._now_s)

    def earliest(self, request: DeadlineRequests, since_s: float | None = None) -> float:
        """Return the earliest start beside the plan, from *since_s* on if given; NaN if there is none."""
        since_s = float(request.since_s[0]) if since_s is None else since_s
        return self._left.earliest(request.rows[0], int(request.gpus[0]), float(request.needs_s[0]), since_s)

    def earliest_tenable(self, request: DeadlineRequests) -> float:
        """Return the earliest start that a fresh plan can hold too, as far as the budget PLANNED allows the search."""
        start_s, needs_s = self.earliest(request), float(request.needs_s[0])
        while np.isfinite(start_s + needs_s) and self._planned_jobs < PLANNED:
            self._planned_jobs += len(self._held) + 1
            if not self.untenable([replace(request, due_s=np.array([start_s + needs_s]))]):
                break
            later_s = self._left.begins_s[self._left.begins_s > start_s]
            if not len(later_s):
                break
            start_s = self.earliest(request, float(later_s[0]))
        return start_s

    def beside(self, request: DeadlineRequests) -> bool:
        """Promise *request* if it fits beside the present plan; return whether it does."""
        start_s = _latest(self._left, request)
        if np.isnan(start_s):
            return False
        self._left.take(request.rows[0], int(request.gpus[0]), start_s, start_s + float(request.needs_s[0]))
        self._hold(request, np.array([start_s]))
        return True

    def anew(self, requests: Sequence[DeadlineRequests]) -> list[bool]:
        """Promise the *requests* that fit into a new plan of all promises; return one flag per request.

        If they would displace an earlier promise, only the first half of them is tried, and so on.
        """
        promised = [False] * len(requests)
        # the others would not fit if nothing had been promised
        tried = [place for place, request in enumerate(requests) if np.isfinite(_latest(self._room, request))]
        while tried and self._planned_jobs < PLANNED:
            fits = self._planned([requests[place] for place in tried])
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
        tenable = list(range(len(requests)))
        for attempt in range(len(requests)):
            held = [replace(requests[place], since_s=np.array([self._now_s])) for place in tenable]
            starts_s = latest_plan(self._whole, together([self._earlier, *held]))[0]
            before_s, new_s = np.split(starts_s, [len(self._earlier)])
            lost = np.isnan(before_s[np.isfinite(self._earlier_starts_s)]).any()
            if not lost and np.isfinite(new_s).all():
                break
            if np.isnan(new_s).any() and attempt < ATTEMPTS:
                tenable = [place for place, fits in zip(tenable, np.isfinite(new_s).tolist(), strict=True) if fits]
            else:
                tenable = tenable[: len(tenable) // 2]
            if not tenable:
                break
        return set(range(len(requests))) - set(tenable)

    def refusal(self, request: DeadlineRequests) -> str:
        """Return the reason why *request* was not promised."""
        return NO_ROOM

    def _planned(self, requests: list[DeadlineRequests]) -> list[bool] | None:
        """Promise *requests* that fit into a new plan; return one flag each, or None if an earlier promise is lost."""
        self._planned_jobs += len(self._held) + len(requests)
        starts_s, left = latest_plan(self._room, together([self._held, *requests]))
        before_s, new_s = np.split(starts_s, [len(self._held)])
        if np.isnan(before_s[np.isfinite(self._starts_s)]).any():
            return None
        self._starts_s, self._left = before_s, left
        fits = np.isfinite(new_s)
        for place in np.flatnonzero(fits).tolist():
            self._hold(requests[place], new_s[[place]])
        return [bool(fit) for fit in fits]

    def _hold(self, request: DeadlineRequests, start_s: FloatArray) -> None:
        """Add *request* to the promises."""
        self._held = self._held.plus(replace(request, since_s=np.array([self._now_s])))
        self._starts_s = np.append(self._starts_s, start_s)


def _latest(room: Room, request: DeadlineRequests) -> float:
    return room.latest(
        request.rows[0],
        int(request.gpus[0]),
        float(request.needs_s[0]),
        float(request.since_s[0]),
        float(request.due_s[0]),
    )
