"""A model of slurmctld: priorities, the main loop and the backfill loop, in loops that compile.

It follows slurm.conf(5) and the observed behaviour of release 22.05 (docs/simulator.md): a batch job waits for one of
the loops; the main loop runs a moment after jobs come, end or are changed, in order of priority, and stops in a
partition at its first job that does not fit; backfill, a thread with an interval of its own, runs every bf_interval
after something changed and starts what delays no reservation, by time limits.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...policies.by_address import entry_by_address
from ...policies.compiled import borrowing, inner
from ...policies.selection.allowed_nodes import PartitionSets
from ...policies.selection.node_search import find_now, is_shut
from ...policies.selection.planned_room import FOUND, earliest, forget, full_until, keep_for, look, reserve, started
from ...policies.selection.resources import ALL, CHOSEN, width
from ...policies.selection.sorted_rows import drop_out
from ..engine.calendar import BEGIN, NEVER, STEP
from ..engine.job_state import RUNNING, schedule, start
from ..engine.ranked_runs import IN_USE, enter_run
from .fair_share import accrue
from .gates import count, is_open, let_go
from .multifactor import base_priority
from .state import (
    BACKFILL_DUE,
    BACKFILL_LAST,
    CALC_DUE,
    MAIN_DUE,
    MAIN_LAST,
    NOW,
    ORDER_STALE,
    Controller,
)

MOST_PRIORITY = 2.0**33

ABOVE_TIERS = 2**17
"""slurmctld looks at jobs in reservations first, whatever the tiers of partitions, which are 16 bits."""

_NONE_TESTED = cast(int, np.int64(0))
_BLOCKING, _NOT_BLOCKING = cast(bool, np.bool_(True)), cast(bool, np.bool_(False))
"""Numba compiles a function again for each literal that it gets."""


@entry_by_address
def wake_loops(c: Controller, now_s: float) -> None:
    """Make the loops due after a change."""
    rules = c.rules
    main_s = max(now_s, c.clock[MAIN_LAST] + rules.batch_sched_delay_s)
    if rules.poll_s > 0:
        main_s = np.ceil(main_s / rules.poll_s) * rules.poll_s
    c.clock[MAIN_DUE] = min(c.clock[MAIN_DUE], main_s)
    if rules.direct:
        return
    if rules.poll_s == 0:  # both loops are one decision
        backfill_s = max(main_s, c.clock[BACKFILL_LAST] + rules.bf_interval_s)
    else:
        backfill_s = _backfill_s(c, now_s)
    c.clock[BACKFILL_DUE] = min(c.clock[BACKFILL_DUE], backfill_s)


@borrowing
def _backfill_s(c: Controller, from_s: float) -> float:
    """Return the time at which the backfill loop next checks for work, *from_s* at the soonest.

    It is a thread of its own: it sleeps bf_interval after a pass, then checks once a second. Nothing ties those seconds
    to the main loop's; half-way between is their mean position.
    """
    poll_s, wakes_s = c.rules.poll_s, c.clock[BACKFILL_LAST] + c.rules.bf_interval_s
    if c.clock[BACKFILL_LAST] == -np.inf:
        wakes_s = 0.5 * poll_s
    return float(wakes_s + max(0.0, np.ceil((from_s - wakes_s) / poll_s)) * poll_s)


@borrowing
def wait(c: Controller, row: int, now_s: float) -> None:
    """Put a job in the queue."""
    life = c.stage.life
    if c.clock[CALC_DUE] == NEVER:
        c.clock[CALC_DUE] = now_s + c.rules.calc_period_s
    c.base[row] = base_priority(c.usage, c.weights, c.factors, row, max(0.0, now_s - life.begin_s[row]))
    if life.begin_s[row] > now_s:
        schedule(c.stage, life.begin_s[row], BEGIN, row)
    _queue_up(c, row, key_of(c, row))


@borrowing
def _queue_up(c: Controller, row: int, key: float) -> None:
    """Insert a job in the queue."""
    queue, spot = c.queue, c.queue.many[0]
    while spot > 0 and _precedes(c, row, key, queue.rows[spot - 1], queue.keys[spot - 1]):
        queue.rows[spot], queue.keys[spot] = queue.rows[spot - 1], queue.keys[spot - 1]
        spot -= 1
    queue.rows[spot], queue.keys[spot] = row, key
    queue.many[0] += 1


@borrowing
def _precedes(c: Controller, row: int, key: float, other: int, other_key: float) -> bool:
    """Return True if a job comes before another one: by key, then by the second of its submission, then by id.

    A requeue resets the submission, so that a requeued job comes after others of its priority (observed on 22.05).
    """
    if key != other_key:
        return key < other_key
    second, other_second = _turn(c, row), _turn(c, other)
    return row < other if second == other_second else second < other_second


@borrowing
def _turn(c: Controller, row: int) -> float:
    """Return the place of a job among those of its priority; without a slurmctld they go by id alone."""
    return 0.0 if c.rules.direct else float(np.floor(c.stage.life.submit_s[row]))


@entry_by_address
def key_of(c: Controller, row: int) -> float:
    """Return a job's sort key: in a reservation or not, tier, priority; or the given key. The smaller comes first."""
    if c.rules.direct:
        life, keys = c.stage.life, c.given
        return float(keys.at[life.level[row], row] + keys.slope[row] * life.ran_s[row])
    level = c.parts.tier[c.parts.of[row]] + (ABOVE_TIERS if _own_reservations(c, row) else 0)
    return float(-(level * MOST_PRIORITY + priority(c, row)))


def levels(c: Controller) -> IntArray:
    """Return what precedes the priority of each job: the tier of its partition, behind jobs in reservations."""
    inside = c.stage.resources.closed.number[c.stage.requests.kind] > 0
    return np.asarray(c.parts.tier[c.parts.of] + ABOVE_TIERS * inside, dtype=np.int64)


@borrowing
def priority(c: Controller, row: int) -> int:
    """Return a job's priority as squeue shows it."""
    if c.wishes.held[row]:
        return 0
    return int(max(1, c.base[row] + c.wishes.points[row] - c.wishes.nice[row]))


@inner
def calculate(c: Controller, now_s: float) -> None:
    """Update usage, ages and the order, as every PriorityCalcPeriod."""
    stage, weights, requests = c.stage, c.weights, c.stage.requests
    running = stage.running.rows[: stage.running.many[0]]
    half_life_s, fair_tree, dampening = weights.half_life_s, weights.fair_tree, weights.dampening
    accrue(c.usage, half_life_s, fair_tree, dampening, running, requests.gpus, requests.cpus, now_s)
    for at in range(c.queue.many[0]):
        row = c.queue.rows[at]
        c.base[row] = base_priority(c.usage, c.weights, c.factors, row, max(0.0, now_s - stage.life.begin_s[row]))
    idle = c.queue.many[0] == 0 and len(running) == 0
    c.clock[CALC_DUE] = NEVER if idle else now_s + c.rules.calc_period_s
    c.clock[ORDER_STALE] = 1.0


@entry_by_address
def put_in_order(c: Controller) -> None:
    """Sort the queue; where the order changed the loops are due."""
    queue, many = c.queue, c.queue.many[0]
    changed = False
    for at in range(many):
        row = queue.rows[at]
        key, spot = key_of(c, row), at
        while spot > 0 and _precedes(c, row, key, queue.rows[spot - 1], queue.keys[spot - 1]):
            queue.rows[spot], queue.keys[spot] = queue.rows[spot - 1], queue.keys[spot - 1]
            spot -= 1
        changed = changed or spot != at
        queue.rows[spot], queue.keys[spot] = row, key
    c.clock[ORDER_STALE] = 0.0
    if changed:
        wake_loops(c, c.clock[NOW])


@entry_by_address
def begin_at(c: Controller, row: int, at_s: float) -> None:
    """Set the earliest start of a waiting job."""
    c.stage.life.begin_s[row] = at_s
    if at_s > c.clock[NOW]:
        schedule(c.stage, at_s, BEGIN, row)


@borrowing
def may_run(c: Controller, row: int, now_s: float) -> bool:
    """Return True if a waiting job may run at all, limits apart."""
    if c.wishes.held[row] or c.wishes.barred[row] or c.stage.life.begin_s[row] > now_s:
        return False
    return bool(c.parts.up[c.parts.of[row]])


@borrowing
def ready(c: Controller, row: int, now_s: float) -> bool:
    """Return True if a waiting job may start now, if there is room."""
    if not may_run(c, row, now_s):
        return False
    account = c.caps.account[row]
    if c.caps.used[account] + c.stage.requests.gpus[row] > c.caps.most[account]:
        return False
    return bool(is_open(c.gates, row))


@borrowing
def try_to_start(c: Controller, row: int, now_s: float) -> bool:
    """Start a job where it fits on nodes that are not barred; return True if it started."""
    stage = c.stage
    count = find_now(stage.resources, stage.requests, row, c.barred, now_s, stage.life.plan_s[row])
    if count:
        begin(c, row, count, now_s)
    return count > 0


@borrowing
def begin(c: Controller, row: int, count: int, now_s: float) -> None:
    """Start a waiting job on the *count* nodes that were found for it."""
    start(c.stage, row, count, now_s)
    drop_from_queue(c, row)


@borrowing
def drop_from_queue(c: Controller, row: int) -> None:
    """Remove a started job from the queue, count it for its limits, and let go what waits for its start."""
    drop_out(c.queue, row)
    note_step(c, row)
    c.caps.used[c.caps.account[row]] += c.stage.requests.gpus[row]
    count(c.gates, row, 1.0)
    if let_go(c.gates, c.stage, c.wishes.barred, row, True, c.clock[NOW]):
        wake_loops(c, c.clock[NOW])


@borrowing
def restart_cost(c: Controller, row: int) -> float:
    """Return the cost of resuming a job after a preemption, in seconds."""
    return float(c.rules.restart_s + c.rules.restart_doubling_s * np.log2(max(1, width(c.stage.requests, row))))


@borrowing
def note_step(c: Controller, row: int) -> None:
    """Rank a running job by its key, and schedule its next step of attained service where its key has steps."""
    if c.ranked.counts[IN_USE]:
        _rank(c, row)
    if c.stage.life.level[row] < len(c.given.steps):
        schedule(c.stage, step_s(c, row), STEP, row)


@borrowing
def _rank(c: Controller, row: int) -> None:
    life, since_s = c.stage.life, c.stage.life.since_s[row]
    if since_s > c.clock[NOW]:  # its key does not grow yet
        c.ranked.counts[IN_USE] = 0
        return
    enter_run(c.ranked, life.state, RUNNING, row, key_of(c, row), c.given.slope[row], since_s)


@borrowing
def step_s(c: Controller, row: int) -> float:
    """Return the time of a running job's next step of attained service."""
    life = c.stage.life
    return float(life.since_s[row] + c.given.steps[life.level[row]] / c.stage.requests.gpus[row] - life.ran_s[row])


@borrowing
def _is_passed_over(c: Controller, row: int, now_s: float) -> bool:
    """Return True if reservations leave a job too few nodes: slurmctld keeps none for it (observed on 22.05)."""
    stage = c.stage
    return bool(is_shut(stage.resources, stage.requests, row, c.barred, now_s, stage.life.plan_s[row]))


@borrowing
def _own_reservations(c: Controller, row: int) -> int:
    """Return the number of the reservations that a job names, 0 for none; it stops only other jobs in these."""
    return int(c.stage.resources.closed.number[c.stage.requests.kind[row]])


@inner
def _in_higher_tiers(parts: PartitionSets) -> BoolArray:
    """Select the partition sets served first: those of several tiers, and those above the lowest tier of these."""
    if not parts.split.any():
        return parts.split.copy()
    upper: BoolArray = parts.split | (parts.tier > parts.tier[parts.split].min())
    return upper


@inner
def _serve_higher_tiers(c: Controller, now_s: float, blocking: bool) -> None:
    """Start the jobs of higher tiers, which Slurm serves before all others, in their partitions of the highest tier.

    With *blocking*, one that does not fit stops those behind it and keeps its nodes barred. No set stays blocked.
    """
    upper = _in_higher_tiers(c.parts)
    c.blocked[:] = ~upper
    at = 0
    while at < c.queue.many[0] and not c.blocked.all():
        row = c.queue.rows[at]
        part = c.parts.of[row]
        at += 1
        if c.blocked[part] or not ready(c, row, now_s):
            continue
        c.barred[:] = ~c.parts.above[part]
        if try_to_start(c, row, now_s):
            at -= 1
        else:
            c.blocked[part] = blocking and not _own_reservations(c, row) and not _is_passed_over(c, row, now_s)
    c.barred[:] = False
    for part in range(len(c.blocked)):
        if upper[part] and c.blocked[part]:
            c.barred[:] = c.barred | c.parts.above[part]
    c.blocked[:] = False


@inner
def main_loop(c: Controller, now_s: float) -> None:
    """Run the main loop: from the top; a partition's first job that does not fit stops it and keeps its nodes.

    One in a reservation stops only those behind it in the same one.
    """
    c.clock[MAIN_DUE], c.clock[MAIN_LAST] = NEVER, now_s
    _serve_higher_tiers(c, now_s, _BLOCKING)
    at, tested, open_sets, free = 0, 0, len(c.blocked), c.stage.resources.counts.gpus[ALL]
    stopped = np.zeros(c.stage.resources.closed.number.max() + 1, dtype=np.bool_)
    while at < c.queue.many[0] and tested < c.rules.default_queue_depth and open_sets:
        row = c.queue.rows[at]
        part = c.parts.of[row]
        own = _own_reservations(c, row)
        if c.blocked[part] or stopped[own] or not ready(c, row, now_s):
            at += 1
            continue
        tested += 1
        gpus = c.stage.requests.gpus[row]
        if gpus <= free and try_to_start(c, row, now_s):
            free -= gpus
            continue
        if _is_passed_over(c, row, now_s):
            at += 1
            continue
        if own:
            stopped[own] = True
            at += 1
            continue
        if c.stage.requests.slots[row]:  # of a job that requires nodes, only these are kept
            c.barred[:] = c.barred | c.stage.resources.allowed[c.stage.requests.kind[row]]
            at += 1
            continue
        c.blocked[part] = True
        c.barred[:] = c.barred | c.parts.nodes[part]
        open_sets -= 1
        at += 1


@inner
def backfill_loop(c: Controller, now_s: float) -> None:
    """Run the backfill loop: plan jobs, in order, at the earliest time that delays none before; start those due.

    slurmctld reserves whole nodes, and for a job of several partitions some in those of each tier (backfill.c). Other
    plans reserve GPUs, once for each job.
    """
    c.clock[BACKFILL_DUE], c.clock[BACKFILL_LAST] = NEVER, now_s
    several = c.rules.whole_nodes and c.parts.split.any()
    if not several:
        _serve_higher_tiers(c, now_s, _NOT_BLOCKING)
    if _last_that_may_start(c, now_s) < 0:
        return
    look(c.outlook, c.stage.resources, now_s)
    if several:
        upper = _in_higher_tiers(c.parts)
        tested = _plan(c, now_s, c.parts.above, upper, _NONE_TESTED)
        forget(c.outlook)
        below = np.empty_like(c.parts.nodes)
        for part in range(len(below)):
            below[part] = c.parts.nodes[part] & ~(c.parts.above[part] & c.parts.split[part])
        _plan(c, now_s, below, c.parts.split | ~upper, tested)
    else:
        _plan(c, now_s, c.parts.nodes, c.parts.up, _NONE_TESTED)
    c.outlook.barred[:] = False


@inner
def _plan(c: Controller, now_s: float, on: BoolArray, sets: BoolArray, tested: int) -> int:
    """Plan the jobs of the partition *sets* on the nodes *on*; return the jobs tested, *tested* of them before."""
    stage, rules, outlook = c.stage, c.rules, c.outlook
    free, last = stage.resources.counts.gpus[ALL], _last_that_may_start(c, now_s)
    at = 0
    c.reserved[:] = 0
    one = rules.reservations == 1 and len(c.reserved) == 1
    while at <= last and tested < rules.bf_max_job_test:
        row = c.queue.rows[at]
        part = c.parts.of[row]
        at += 1
        if not sets[part] or not ready(c, row, now_s):
            continue
        tested += 1
        outlook.barred[:] = ~on[part]
        if stage.requests.slots[row]:
            if _start_on_slots(c, row, now_s):
                at, last = at - 1, last - 1
            continue
        full = c.reserved[part] >= rules.reservations
        if full and stage.requests.gpus[row] > free:
            continue
        known_s = full_until(outlook.tried, outlook.full_s, stage.requests, stage.life.plan_s, row)
        if known_s == NEVER or (full and known_s >= now_s):
            continue
        step = earliest(outlook, stage, row, rules.bf_resolution_s, now_s + rules.bf_window_s, full)
        if step == 0:
            reserve(outlook, stage, row, 0, rules.bf_resolution_s, False)
            begin(c, row, outlook.counts[FOUND], now_s)
            started(outlook, now_s + stage.life.plan_s[row])
            free -= stage.requests.gpus[row]
            at, last = at - 1, last - 1
        elif step > 0:
            reserve(outlook, stage, row, step, rules.bf_resolution_s, not one)
            c.reserved[part] += 1
    return tested


@borrowing
def _start_on_slots(c: Controller, row: int, now_s: float) -> bool:
    """Start a job with slots if they are free, and its node is not kept for another job; return True on success."""
    stage, outlook, plan_s = c.stage, c.outlook, c.stage.life.plan_s[row]
    outlook.counts[FOUND] = find_now(stage.resources, stage.requests, row, outlook.barred, now_s, plan_s)
    if not outlook.counts[FOUND]:
        keep_for(outlook, stage, row)
        return False
    if now_s + stage.life.plan_s[row] > outlook.kept_s[stage.resources.room[CHOSEN, 0]]:
        return False
    reserve(outlook, stage, row, 0, c.rules.bf_resolution_s, False)
    begin(c, row, outlook.counts[FOUND], now_s)
    started(outlook, now_s + stage.life.plan_s[row])
    return True


@borrowing
def _last_that_may_start(c: Controller, now_s: float) -> int:
    """Return the last place in the queue whose job asks for no more GPUs than are free; -1 where there is none."""
    free = c.stage.resources.counts.gpus[ALL]
    for at in range(c.queue.many[0] - 1, -1, -1):
        row = c.queue.rows[at]
        if c.stage.requests.gpus[row] <= free and ready(c, row, now_s):
            return at
    return -1
