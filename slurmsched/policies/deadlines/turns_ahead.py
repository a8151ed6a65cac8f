"""Turns ahead: when promised jobs end if they take turns from now on, with what each stop costs them.

The latest plan (``latest_leases``) counts GPU time in stretches, and no stop: it may have room on paper for jobs that
cannot all end in time. Played forward in ticks, a rule that only looks at the present state keeps what it promised as
long as it is followed: the same rule ends the same jobs from any of the states on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import compiled, inner
from .reservations import DeadlineRequests, Room

TOLERANCE_S = 1e-3
"""Rounding of times that add up over many ticks."""


@dataclass(frozen=True, eq=False)
class TurnsAhead:
    """Promised *jobs* that can be stopped, on the first row of *room*, less the GPUs that others hold to their end.

    They change at *beat_s*, the next end of leases, and every *tick_s* after it. The rule: jobs that would be late
    otherwise go first, then the earliest deadline, and narrower jobs fill what is left.
    """

    now_s: float
    beat_s: float
    tick_s: float
    room: Room
    jobs: DeadlineRequests

    def late(self, chosen: BoolArray) -> BoolArray:
        """Select the jobs that are late if the *chosen* ones run until the next beat, and then the rule decides.

        Jobs that are late whatever happens are left out.
        """
        if not self.possible.any():
            return np.zeros(len(self.jobs), dtype=np.bool_)
        return self._played(np.asarray(chosen & self.possible))[1]

    def fewest_late(self) -> tuple[int, BoolArray]:
        """Return how many jobs are late at best, and which run until the next beat: by the rule, or the same as now."""
        chosen, late_ones = self._turns
        late = late_ones.sum()
        if late and (stay := self.late(self.jobs.runs).sum()) < late:
            late, chosen = stay, np.asarray(self.jobs.runs & self.possible)
        return int(late), chosen

    @cached_property
    def possible(self) -> BoolArray:
        """Select the jobs that end in time if they run from now on."""
        return np.asarray(self.now_s + self.jobs.needs_s <= self.jobs.due_s + TOLERANCE_S)

    @cached_property
    def _turns(self) -> tuple[BoolArray, BoolArray]:
        """The jobs that run now by the rule, and those that are late then."""
        if not self.possible.any():
            nobody = np.zeros(len(self.jobs), dtype=np.bool_)
            return nobody, nobody
        return self._played(None)

    def _played(self, chosen: BoolArray | None) -> tuple[BoolArray, BoolArray]:
        jobs, begins_s, free = self.jobs, self.room.begins_s, self.room.free[0]
        order = np.lexsort((jobs.job_id, jobs.due_s))
        runs, late = np.zeros((2, len(jobs)), dtype=np.bool_)
        runs[order], late[order] = played(
            self.now_s,
            self.beat_s,
            self.tick_s,
            np.ascontiguousarray(begins_s),
            np.ascontiguousarray(free),
            jobs.gpus[order],
            np.where(self.possible, jobs.needs_s, 0.0)[order],
            jobs.due_s[order],
            jobs.resume_s[order],
            jobs.runs[order],
            np.zeros(len(jobs), np.bool_) if chosen is None else chosen[order],
            chosen is None,
        )
        return runs, late


@compiled
def played(
    now_s: float,
    beat_s: float,
    tick_s: float,
    begins_s: FloatArray,
    free: IntArray,
    gpus: IntArray,
    left_s: FloatArray,
    due_s: FloatArray,
    resume_s: FloatArray,
    runs: BoolArray,
    chosen: BoolArray,
    by_rule: bool,
) -> tuple[BoolArray, BoolArray]:
    """Play jobs, the earliest deadline first, until all have ended; return who runs first, and who is late.

    Until *beat_s* the *chosen* ones run, or those *by_rule*. A job without work *left_s* takes no part, and one that is
    late no longer does.
    """
    left_s, runs = left_s.copy(), runs.copy()
    late, next_ones = np.zeros(len(gpus), np.bool_), chosen.copy()
    first, at_s, until_s = chosen, now_s, beat_s
    while True:
        if by_rule or at_s > now_s:
            room = _open(begins_s, free, at_s, until_s)
            _turn(at_s, until_s - at_s, room, gpus, left_s, due_s, resume_s, runs, next_ones)
            if at_s <= now_s:
                first = next_ones.copy()
            until_s += tick_s * _more_ticks(at_s, until_s, tick_s, begins_s, left_s, due_s, resume_s, next_ones)
        lasting = False
        for job in range(len(gpus)):
            if left_s[job] <= 0.0:
                continue
            if next_ones[job]:
                left_s[job] = max(0.0, left_s[job] - (until_s - at_s))
            elif runs[job]:
                left_s[job] += resume_s[job]
            runs[job] = next_ones[job] and left_s[job] > 0.0
            if left_s[job] > 0.0 and until_s + left_s[job] > due_s[job] + TOLERANCE_S:
                late[job], runs[job], left_s[job] = True, False, 0.0
            lasting |= left_s[job] > 0.0
        if not lasting:
            return first, late
        at_s, until_s = until_s, until_s + tick_s


@inner
def _turn(
    at_s: float,
    length_s: float,
    room: int,
    gpus: IntArray,
    left_s: FloatArray,
    due_s: FloatArray,
    resume_s: FloatArray,
    runs: BoolArray,
    chosen: BoolArray,
) -> None:
    """Fill *chosen* with the jobs that run next: those that would be late otherwise, then by deadline."""
    chosen[:] = False
    for urgent in (True, False):
        for job in range(len(gpus)):
            if left_s[job] <= 0.0 or gpus[job] > room or chosen[job]:
                continue
            spare_s = due_s[job] - at_s - left_s[job] - (resume_s[job] if runs[job] else 0.0)
            if (spare_s + TOLERANCE_S < length_s) == urgent:
                chosen[job] = True
                room -= gpus[job]


@inner
def _more_ticks(
    at_s: float,
    until_s: float,
    tick_s: float,
    begins_s: FloatArray,
    left_s: FloatArray,
    due_s: FloatArray,
    resume_s: FloatArray,
    chosen: BoolArray,
) -> int:
    """Return the ticks after *until_s* for which the same jobs go on: until one ends or becomes urgent."""
    most = 1e9
    for job in range(len(left_s)):
        if left_s[job] <= 0.0:
            continue
        if chosen[job]:
            most = min(most, np.ceil((left_s[job] - (until_s - at_s)) / tick_s - 1e-9))
        else:
            most = min(most, np.floor((due_s[job] - until_s - left_s[job] - resume_s[job]) / tick_s - 1e-9))
    place = np.searchsorted(begins_s, until_s)
    if place < len(begins_s):
        most = min(most, np.floor((begins_s[place] - until_s) / tick_s))
    return int(max(most, 0.0)) if most < 1e9 else 0


@inner
def _open(begins_s: FloatArray, free: IntArray, at_s: float, until_s: float) -> int:
    """Return the fewest GPUs that are free in an interval."""
    first = max(0, int(np.searchsorted(begins_s, at_s, side="right")) - 1)
    last = max(first + 1, int(np.searchsorted(begins_s, until_s)))
    return int(free[first:last].min())
