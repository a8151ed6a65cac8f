"""A model of slurmctld: priorities, the main loop and the backfill loop, in loops that compile.

What is modelled was read in sched/backfill, job_scheduler.c and slurm.conf(5) of 22.05 and compared with a real one
(docs/simulator.md): a job of top priority starts as it is submitted; the main loop runs a moment after jobs come, end
or are changed, in order of priority, and stops in a partition at its first job that does not fit; backfill runs every
bf_interval after something changed and starts what delays no reservation, by time limits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..policies.compiled import compiled
from .backfill import FOUND, Outlook, earliest, look, reserve, started
from .calendar import BEGIN, END, FREE, NEVER, first, next_s, note, strike
from .ground import find, is_on
from .life import (
    COMPLETED,
    PENDING,
    RUNNING,
    UNBORN,
    Line,
    Stage,
    drop_out,
    end,
    line_up,
    release,
    send_back,
    start,
)
from .multifactor import Factors, Usage, Weights, accrue, base_priority

NOW, ARRIVED, MAIN_DUE, MAIN_LAST, BACKFILL_DUE, BACKFILL_LAST, CALC_DUE, ORDER_STALE = 0, 1, 2, 3, 4, 5, 6, 7
"""Places in ``Controller.clock``."""

MOST_PRIORITY = 2.0**33


class Rules(NamedTuple):
    """What slurm.conf says of scheduling; names as in SchedulerParameters(5) and PriorityCalcPeriod."""

    poll_s: float = 1.0  #: slurmctld looks once a second whether its main loop is due
    batch_sched_delay_s: float = 3.0
    default_queue_depth: int = 100
    bf_interval_s: float = 30.0
    bf_resolution_s: float = 60.0
    bf_window_s: float = 86400.0
    bf_max_job_test: int = 500
    reservations: int = 500  #: waiting jobs that get one in a pass; 1 is EASY, slurmctld gives one to each it tests
    calc_period_s: float = 300.0
    restart_s: float = 0.0  #: what going on after a requeue costs a job whose work survives it


class Wishes(NamedTuple):
    """What an admin, a user or we have asked of jobs, one row each."""

    points: IntArray  #: SiteFactor
    nice: IntArray
    held: BoolArray
    barred: BoolArray  #: may not run for a reason that is not modelled


class Parts(NamedTuple):
    """Partitions as jobs ask for them: each distinct list of names is one set of nodes."""

    of: IntArray  #: of each job
    nodes: BoolArray  #: [set, node]
    tier: IntArray  #: the highest of each set
    up: BoolArray


class Caps(NamedTuple):
    """GPUs that accounts may have at once (GrpTRES)."""

    account: IntArray  #: of each job
    most: IntArray  #: per account
    used: IntArray  #: per account


class Outages(NamedTuple):
    """Nodes that fail and come back, by time."""

    at_s: FloatArray
    node: IntArray
    up: BoolArray  #: comes back


class Controller(NamedTuple):
    """All of it."""

    stage: Stage
    queue: Line  #: waiting jobs; key: the smaller the sooner
    rules: Rules
    weights: Weights
    usage: Usage
    factors: Factors
    wishes: Wishes
    base: IntArray  #: priority without points and nice, per job
    parts: Parts
    caps: Caps
    outages: Outages
    outlook: Outlook
    blocked: BoolArray  #: scratch, per partition set
    barred: BoolArray  #: scratch, per node
    clock: FloatArray


@compiled
def advance(c: Controller, until_s: float) -> None:
    """Let time pass up to *until_s*, or until nothing is left to happen."""
    life = c.stage.life
    while True:
        now_s = _next_s(c)
        if now_s > until_s or now_s == NEVER:
            break
        c.clock[NOW] = now_s
        _happen(c, now_s)
        while _arrivals_left(c) and life.submit_s[int(c.clock[ARRIVED])] <= now_s:
            row = int(c.clock[ARRIVED])
            c.clock[ARRIVED] += 1
            if life.state[row] == UNBORN:
                _arrive(c, row, now_s)
        if c.clock[CALC_DUE] <= now_s:
            _calculate(c, now_s)
        if c.clock[ORDER_STALE]:
            _order(c)
        if c.clock[MAIN_DUE] <= now_s:
            _main(c, now_s)
        if c.clock[BACKFILL_DUE] <= now_s:
            _backfill(c, now_s)
    if until_s < NEVER:
        c.clock[NOW] = max(c.clock[NOW], until_s)


@compiled
def _arrivals_left(c: Controller) -> bool:
    return bool(c.clock[ARRIVED] < len(c.stage.life.submit_s))


@compiled
def _next_s(c: Controller) -> float:
    """When the next thing happens; NEVER where only priorities would be calculated anew."""
    at_s = min(next_s(c.stage.calendar), c.clock[MAIN_DUE], c.clock[BACKFILL_DUE])
    if _arrivals_left(c):
        at_s = min(at_s, c.stage.life.submit_s[int(c.clock[ARRIVED])])
    if at_s == NEVER:
        return NEVER
    return float(max(min(at_s, c.clock[CALC_DUE]), c.clock[NOW]))


@compiled
def _happen(c: Controller, now_s: float) -> None:
    """Ends, freed nodes, failures and repairs, begin times."""
    stage = c.stage
    while next_s(stage.calendar) <= now_s:
        rank, serial = first(stage.calendar)
        strike(stage.calendar)
        if rank == END:
            if stage.life.due_s[serial] == now_s and stage.life.state[serial] == RUNNING:
                end(stage, serial, now_s)
                _stir_if_free(c, serial, now_s)
        elif rank == FREE:
            release(stage, serial)
            _stir_if_free(c, serial, now_s)
        elif rank == BEGIN:
            stir(c, now_s)
        else:
            _fail_or_repair(c, serial, now_s)


@compiled
def _stir_if_free(c: Controller, row: int, now_s: float) -> None:
    """A job's nodes have come free, where they have: others may run now, and a requeued one waits again."""
    state = c.stage.life.state[row]
    if state != COMPLETED and state != PENDING:
        return
    c.caps.used[c.caps.account[row]] -= c.stage.asks.gpus[row]
    if state == PENDING:
        _wait(c, row, now_s)
    stir(c, now_s)


@compiled
def stir(c: Controller, now_s: float) -> None:
    """Something has changed: the loops are due."""
    rules = c.rules
    main_s = max(now_s, c.clock[MAIN_LAST] + rules.batch_sched_delay_s)
    if rules.poll_s > 0:
        main_s = np.ceil(main_s / rules.poll_s) * rules.poll_s
    c.clock[MAIN_DUE] = min(c.clock[MAIN_DUE], main_s)
    c.clock[BACKFILL_DUE] = min(c.clock[BACKFILL_DUE], max(main_s, c.clock[BACKFILL_LAST] + rules.bf_interval_s))


@compiled
def _fail_or_repair(c: Controller, at: int, now_s: float) -> None:
    stage, node = c.stage, c.outages.node[at]
    stage.ground.up[node] = c.outages.up[at]
    if not c.outages.up[at]:
        for row in stage.running.rows[: stage.running.many[0]].copy():
            on_it = stage.life.state[row] == RUNNING and is_on(stage.held, row, node)
            if on_it:
                requeue(c, row, now_s)
    stir(c, now_s)


@compiled
def requeue(c: Controller, row: int, now_s: float) -> None:
    """End a run before its time and queue the job again."""
    send_back(c.stage, row, now_s, c.rules.restart_s)
    _stir_if_free(c, row, now_s)


@compiled
def _arrive(c: Controller, row: int, now_s: float) -> None:
    """A job comes; one of top priority in its partition starts at once where it fits."""
    c.stage.life.state[row] = PENDING
    _wait(c, row, now_s)
    stir(c, now_s)
    if not _ready(c, row, now_s):
        return
    for at in range(c.queue.many[0]):
        other = c.queue.rows[at]
        if other == row:
            break
        if c.parts.of[other] == c.parts.of[row] and _ready(c, other, now_s):
            return
    c.barred[:] = False
    _try(c, row, now_s)


@compiled
def _wait(c: Controller, row: int, now_s: float) -> None:
    """Put a job in the queue."""
    life = c.stage.life
    if c.clock[CALC_DUE] == NEVER:
        c.clock[CALC_DUE] = now_s + c.rules.calc_period_s
    c.base[row] = base_priority(c.usage, c.weights, c.factors, row, max(0.0, now_s - life.begin_s[row]))
    if life.begin_s[row] > now_s:
        note(c.stage.calendar, life.begin_s[row], BEGIN, row)
    line_up(c.queue, row, key_of(c, row))


@compiled
def key_of(c: Controller, row: int) -> float:
    """A job's place in the queue: partition tier, then priority; the smaller the sooner."""
    return float(-(c.parts.tier[c.parts.of[row]] * MOST_PRIORITY + priority(c, row)))


@compiled
def priority(c: Controller, row: int) -> int:
    """As squeue shows it."""
    if c.wishes.held[row]:
        return 0
    return int(max(1, c.base[row] + c.wishes.points[row] - c.wishes.nice[row]))


@compiled
def _calculate(c: Controller, now_s: float) -> None:
    """Every PriorityCalcPeriod: usage decays, ages grow, the order follows."""
    stage = c.stage
    running = stage.running.rows[: stage.running.many[0]]
    accrue(c.usage, c.weights, running, stage.asks.gpus, stage.asks.cpus, now_s)
    for at in range(c.queue.many[0]):
        row = c.queue.rows[at]
        c.base[row] = base_priority(c.usage, c.weights, c.factors, row, max(0.0, now_s - stage.life.begin_s[row]))
    idle = c.queue.many[0] == 0 and len(running) == 0
    c.clock[CALC_DUE] = NEVER if idle else now_s + c.rules.calc_period_s
    c.clock[ORDER_STALE] = 1.0


@compiled
def _order(c: Controller) -> None:
    """Sort the queue anew; where the order changed the loops are due. Equal jobs keep the order of submission."""
    queue, many = c.queue, c.queue.many[0]
    changed = False
    for at in range(many):
        row = queue.rows[at]
        key, spot = key_of(c, row), at
        while spot > 0 and (queue.keys[spot - 1] > key or (queue.keys[spot - 1] == key and queue.rows[spot - 1] > row)):
            queue.rows[spot], queue.keys[spot] = queue.rows[spot - 1], queue.keys[spot - 1]
            spot -= 1
        changed = changed or spot != at
        queue.rows[spot], queue.keys[spot] = row, key
    c.clock[ORDER_STALE] = 0.0
    if changed:
        stir(c, c.clock[NOW])


@compiled
def reordered(c: Controller) -> None:
    """Points, nice or holds have changed: the queue follows at once."""
    _order(c)
    stir(c, c.clock[NOW])


@compiled
def begin_at(c: Controller, row: int, at_s: float) -> None:
    """Let a waiting job not start before a time."""
    c.stage.life.begin_s[row] = at_s
    if at_s > c.clock[NOW]:
        note(c.stage.calendar, at_s, BEGIN, row)


@compiled
def _ready(c: Controller, row: int, now_s: float) -> bool:
    """Whether Slurm may start a waiting job at all."""
    if c.wishes.held[row] or c.wishes.barred[row] or c.stage.life.begin_s[row] > now_s:
        return False
    if not c.parts.up[c.parts.of[row]]:
        return False
    account = c.caps.account[row]
    return bool(c.caps.used[account] + c.stage.asks.gpus[row] <= c.caps.most[account])


@compiled
def _try(c: Controller, row: int, now_s: float) -> bool:
    """Start a job where it fits on nodes that are not barred."""
    count = find(c.stage.ground, c.stage.asks, row, c.stage.ground.free, c.barred)
    if count:
        _begin(c, row, count, now_s)
    return count > 0


@compiled
def _begin(c: Controller, row: int, count: int, now_s: float) -> None:
    start(c.stage, row, count, now_s)
    drop_out(c.queue, row)
    c.caps.used[c.caps.account[row]] += c.stage.asks.gpus[row]


@compiled
def _main(c: Controller, now_s: float) -> None:
    """The main loop: from the top, a partition's first job that does not fit stops it and keeps its nodes."""
    c.clock[MAIN_DUE], c.clock[MAIN_LAST] = NEVER, now_s
    c.blocked[:], c.barred[:] = False, False
    at, tested, open_sets = 0, 0, len(c.blocked)
    while at < c.queue.many[0] and tested < c.rules.default_queue_depth and open_sets:
        row = c.queue.rows[at]
        part = c.parts.of[row]
        if c.blocked[part] or not _ready(c, row, now_s):
            at += 1
            continue
        tested += 1
        if _try(c, row, now_s):
            continue
        c.blocked[part] = True
        c.barred[:] = c.barred | c.parts.nodes[part]
        open_sets -= 1
        at += 1


@compiled
def _backfill(c: Controller, now_s: float) -> None:
    """The backfill loop: each job, in order, at the earliest time that delays none before it; now, if that is now."""
    stage, rules, outlook = c.stage, c.rules, c.outlook
    c.clock[BACKFILL_DUE], c.clock[BACKFILL_LAST] = NEVER, now_s
    free, last = stage.ground.free.gpus.sum(), _last_that_may_start(c, now_s)
    if last < 0:
        return
    look(outlook, stage.ground, now_s)
    at, tested, reserved = 0, 0, 0
    while at <= last and tested < rules.bf_max_job_test:
        row = c.queue.rows[at]
        at += 1
        if not _ready(c, row, now_s):
            continue
        tested += 1
        full = reserved >= rules.reservations
        if full and stage.asks.gpus[row] > free:
            continue
        step = earliest(outlook, stage, row, rules.bf_resolution_s, now_s + rules.bf_window_s, full)
        if step == 0:
            reserve(outlook, stage, row, 0, rules.bf_resolution_s, False)
            _begin(c, row, outlook.counts[FOUND], now_s)
            started(outlook, now_s + stage.life.plan_s[row])
            free -= stage.asks.gpus[row]
            at, last = at - 1, last - 1
        elif step > 0:
            reserve(outlook, stage, row, step, rules.bf_resolution_s, reserved + 1 < rules.reservations)
            reserved += 1


@compiled
def _last_that_may_start(c: Controller, now_s: float) -> int:
    """The last place in the queue whose job asks for no more GPUs than are free; -1 where there is none."""
    free = c.stage.ground.free.gpus.sum()
    for at in range(c.queue.many[0] - 1, -1, -1):
        row = c.queue.rows[at]
        if c.stage.asks.gpus[row] <= free and _ready(c, row, now_s):
            return at
    return -1
