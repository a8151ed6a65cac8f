"""Chronus in rounds: promises at admission, kept as late as is safe; everything else shortest remaining time first."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.leases.latest import Latest, latest
from ...policies.leases.problem import LeaseProblem
from ...policies.leases.solve import solve
from ...policies.leases.solver import Guarded
from .rounds import Turn, resume_cost_s
from .world import World

SLACK_S = 3_600.0
"""Promised jobs are run so as to end this long before their deadline where they can: three leases.

What is kept in hand for jobs that have not come yet: less refuses more of them, more makes best effort wait."""

RESERVE = 0.05
"""Of the GPUs, the share that promises leave to what plans do not know: stops, and the ends of leases."""

KEPT_BACK = 0.4
"""Of the GPUs, the further share that promises to the longest jobs leave to shorter ones that come later.

Only after somebody has been refused for want of GPUs: who holds a promise keeps it, so that without this a few long
jobs would have many short ones refused (trunk reservation)."""

LONGEST_S = 28_800.0
"""So long are the longest jobs in this sense; to shorter ones proportionally less is kept back."""

MEMORY_S = 86_400.0
"""So long a refusal is remembered."""

CAUTION = 2.5
"""An owner is told when less time is left than this often the least that a job is taken to need still."""

LIMIT_S = 2.0
"""Seconds that a solver may take for one admission."""


class Chronus:
    """Promises what it can plan, keeps it, and says early what it cannot keep.

    A new job with deadlines is promised the first step by which it can end without an older promise being broken. Where
    not all new jobs can have their first step, a *solver* says who gets which step such that most reward is earned;
    without one the earliest deadline comes first. In each round promised jobs that the latest plan has running now,
    with *slack_s* to spare, get a lease by laxity, after those that hold one; other GPUs go to all other jobs by
    remaining time. A job that cannot make its promise any more runs for its next step, or among the others where it has
    none.
    """

    def __init__(self, world: World, solver: Guarded | None = None, slack_s: float = SLACK_S) -> None:
        count = len(world.submit_s)
        self.promised = np.full(count, -1)  #: step that each job was promised, -1 where none
        self.announced_s = np.full(count, np.inf)  #: when its owner was told that it will be late
        self.solved = 0  #: admissions that went to the solver
        self._due_s = np.full(count, np.inf)  #: the deadline each promised job runs for
        self._refused_s = -np.inf
        self._solver, self._slack_s = solver, slack_s

    def turn(self, world: World, new: IntArray) -> Turn:
        """See ``RoundPolicy``."""
        self._give_up(world)
        self._admit(world, new[world.slo[new]])
        rows, left_s = world.rows, world.left_s
        bound = np.flatnonzero(np.isfinite(self._due_s[rows]))
        held = world.running[rows] & (world.lease_end_s[rows] > world.now_s)
        plan = self._latest(world, rows[bound], left_s[bound], world.capacity, self._slack_s)
        urgent = held.copy()
        urgent[bound] |= plan.first + plan.late + plan.hopeless > 0
        fresh = rows[urgent & ~held]
        world.lease_end_s[fresh] = world.now_s + world.rules.lease_s
        laxity_s = self._due_s[rows] - world.now_s - left_s
        return Turn(rows[np.lexsort((rows, np.where(urgent, laxity_s, left_s), ~held, ~urgent))])

    def _give_up(self, world: World) -> None:
        """Tell owners whose job may be late; let jobs that will be run for the next deadline they can make."""
        rows, cost_s = world.rows, _going_on_s(world, world.rows)
        ahead_s, needs_s = self._due_s[rows] - world.now_s, world.left_s + cost_s
        doubtful = ahead_s < np.maximum(needs_s, CAUTION * world.least_s[rows] + cost_s)
        self.announced_s[rows[doubtful]] = np.minimum(self.announced_s[rows[doubtful]], world.now_s)
        for place in np.flatnonzero(ahead_s < needs_s).tolist():
            row = rows[place]
            later = (world.due_s[row] - world.now_s >= needs_s[place]) & (world.worth[row] > 0)
            self._due_s[row] = world.due_s[row][later].min(initial=np.inf)

    def _admit(self, world: World, new: IntArray) -> None:
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
            if not self._fits(world, one, np.array([last - 1]), RESERVE):
                self._refused_s = world.now_s

    def _promise(self, world: World, new: IntArray, steps: IntArray) -> bool:
        """Promise *steps* to the jobs *new* if all promises can be kept then, and enough is kept back for others."""
        share = RESERVE
        if world.now_s - self._refused_s <= MEMORY_S:
            share += KEPT_BACK * min(1.0, float(world.planned_s[new].max()) / LONGEST_S)
        if not self._fits(world, new, steps, share):
            return False
        self._due_s[new] = world.due_s[new, steps]
        self.promised[new] = steps
        return True

    def _fits(self, world: World, new: IntArray, steps: IntArray, share: float) -> bool:
        """Whether all promises and *steps* for *new* can be kept with a *share* of the GPUs left over."""
        self._due_s[new] = world.due_s[new, steps]
        bound = np.flatnonzero(np.isfinite(self._due_s[world.rows]))
        rows = world.rows[bound]
        widest = int(world.gpus[rows].max(initial=0))
        capacity = max(widest, int((1 - share) * world.capacity))
        plan = self._latest(world, rows, world.left_s[bound], capacity, 0.0)
        self._due_s[new] = np.inf
        return not plan.late.any() and not plan.hopeless[np.isin(rows, new)].any()

    def _latest(self, world: World, rows: IntArray, left_s: FloatArray, capacity: int, slack_s: float) -> Latest:
        """The latest plan for *rows*; a job that waits after a stop pays for going on."""
        needs_s = left_s + _going_on_s(world, rows)
        tick_s = world.rules.tick_s
        needs = np.ceil(needs_s / tick_s - 1e-9)
        # The last tick is not used up: it may begin as late as the deadline less what is left by then.
        due = np.floor((self._due_s[rows] - world.now_s - slack_s + needs * tick_s - needs_s) / tick_s + 1e-9)
        return latest(needs.astype(np.int64), due.astype(np.int64), world.gpus[rows], capacity)

    def _solved(self, world: World, new: IntArray, solver: Guarded) -> tuple[IntArray, IntArray]:
        """Who of *new* to ask first, and from which step on, as the plan worth most says; the rest after them."""
        self.solved += 1
        held = world.rows[np.isfinite(self._due_s[world.rows])]
        rows = np.concatenate([held, new])
        problem = lease_problem(world, rows, np.where(np.isin(rows, new), -1, self.promised[rows]))
        steps = solve(problem, LIMIT_S, solver).step[len(held) :]
        order = np.lexsort((world.due_s[new, 0], steps < 0))
        return new[order], np.maximum(steps, 0)[order]


def lease_problem(world: World, rows: IntArray, promised: IntArray) -> LeaseProblem:
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


def _going_on_s(world: World, rows: IntArray) -> FloatArray:
    """What going on costs those of *rows* that wait after a stop."""
    waits = ~world.running[rows] & (world.stops[rows] > 0)
    return np.where(waits, resume_cost_s(world.rules.resume_s, world.gpus[rows]), 0.0)
