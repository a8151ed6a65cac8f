"""Lease charts: the plan behind a promise, the jobs on the GPUs it needs, and changes that would help."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Plan
from ..cluster.records.promises import PromiseState
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.deadlines.gpu_availability import GpuAvailability
from ..decide.deadlines.promises import Promised, promise
from ..decide.deadlines.stops import Stops, stops
from ..decide.phrasing import HIDDEN, spell
from ..decide.rules import DeadlineRules, Rules
from ..policies.deadlines.reservations import DeadlineRequests, Room, latest_plan

BARS = 40
"""Maximum number of running jobs drawn, those with most GPUs first."""

HELPERS = 3
"""Maximum number of running jobs named that would help if they had ``ckpt``."""


@dataclass(frozen=True)
class Bar:
    """A job in the chart; times are Unix seconds, None if unknown."""

    job_id: int  #: 0 if the reader may not see it
    user: str
    gpus: int
    kind: str  #: this, promised, running, can make room, was asked
    from_s: float
    until_s: float | None


@dataclass(frozen=True)
class FreeCount:
    """The GPUs that the plan leaves free from a moment on, in blocks that a job can use."""

    from_s: float
    gpus: int


@dataclass(frozen=True)
class LeaseChart:
    """The plan around one job with a deadline, and changes that would help it."""

    job_id: int
    known: bool  #: false if nothing can be drawn; the sentences give the reason
    gpus: int = 0
    deadline_s: float | None = None
    promised_s: float | None = None
    bars: tuple[Bar, ...] = ()
    free: tuple[FreeCount, ...] = ()
    changes: tuple[str, ...] = ()  #: changes that would help
    sentences: tuple[str, ...] = ()


def chart(view: View, plan: Plan, job_id: int, rules: Rules) -> LeaseChart:
    """Return the chart of a pending job with a deadline."""
    row, deadline_rules = view.pending.row_of(job_id), rules.deadlines
    if row is None:
        return LeaseChart(
            job_id, False, sentences=(f"Job {job_id} does not wait; only the plan of a job that waits is drawn.",)
        )
    if deadline_rules is None:
        return LeaseChart(job_id, False, sentences=("Nothing is promised here: deadline.enabled is off.",))
    if not math.isfinite(view.pending.deadline_s[row]):
        return LeaseChart(job_id, False, sentences=(f"Job {job_id} asks for no deadline.",))
    drawn = _Drawing.of(view.changed(promises=plan.promises), plan, row, rules, deadline_rules)
    place = plan.promises.last_of(job_id, float(view.pending.first_submit_s[row]))
    promised = place is not None and plan.promises.state[place] == PromiseState.OPEN
    return LeaseChart(
        job_id=job_id,
        known=True,
        gpus=int(view.pending.gpus[row]),
        deadline_s=float(view.pending.deadline_s[row]),
        promised_s=float(plan.promises.promised_s[place]) if place is not None and promised else None,
        bars=tuple(drawn.bars()),
        free=tuple(drawn.free()),
        changes=() if promised else tuple(drawn.changes()),
        sentences=(drawn.summary(),),
    )


@dataclass(frozen=True, eq=False)
class _Drawing:
    """The room that a job competes for, with all promises kept."""

    view: View
    row: int
    rules: DeadlineRules
    stopping: Stops | None
    promised: Promised
    availability: GpuAvailability
    held: DeadlineRequests
    starts_s: FloatArray  #: of the promised jobs
    left: Room
    spare: Room  #: the part of *left* open to new promises

    @classmethod
    def of(cls, view: View, plan: Plan, row: int, rules: Rules, deadline_rules: DeadlineRules) -> _Drawing:
        stopping = stops(view, rules)
        by_s = None if stopping is None else np.where(stopping.promised, np.inf, stopping.by_s)
        promised = promise(view, plan.jobs.standing, deadline_rules, "order" in rules.powers, stopping)
        availability = GpuAvailability(view, deadline_rules.margin, deadline_rules.lead_s, by_s)
        room = availability.open(np.append(promised.rows, row))
        held = availability.requests(promised.rows, promised.due_s, view.now_s)
        starts_s, left = latest_plan(room, held)
        spare = latest_plan(room.less(deadline_rules.reserve), held)[1]
        return cls(view, row, deadline_rules, stopping, promised, availability, held, starts_s, left, spare)

    def bars(self) -> Iterator[Bar]:
        """Yield this job where it would run, then promised jobs by start, then running jobs by falling GPUs."""
        jobs, running = self.view.pending, self.view.running
        start_s = self._start_s()
        needs_s = float(self.availability.needs_s[self.row])
        ends_s = None if start_s is None else start_s + needs_s
        yield _bar(jobs, self.row, "this", start_s or self.view.now_s, ends_s)
        for at in np.argsort(self.starts_s, kind="stable").tolist():
            row, from_s = int(self.promised.rows[at]), float(self.starts_s[at])
            if row != self.row and math.isfinite(from_s):
                until_s = from_s + float(self.held.needs_s[at])
                yield _bar(jobs, row, "promised", from_s, until_s)
        holding = np.flatnonzero(self.availability.holding(np.array([self.row])))
        for row in holding[np.argsort(-running.gpus[holding], kind="stable")][:BARS].tolist():
            kind, end_s = self._running(row)
            yield _bar(running, row, kind, float(running.started_s[row]), end_s)

    def free(self) -> Iterator[FreeCount]:
        """Yield GPUs on its nodes that are left by running jobs and all promises, its own included."""
        rows = self.availability.requests(np.array([self.row]), np.array([np.inf]), self.view.now_s).rows[0]
        least = self.left.free[rows].min(axis=0) if rows.any() else np.zeros(len(self.left.begins_s), dtype=np.int64)
        before = -1
        for at_s, gpus in zip(self.left.begins_s.tolist(), np.maximum(least, 0).tolist(), strict=True):
            if gpus != before:
                yield FreeCount(at_s, gpus)
            before = gpus

    def summary(self) -> str:
        """Return a sentence about the needs of the job and the jobs that hold its nodes."""
        holding = self.availability.holding(np.array([self.row]))
        taken = int(self.view.running.gpus[holding].sum())
        needs = (
            f"{count(self.availability.gpus(self.row), 'GPU')} for {spell(float(self.availability.needs_s[self.row]))}"
        )
        return (
            f"It needs {needs}; on the nodes that it may run on {count(int(holding.sum()), 'running job')} hold "
            f"{count(taken, 'GPU')}, and {count(int((self.promised.rows != self.row).sum()), 'promise')} to other jobs "
            f"that wait must be kept."
        )

    def changes(self) -> Iterator[str]:
        """Yield single changes that would get the job a promise."""
        jobs, now_s = self.view.pending, self.view.now_s
        due_s, first_s = float(jobs.deadline_s[self.row]), float(jobs.first_submit_s[self.row])
        earliest_s = self._earliest_s(self.spare)
        if math.isfinite(earliest_s) and earliest_s > due_s:
            minutes = math.ceil((earliest_s - first_s) / 60) + 1
            yield f"A deadline {spell(earliest_s - due_s)} later (deadline=+{minutes}m) could be promised now."
        if (fewer := self._fewer(due_s)) is not None:
            yield f"With {count(fewer, 'GPU')} it would be in time, if it takes no longer with them."
        if (needs_s := self._shorter(due_s)) is not None:
            yield f"With a --time of at most {spell(needs_s)}, where that is true, it would be in time."
        helpers = [self._named(row) for row in self._helpers(due_s)]
        if helpers:
            yield f"If {' or '.join(helpers)} had the token slurmsched:ckpt, that job could make room for it."
        if due_s <= now_s:
            yield "Its deadline has passed; a new comment (scontrol update) asks for another."

    def _start_s(self) -> float | None:
        """Return its latest start if promised, else its earliest possible one; None if there is none."""
        laxity_s = float(self.promised.laxity_s[self.row])
        if math.isfinite(laxity_s):
            return self.view.now_s + laxity_s
        end_s = self._earliest_s(self.left)
        return end_s - float(self.availability.needs_s[self.row]) if math.isfinite(end_s) else None

    def _running(self, row: int) -> tuple[str, float | None]:
        """Return the kind of a running job in the chart, and the planned end of its hold on GPUs (None: unknown)."""
        end_s = float(self.availability.ends_s[row])
        stop_s = float(self.stopping.by_s[row]) if self.stopping is not None else math.inf
        asked_to_stop = self.stopping is not None and bool(self.stopping.awaited[row])
        kind = "was asked" if asked_to_stop else "can make room" if stop_s < end_s else "running"
        until_s = max(min(end_s, stop_s), self.view.now_s)
        return kind, until_s if math.isfinite(until_s) else None

    def _earliest_s(self, left: Room, needs_s: float | None = None) -> float:
        """Return the earliest end beside all promises; NaN if there is none."""
        request = self.availability.requests(
            np.array([self.row]), np.array([np.inf]), self.view.now_s + self.rules.lead_s
        )
        takes_s = float(self.availability.needs_s[self.row]) if needs_s is None else needs_s
        return left.earliest(request.rows[0], int(request.gpus[0]), takes_s, float(request.since_s[0])) + takes_s

    def _earliest_by(self, stops_s: FloatArray | None) -> float:
        """Return the earliest end beside all promises if running jobs made room by *stops_s*."""
        availability = GpuAvailability(self.view, self.rules.margin, self.rules.lead_s, stops_s)
        room = availability.open(np.append(self.promised.rows, self.row)).less(self.rules.reserve)
        held = availability.requests(self.promised.rows, self.held.due_s, self.view.now_s)
        return replace(self, availability=availability)._earliest_s(latest_plan(room, held)[1])

    def _fewer(self, due_s: float) -> int | None:
        """Return the largest power of two below its GPUs with which it would be in time; None if there is none."""
        jobs = self.view.pending
        requested = int(jobs.gpus[self.row])
        for gpus in (1 << power for power in range(max(0, requested - 1).bit_length() - 1, -1, -1)):
            columns = {name: getattr(jobs, name).copy() for name in ("gpus", "nodes")}
            columns["gpus"][self.row] = gpus
            columns["nodes"][self.row] = min(int(jobs.nodes[self.row]), gpus)
            fewer = replace(self, view=replace(self.view, pending=replace(jobs, **columns)))
            if fewer._earliest_by(None if self.stopping is None else self.stopping.by_s) <= due_s:
                return gpus
        return None

    def _shorter(self, due_s: float) -> float | None:
        """Return the longest runtime, whole minutes in seconds, with which it would be in time; None if none."""
        low, high = 0, int(self.availability.needs_s[self.row] // 60)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._earliest_s(self.spare, 60.0 * middle) <= due_s else (low, middle - 1)
        return 60.0 * low if low else None

    def _helpers(self, due_s: float) -> list[int]:
        """Return running rows that could each, if it had ckpt, alone bring the job in time."""
        stopping = self.stopping
        if stopping is None:
            return []
        jobs = self.view.running
        alone = (
            self.availability.holding(np.array([self.row])) & ~jobs.ckpt & ~jobs.interactive & (jobs.array_job_id == 0)
        )
        rows = np.flatnonzero(alone & jobs.requeueable)[:BARS]
        from_s = np.maximum(self.view.now_s, jobs.started_s + self.rules.lease_s)
        agreed_s = from_s + self.rules.stop_s + self.rules.lead_s

        def enough(some: IntArray) -> bool:
            by_s = stopping.by_s.copy()
            by_s[some] = agreed_s[some]
            return self._earliest_by(by_s) <= due_s

        helpers: list[int] = []
        if enough(rows):  # else none of them alone is
            for row in rows.tolist():
                if enough(np.array([row])):
                    helpers.append(row)
                if len(helpers) == HELPERS:
                    break
        return helpers

    def _named(self, row: int) -> str:
        jobs = self.view.running
        return "another user's job" if jobs.user[row] == HIDDEN else f"job {jobs.job_id[row]} ({jobs.user[row]})"


def _bar(jobs: JobTable, row: int, kind: str, from_s: float, until_s: float | None) -> Bar:
    job_id = 0 if jobs.user[row] == HIDDEN else int(jobs.job_id[row])
    return Bar(job_id, jobs.user[row], int(jobs.gpus[row]), kind, from_s, until_s)
