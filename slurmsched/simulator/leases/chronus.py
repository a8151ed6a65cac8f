"""Chronus in rounds: promises at admission, kept as late as is safe; everything else shortest remaining time first."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.deadlines.lateness import chance_late, in_doubt
from ...policies.deadlines.latest_leases import Latest, latest
from ...policies.deadlines.lease_plan import solve
from ...policies.deadlines.lease_problem import LeaseProblem
from ...policies.deadlines.milp_solver import Guarded
from .rounds import RoundOrder, resume_cost_s
from .terms import Terms
from .world import LeaseState


class Chronus:
    """Promises what it can plan, keeps it, and says early what it cannot keep.

    A new job with deadlines is promised the first step by which it can end without an older promise being broken. Where
    not all new jobs can have their first step, a *solver* says who gets which step such that most reward is earned;
    without one the earliest deadline comes first. In each round promised jobs that the latest plan has running now,
    with time to spare, get a lease by laxity, after those that hold one; where there are too few GPUs for all of these,
    those come first that the plan without time to spare has running now. Other GPUs go to all other jobs by remaining
    time, which counts for less where a job without a promise may make a deadline all the same. A job that has lost its
    promise runs for its next step, or among the others where it has none. *terms* say how much is kept in hand.
    """

    def __init__(self, world: LeaseState, solver: Guarded | None, terms: Terms) -> None:
        count = len(world.submit_s)
        self.promised = np.full(count, -1)  #: step that each job was promised, -1 where none
        self.announced_s = np.full(count, np.inf)  #: when its owner was told that it will be late
        self.solved = 0  #: admissions that went to the solver
        self._due_s = np.full(count, np.inf)  #: the deadline each promised job runs for
        self._refused_s = -np.inf
        self._solver, self._terms = solver, terms

    def turn(self, world: LeaseState, new: IntArray) -> RoundOrder:
        """See ``RoundPolicy``."""
        self._give_up(world)
        self._admit(world, new[world.slo[new]])
        rows, left_s = world.rows, world.left_s
        bound = np.flatnonzero(np.isfinite(self._due_s[rows]))
        held = world.running[rows] & (world.lease_end_s[rows] > world.now_s)
        laxity_s = self._due_s[rows] - world.now_s - left_s
        plan = self._latest(world, rows[bound], left_s[bound], world.capacity, self._terms.slack_s)
        urgent, must = held.copy(), np.zeros(len(rows), np.bool_)
        urgent[bound] |= plan.first + plan.late + plan.hopeless > 0
        if world.gpus[rows[urgent]].sum() > world.capacity:
            without = self._latest(world, rows[bound], left_s[bound], world.capacity, 0.0)
            must[bound] = without.first + without.late > 0
            # A job that runs and is stopped pays for going on, which the plan does not count before.
            stop_s = world.rules.tick_s + resume_cost_s(world.rules.resume_s, world.gpus[rows])
            must |= world.running[rows] & (laxity_s < stop_s) & np.isfinite(laxity_s)
            urgent |= must
        fresh = rows[urgent & ~held]
        world.lease_end_s[fresh] = world.now_s + world.rules.lease_s
        counts = np.minimum(self._terms.hope * np.sqrt(world.gpus[rows]), 1.0)
        counted_s = np.where(self._hoped(world), counts, 1.0) * left_s
        return RoundOrder(rows[np.lexsort((rows, np.where(urgent, laxity_s, counted_s), ~held, ~must, ~urgent))])

    def _give_up(self, world: LeaseState) -> None:
        """Tell owners whose job may be late; let jobs that will be run for the next deadline they can make."""
        rows = world.rows
        bound = np.flatnonzero(np.isfinite(self._due_s[rows]))
        late = _chances(world, rows[bound], self._due_s[rows[bound], None])[:, 0]
        ahead_s = self._due_s[rows[bound]] - world.now_s
        window_s = self._due_s[rows[bound]] - world.submit_s[rows[bound]]
        announced = in_doubt(late, ahead_s, window_s, world.rules.tick_s, self._terms.doubt)
        doubtful = rows[bound[announced]]
        self.announced_s[doubtful] = np.minimum(self.announced_s[doubtful], world.now_s)
        for row in rows[bound[late > self._terms.lost]].tolist():
            chances = _chances(world, np.array([row]), world.due_s[[row]])[0]
            later = (chances <= self._terms.lost) & (world.worth[row] > 0)
            self._due_s[row] = world.due_s[row][later].min(initial=np.inf)

    def _hoped(self, world: LeaseState) -> BoolArray:
        """Which of ``rows`` have no promise, may make a deadline all the same, and have no time to spare."""
        rows = world.rows
        free = np.flatnonzero(world.slo[rows] & ~np.isfinite(self._due_s[rows]))
        hoped = np.zeros(len(rows), np.bool_)
        if self._terms.hope == 1.0 or not len(free):
            return hoped
        due_s = world.due_s[rows[free]]
        reachable = (_chances(world, rows[free], due_s) <= 1.0 - self._terms.hope_least) & (world.worth[rows[free]] > 0)
        first_s = np.where(reachable, due_s, np.inf).min(axis=1)
        hoped[free] = first_s - world.now_s - world.left_s[free] < self._terms.slack_s
        return hoped

    def _admit(self, world: LeaseState, new: IntArray) -> None:
        """Promise each of *new* a step that can be kept together with all older promises, or nothing."""
        needs_s = world.left_s[np.isin(world.rows, new)]
        reachable = (world.due_s[new] - world.now_s >= needs_s[:, None]) & (world.worth[new] > 0)
        able = reachable.any(axis=1)
        new, steps = new[able], reachable.argmax(axis=1)[able]
        if not len(new) or self._promise(world, new, steps):
            return
        order = np.argsort(world.due_s[new, 0], kind="stable")
        order, steps = new[order], steps[order]
        if self._solver is not None:
            order, steps = self._solved(world, new, self._solver)
        for row, least in zip(order.tolist(), steps.tolist(), strict=True):
            one, last = np.array([row]), int(np.count_nonzero(world.worth[row] > 0))
            if any(self._promise(world, one, np.array([step])) for step in range(least, last)):
                continue
            if not self._fits(world, one, np.array([last - 1]), self._terms.reserve):
                self._refused_s = world.now_s

    def _promise(self, world: LeaseState, new: IntArray, steps: IntArray) -> bool:
        """Promise *steps* to the jobs *new* if all promises can be kept then, and enough is kept back for others."""
        terms = self._terms
        share = terms.reserve
        if world.now_s - self._refused_s <= terms.memory_s:
            largest_s = float((world.planned_s[new] * world.gpus[new]).max())
            share += terms.kept_back * min(1.0, largest_s / terms.largest_s)
        if not self._fits(world, new, steps, share):
            return False
        self._due_s[new] = world.due_s[new, steps]
        self.promised[new] = steps
        return True

    def _fits(self, world: LeaseState, new: IntArray, steps: IntArray, share: float) -> bool:
        """Whether all promises and *steps* for *new* can be kept with a *share* of the GPUs left over."""
        self._due_s[new] = world.due_s[new, steps]
        bound = np.flatnonzero(np.isfinite(self._due_s[world.rows]))
        rows = world.rows[bound]
        widest = int(world.gpus[rows].max(initial=0))
        capacity = max(widest, int((1 - share) * world.capacity))
        plan = self._latest(world, rows, world.left_s[bound], capacity, 0.0)
        self._due_s[new] = np.inf
        return not plan.late.any() and not plan.hopeless[np.isin(rows, new)].any()

    def _latest(self, world: LeaseState, rows: IntArray, left_s: FloatArray, capacity: int, slack_s: float) -> Latest:
        """The latest plan for *rows*; a job that waits after a stop pays for going on."""
        needs_s = left_s + _going_on_s(world, rows)
        tick_s = world.rules.tick_s
        needs = np.ceil(needs_s / tick_s - 1e-9)
        # The last tick is not used up: it may begin as late as the deadline less what is left by then.
        due = np.floor((self._due_s[rows] - world.now_s - slack_s + needs * tick_s - needs_s) / tick_s + 1e-9)
        return latest(needs.astype(np.int64), due.astype(np.int64), world.gpus[rows], capacity)

    def _solved(self, world: LeaseState, new: IntArray, solver: Guarded) -> tuple[IntArray, IntArray]:
        """Who of *new* to ask first, and from which step on, as the plan worth most says; the rest after them."""
        self.solved += 1
        held = world.rows[np.isfinite(self._due_s[world.rows])]
        rows = np.concatenate([held, new])
        problem = lease_problem(world, rows, np.where(np.isin(rows, new), -1, self.promised[rows]))
        steps = solve(problem, self._terms.limit_s, solver).step[len(held) :]
        order = np.lexsort((world.due_s[new, 0], steps < 0))
        return new[order], np.maximum(steps, 0)[order]


def lease_problem(world: LeaseState, rows: IntArray, promised: IntArray) -> LeaseProblem:
    """*rows* as a lease problem: leases of ``lease_s`` from now on, jobs that can move, all GPUs in every slot.

    A deadline that rounding down to whole leases would put out of a job's reach, though it is not, is rounded up.
    """
    lease_s = world.rules.lease_s
    place = np.full(len(world.submit_s), -1)
    place[world.rows] = np.arange(len(world.rows))
    left_s = world.left_s[place[rows]]
    leases = np.maximum(1, np.ceil(left_s / lease_s)).astype(np.int64)
    steps = world.worth[rows] > 0
    ahead_s = np.where(steps, world.due_s[rows] - world.now_s, 0.0)
    reachable = steps & (ahead_s >= left_s[:, None])
    slots = np.where(reachable, np.maximum(np.floor(ahead_s / lease_s), leases[:, None]), 0).astype(np.int64)
    slots = np.maximum.accumulate(np.where(steps, np.maximum(slots, 0), 0), axis=1) * steps
    horizon = int(max(1, slots.max(initial=1)))
    never = np.zeros(len(rows), np.bool_)
    capacity = np.full((1, horizon), world.capacity)
    return LeaseProblem(world.gpus[rows], leases, never, never.copy(), promised, slots, world.worth[rows], capacity)


def _going_on_s(world: LeaseState, rows: IntArray) -> FloatArray:
    """What going on costs those of *rows* that wait after a stop."""
    waits = ~world.running[rows] & (world.stops[rows] > 0)
    return np.where(waits, resume_cost_s(world.rules.resume_s, world.gpus[rows]), 0.0)


def _chances(world: LeaseState, rows: IntArray, due_s: FloatArray) -> FloatArray:
    """How likely each of *rows* ends later than each of its *due_s* (row x deadline) if it runs from now on."""
    spent_s = _going_on_s(world, rows) + world.owed_s[rows]
    ahead_s = due_s - world.now_s - spent_s[:, None]
    median_s, high_s, done_s = world.median_s[rows], world.planned_s[rows], world.done_s[rows]
    return chance_late(median_s[:, None], high_s[:, None], done_s[:, None], ahead_s)
