"""The starters of a machine that carries plans out exactly: the loops that ``decide()`` calls, on the machine's state.

``run_in_turn``, ``run_reserving`` and ``run_repacking`` also stop where the log of runs has no room for more; call them
again to go on.
"""

from __future__ import annotations

from ...cluster.columns import BoolArray
from ...policies.by_address import entry_by_address
from ...policies.compiled import borrowing
from ...policies.selection.loops import (
    AccountGpus,
    DecisionJobs,
    PlannedLife,
    start_beside_reservations,
    start_in_turn,
)
from ...policies.selection.preemption import run_best
from ...policies.selection.resources import CHOSEN, TAKEN, UP
from ..engine.calendar import NEVER
from ..engine.job_state import PENDING, RUNNING, go_on, pause, run_on, stop
from ..engine.ranked_runs import IN_USE, JOBS, NONE, forget_runs, inexact_by, push_back, take_worst, worst
from ..engine.segments import has_room
from ..slurmctld.slurmctld import (
    begin,
    drop_from_queue,
    key_of,
    may_run,
    note_step,
    put_in_order,
    restart_cost,
    try_to_start,
    wait,
)
from ..slurmctld.state import (
    ACTIVE,
    ARRIVED,
    MAIN_DUE,
    MAIN_LAST,
    NOW,
    SUBMITTED,
    Controller,
    Scratch,
)
from .event_loop import to_decision

UNLIMITED = 1 << 40  #: GPUs
PART = 64  #: jobs of the queue that are looked at together


@entry_by_address
def run_in_turn(c: Controller, until_s: float) -> None:
    """Advance to *until_s*; at each decision jobs start in turn, past those that do not fit unless these block."""
    while _may_go_on(c) and to_decision(c, until_s):
        in_turn(c)


@entry_by_address
def run_reserving(c: Controller, until_s: float) -> None:
    """Advance to *until_s*; at each decision jobs start in turn, and then beside the reservations of others."""
    while _may_go_on(c) and to_decision(c, until_s):
        reserving(c)


@entry_by_address
def run_repacking(c: Controller, until_s: float) -> None:
    """Advance to *until_s*; at each decision the best jobs run, whatever ran before."""
    while _may_go_on(c) and to_decision(c, until_s):
        repacking(c)


@borrowing
def _may_go_on(c: Controller) -> bool:
    """Return True if the log of runs has room for all that can end until the decision after next."""
    return has_room(c.stage.log, 2 * len(c.stage.running.rows), 2 * c.stage.held.links.shape[1])


@entry_by_address
def in_turn(c: Controller) -> None:
    """Start jobs in turn. A long line is looked at only as far as one of its jobs may start."""
    _begin_decision(c)
    blocked, at = c.scratch.turns.blocked, 0
    while at < c.queue.many[0] and not blocked.all():
        waiting, at = _gather(c, at, PART)
        _in_turn(c, waiting, c.rules.blocking)
    _begin_started(c)


@entry_by_address
def reserving(c: Controller) -> None:
    """Start jobs in turn until one does not fit, then those that delay no reservation."""
    waiting = _decide(c)
    if not waiting:
        return
    rules, scratch = c.rules, c.scratch
    left = scratch.turns.left[: _in_turn(c, waiting, True)]
    plan, now_s = c.outlook, c.clock[MAIN_LAST]
    start_beside_reservations(
        _jobs(c),
        left,
        c.parts.of,
        rules.reservations,
        rules.bf_max_job_test,
        plan,
        now_s,
        scratch.turns,
        scratch.started,
    )
    _begin_started(c)


@entry_by_address
def repacking(c: Controller) -> None:
    """Choose the jobs that run now; preempt the others."""
    waiting = _decide(c)
    if not waiting:
        return
    now_s = c.clock[MAIN_LAST]
    missing = _missing_gpus(c, waiting)
    if missing <= 0:  # then none yields, whatever the order
        _in_turn(c, waiting, False)
        _begin_started(c)
    else:
        _repack(c, waiting, missing, now_s)
    if c.rules.poll_s > 0 and c.queue.many[0]:
        c.clock[MAIN_DUE] = min(c.clock[MAIN_DUE], now_s + c.rules.poll_s)


@borrowing
def _decide(c: Controller) -> int:
    """Note that a decision is made; return how many jobs may run, which are in ``scratch.waiting``."""
    _begin_decision(c)
    return int(_gather(c, 0, c.queue.many[0])[0])


@borrowing
def _begin_decision(c: Controller) -> None:
    scratch = c.scratch
    c.clock[MAIN_DUE], c.clock[MAIN_LAST] = NEVER, c.clock[NOW]
    scratch.started.many[0] = 0
    for account in range(len(c.caps.used)):
        scratch.used[account] = c.caps.used[account]
    scratch.turns.blocked[:] = False
    scratch.turns.barred[:] = False


@borrowing
def _gather(c: Controller, at: int, most: int) -> tuple[int, int]:
    """Write jobs of the queue that may run, *most* at most and from *at* on, to ``scratch.waiting``.

    Return their number, and the place in the queue behind the last of them.
    """
    many, waiting, rows = 0, c.scratch.waiting, c.queue.rows
    while at < c.queue.many[0] and many < most:
        if may_run(c, rows[at], c.clock[NOW]):
            waiting[many] = rows[at]
            many += 1
        at += 1
    return many, at


@borrowing
def _jobs(c: Controller) -> DecisionJobs:
    stage = c.stage
    accounts = AccountGpus(c.caps.account, c.caps.most, c.scratch.used)
    life = PlannedLife(stage.life.plan_s)
    return DecisionJobs(stage.resources, stage.held, stage.requests, life, stage.running, accounts)


@borrowing
def _in_turn(c: Controller, waiting: int, strict: bool) -> int:
    """Let waiting jobs take their nodes in turn; return how many did not, which are in ``scratch.turns.left``."""
    scratch, now_s = c.scratch, c.clock[MAIN_LAST]
    order = scratch.waiting[:waiting]
    return int(start_in_turn(_jobs(c), order, c.parts.of, c.parts.nodes, strict, now_s, scratch.turns, scratch.started))


@borrowing
def _begin_started(c: Controller) -> None:
    """Let the jobs run that took their nodes."""
    started = c.scratch.started
    for at in range(started.many[0]):
        run_on(c.stage, started.rows[at], _chosen(c, at), c.clock[MAIN_LAST])
        drop_from_queue(c, started.rows[at])


@borrowing
def _chosen(c: Controller, at: int) -> int:
    """Write the nodes of a job that starts into the first lines of ``resources.room``; return their number."""
    started, room = c.scratch.started, c.stage.resources.room
    first = started.first[at]
    count = started.first[at + 1] - first
    for spot in range(count):
        room[CHOSEN, spot], room[TAKEN, spot] = started.pairs[0, first + spot], started.pairs[1, first + spot]
    return int(count)


@borrowing
def _missing_gpus(c: Controller, waiting: int) -> int:
    """Return the GPUs that all waiting jobs need beside the free ones; UNLIMITED if more can keep them waiting."""
    resources, wanted = c.stage.resources, 0
    if len(c.scratch.spare.counts.left) > 1 or len(resources.closed.ends_s):
        return UNLIMITED
    for at in range(waiting):
        row = c.scratch.waiting[at]
        if c.caps.most[c.caps.account[row]] < UNLIMITED:
            return UNLIMITED
        wanted += c.stage.requests.gpus[row]
    return int(wanted - resources.counts.gpus[UP])


@borrowing
def _repack(c: Controller, waiting: int, missing: int, now_s: float) -> None:
    """Choose jobs by key, preempt those that yield, and start the others.

    Running jobs that come before all waiting ones stay, and take no part: all of them have GPUs now. So do those
    behind which the *missing* GPUs are running.
    """
    scratch, best_key = c.scratch, key_of(c, c.scratch.waiting[0])
    by_heaps = c.ranked.counts[IN_USE] and missing < UNLIMITED
    ran = _rank_worst(c, best_key, missing, now_s) if by_heaps else _rank_worse(c, best_key, now_s)
    c.barred[:] = False
    order = scratch.order[: _merge(c, waiting, ran)]
    run_best(_jobs(c), order, scratch.runs, 0, scratch.spare, c.barred, scratch.yields, scratch.started, now_s)
    for at in range(ran):
        row = scratch.ranked[at]
        scratch.runs[row] = False
        if scratch.yields[row]:
            preempt(c, row, now_s)
    for at in range(scratch.started.many[0]):
        begin(c, scratch.started.rows[at], _chosen(c, at), now_s)


@borrowing
def _rank_worse(c: Controller, best_key: float, now_s: float) -> int:
    """Sort the running jobs whose present keys are above *best_key*, equal ones by row; return their number."""
    scratch, running, many = c.scratch, c.stage.running, 0
    for at in range(running.many[0]):
        row = running.rows[at]
        key, spot = _key_now(c, row, now_s), many
        if key <= best_key:
            continue
        while spot > 0 and (
            scratch.keys[spot - 1] > key or (scratch.keys[spot - 1] == key and scratch.ranked[spot - 1] > row)
        ):
            scratch.ranked[spot], scratch.keys[spot] = scratch.ranked[spot - 1], scratch.keys[spot - 1]
            spot -= 1
        scratch.ranked[spot], scratch.keys[spot] = row, key
        scratch.runs[row] = True
        many += 1
    return many


@borrowing
def _key_now(c: Controller, row: int, now_s: float) -> float:
    """Return the present key of a running job."""
    life, keys = c.stage.life, c.given
    ran_s = life.ran_s[row] + max(0.0, now_s - life.since_s[row])
    return float(keys.at[life.level[row], row] + keys.slope[row] * ran_s)


@borrowing
def _rank_worst(c: Controller, best_key: float, gpus: int, now_s: float) -> int:
    """Sort those of ``_rank_worse`` from the worst one up to the one with which they have so many *gpus*.

    Others may be among them. Return their number.
    """
    scratch, ranked, state, many, taken = c.scratch, c.ranked, c.stage.life.state, 0, 0
    margin, enough = inexact_by(ranked, best_key, now_s), NEVER
    while True:
        heap, about = worst(ranked, state, RUNNING, now_s)
        margin = max(margin, inexact_by(ranked, about, now_s)) if heap != NONE else margin
        if heap == NONE or about + margin < best_key or (gpus <= 0 and about < enough - 2 * margin):
            break
        entry = ranked.entries[heap, 0]
        scratch.taken[0, taken], scratch.taken[1, taken], scratch.taken_keys[taken] = entry, heap, ranked.keys[heap, 0]
        take_worst(ranked, heap)
        taken, row = taken + 1, entry % JOBS
        key = _key_now(c, row, now_s)
        if key > best_key:
            many, gpus = _insert_better(c, row, key, many), gpus - c.stage.requests.gpus[row]
            enough = about if gpus <= 0 and enough == NEVER else enough
    for at in range(taken):
        push_back(ranked, scratch.taken[1, at], scratch.taken_keys[at], scratch.taken[0, at])
    _reverse(scratch, many)
    return many


@borrowing
def _insert_better(c: Controller, row: int, key: float, many: int) -> int:
    """Insert a job among the *many* ranked ones, the worst first; return their number."""
    scratch, spot = c.scratch, many
    while spot > 0 and (
        scratch.keys[spot - 1] < key or (scratch.keys[spot - 1] == key and scratch.ranked[spot - 1] < row)
    ):
        scratch.ranked[spot], scratch.keys[spot] = scratch.ranked[spot - 1], scratch.keys[spot - 1]
        spot -= 1
    scratch.ranked[spot], scratch.keys[spot] = row, key
    scratch.runs[row] = True
    return many + 1


@borrowing
def _reverse(scratch: Scratch, many: int) -> None:
    """Reverse the *many* ranked jobs."""
    for at in range(many // 2):
        row, key, other = scratch.ranked[at], scratch.keys[at], many - 1 - at
        scratch.ranked[at], scratch.keys[at] = scratch.ranked[other], scratch.keys[other]
        scratch.ranked[other], scratch.keys[other] = row, key


@borrowing
def _merge(c: Controller, waiting: int, ran: int) -> int:
    """Order the *ran* running and the waiting jobs by key, running ones first where equal; return their number."""
    scratch, running, many = c.scratch, 0, 0
    for at in range(waiting + 1):
        key = NEVER if at == waiting else key_of(c, scratch.waiting[at])
        while running < ran and (at == waiting or scratch.keys[running] <= key):
            scratch.order[many] = scratch.ranked[running]
            running, many = running + 1, many + 1
        if at < waiting:
            scratch.order[many] = scratch.waiting[at]
            many += 1
    return many


@entry_by_address
def preempt(c: Controller, row: int, now_s: float) -> None:
    """Stop a running job at once and queue it again; it keeps its work."""
    stop(c.stage, row, now_s, restart_cost(c, row))
    c.caps.used[c.caps.account[row]] -= c.stage.requests.gpus[row]
    wait(c, row, now_s)


@entry_by_address
def reorder(c: Controller, now_s: float) -> None:
    """Order running and waiting jobs by other keys, which ``given`` has already, from now on."""
    life = c.stage.life
    forget_runs(c.ranked)
    for at in range(c.stage.running.many[0]):
        row = c.stage.running.rows[at]
        pause(c.stage, row, now_s)
        go_on(c.stage, row, now_s)
        life.level[row] = _level(c, row)
        note_step(c, row)
    for at in range(c.queue.many[0]):
        life.level[c.queue.rows[at]] = _level(c, c.queue.rows[at])
    put_in_order(c)


@entry_by_address
def seat(c: Controller, inside: int, there: int, runs: BoolArray, now_s: float) -> None:
    """Put jobs into an empty machine: the first *inside* ones are admitted, those in *runs* run; *there* are submitted.

    Their time run is in ``life`` already.
    """
    c.clock[NOW], c.clock[SUBMITTED], c.clock[ARRIVED], c.clock[MAIN_DUE] = now_s, there, inside, now_s
    stage, c.barred[:] = c.stage, False
    for row in range(inside):
        stage.life.state[row] = PENDING
        stage.life.level[row] = _level(c, row)
        c.clock[ACTIVE] += stage.requests.gpus[row]
        wait(c, row, now_s)
        if runs[row]:
            try_to_start(c, row, now_s)


@borrowing
def _level(c: Controller, row: int) -> int:
    """Return the number of steps that the attained service of a job has passed."""
    service, level = c.stage.life.ran_s[row] * c.stage.requests.gpus[row], 0
    while level < len(c.given.steps) and c.given.steps[level] <= service:
        level += 1
    return level
