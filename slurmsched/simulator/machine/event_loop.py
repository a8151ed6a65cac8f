"""The event loop of a modelled cluster: ends, failures, arrivals and begin times, then the loops that decide.

At one instant ends come first, then arrivals, then decisions.
"""

from __future__ import annotations

from ...policies.by_address import entry_by_address
from ...policies.compiled import borrowing, inner
from ...policies.selection.resources import NODE, UP, is_on, link, note_change, recount
from ..engine.calendar import BEGIN, END, FREE, NEVER, OPENS, SAVED, STEP, first, next_s, pop_first
from ..engine.job_state import (
    COMPLETED,
    PENDING,
    RUNNING,
    change_speed,
    end,
    line_up_run,
    release,
    save,
    send_back,
    set_out,
)
from ..slurmctld.gates import count, let_go
from ..slurmctld.slurmctld import (
    backfill_loop,
    begin,
    calculate,
    drop_from_queue,
    main_loop,
    note_step,
    put_in_order,
    restart_cost,
    step_s,
    wait,
    wake_loops,
)
from ..slurmctld.state import (
    ACTIVE,
    ARRIVED,
    AWAITED,
    AWAITED_STOP,
    BACKFILL_DUE,
    CALC_DUE,
    FRAGMENTED,
    IDLE,
    MAIN_DUE,
    NOW,
    ORDER_STALE,
    SUBMITTED,
    Controller,
)


@entry_by_address
def to_decision(c: Controller, until_s: float) -> bool:
    """Advance time to the next decision, and return True; False at *until_s*, or where nothing is left to happen."""
    while True:
        now_s = _next_s(c)
        if now_s > until_s or now_s == NEVER:
            break
        _count_idle(c, now_s)
        c.clock[NOW] = now_s
        _happen(c, now_s)
        _let_in(c, now_s)
        if c.clock[CALC_DUE] <= now_s:
            calculate(c, now_s)
        if c.clock[ORDER_STALE]:
            put_in_order(c)
        if c.clock[MAIN_DUE] <= now_s or c.clock[BACKFILL_DUE] <= now_s:
            return True
    if until_s < NEVER:
        _count_idle(c, max(c.clock[NOW], until_s))
        c.clock[NOW] = max(c.clock[NOW], until_s)
    return False


@entry_by_address
def advance(c: Controller, until_s: float) -> None:
    """Advance time to *until_s* with slurmctld's loops, or until nothing is left to happen."""
    while to_decision(c, until_s):
        now_s = c.clock[NOW]
        if c.clock[MAIN_DUE] <= now_s:
            main_loop(c, now_s)
        if c.clock[BACKFILL_DUE] <= now_s:
            backfill_loop(c, now_s)


@entry_by_address
def goes_on(c: Controller) -> bool:
    """Return True if anything is left to happen."""
    return bool(_next_s(c) < NEVER)


@borrowing
def _next_s(c: Controller) -> float:
    """Return the time of the next event; NEVER where only priority calculations or jobs not awaited are left."""
    if _awaited_ended(c):
        return NEVER
    at_s = min(next_s(c.stage.calendar), c.clock[MAIN_DUE], c.clock[BACKFILL_DUE], _next_arrival_s(c))
    if at_s == NEVER:
        return NEVER
    return float(max(min(at_s, c.clock[CALC_DUE]), c.clock[NOW]))


@borrowing
def _awaited_ended(c: Controller) -> bool:
    """Return True once the awaited jobs have ended, where only some are awaited."""
    stop, state = c.clock[AWAITED_STOP], c.stage.life.state
    if stop == NEVER:
        return False
    while c.clock[AWAITED] < stop and state[int(c.clock[AWAITED])] == COMPLETED:
        c.clock[AWAITED] += 1
    return bool(c.clock[AWAITED] >= stop)


@borrowing
def _next_arrival_s(c: Controller) -> float:
    """Return the time of the next submission or admission; NEVER where none is left."""
    row, submitted = int(c.clock[ARRIVED]), max(int(c.clock[ARRIVED]), int(c.clock[SUBMITTED]))
    submit_s = c.stage.life.submit_s
    at_s = submit_s[submitted] if submitted < len(submit_s) else NEVER
    return float(min(at_s, submit_s[row])) if _may_come_in(c) else float(at_s)


@borrowing
def _may_come_in(c: Controller) -> bool:
    """Return True if the gate admits the next job; one that is larger than the bound comes in alone."""
    row = int(c.clock[ARRIVED])
    if row == len(c.stage.life.submit_s):
        return False
    return bool(c.clock[ACTIVE] + c.stage.requests.gpus[row] <= c.rules.admission or c.clock[ACTIVE] == 0)


@borrowing
def _let_in(c: Controller, now_s: float) -> None:
    """Submit jobs that are due, and admit them as far as the gate allows."""
    submit_s = c.stage.life.submit_s
    while c.clock[SUBMITTED] < len(submit_s) and submit_s[int(c.clock[SUBMITTED])] <= now_s:
        c.clock[SUBMITTED] += 1
        wake_loops(c, now_s)
    while _may_come_in(c) and submit_s[int(c.clock[ARRIVED])] <= now_s:
        row = int(c.clock[ARRIVED])
        c.clock[ARRIVED] += 1
        c.clock[ACTIVE] += c.stage.requests.gpus[row]
        _arrive(c, row, now_s)


@borrowing
def _count_idle(c: Controller, now_s: float) -> None:
    """Add GPU-seconds free while jobs waited, and those that one of the waiting jobs could have used by number."""
    submit_s, arrived, since_s = c.stage.life.submit_s, int(c.clock[ARRIVED]), c.clock[NOW]
    if not c.queue.many[0]:  # then only jobs that wait for admission count
        since_s = max(since_s, submit_s[arrived] if arrived < len(submit_s) else NEVER)
    if since_s >= now_s or not c.rules.counts_idle:
        return
    free = c.stage.resources.counts.gpus[UP]
    if not free:
        return
    gpu_s = free * (now_s - since_s)
    c.clock[IDLE] += gpu_s
    for at in range(c.queue.many[0]):
        if c.stage.requests.gpus[c.queue.rows[at]] <= free:
            c.clock[FRAGMENTED] += gpu_s
            return


@borrowing
def _happen(c: Controller, now_s: float) -> None:
    """Process ends, freed nodes, failures and repairs, and begin times that are due."""
    stage = c.stage
    while next_s(stage.calendar) <= now_s:
        rank, serial = first(stage.calendar)
        pop_first(stage.calendar)
        if rank == END:
            if stage.life.due_s[serial] == now_s and stage.life.state[serial] == RUNNING:
                end(stage, serial, now_s)
                _stir_if_free(c, serial, now_s)
        elif rank == FREE:
            release(stage, serial, now_s)
            _stir_if_free(c, serial, now_s)
        elif rank == STEP:
            _step(c, serial, now_s)
        elif rank in (BEGIN, OPENS):
            wake_loops(c, now_s)
        elif rank == SAVED:
            if stage.life.saved_s[serial] == now_s and stage.life.state[serial] == RUNNING:
                requeue(c, serial, now_s)
        else:
            _fail_or_repair(c, serial, now_s)


@borrowing
def _stir_if_free(c: Controller, row: int, now_s: float) -> None:
    """Update queue and limits if a job's nodes are free: others may run now, and a requeued one waits again."""
    state = c.stage.life.state[row]
    if state != COMPLETED and state != PENDING:
        return
    c.caps.used[c.caps.account[row]] -= c.stage.requests.gpus[row]
    count(c.gates, row, -1.0)
    if state == PENDING:
        wait(c, row, now_s)
    else:
        c.clock[ACTIVE] -= c.stage.requests.gpus[row]
        let_go(c.gates, c.stage, c.wishes.barred, row, False, now_s)
    wake_loops(c, now_s)
    if not c.rules.direct and (c.rules.epilog or state == PENDING):  # slurmd reports the end of what it had to kill
        c.clock[MAIN_DUE] = now_s


@borrowing
def _step(c: Controller, row: int, now_s: float) -> None:
    """Move a running job to its next step of attained service, unless it has stopped in the meantime."""
    life = c.stage.life
    if life.state[row] == RUNNING and life.level[row] < len(c.given.steps) and step_s(c, row) == now_s:
        life.level[row] += 1
        note_step(c, row)
        wake_loops(c, now_s)


@inner
def _fail_or_repair(c: Controller, at: int, now_s: float) -> None:
    stage, node = c.stage, c.outages.node[at]
    stage.resources.up[node] = c.outages.up[at]
    recount(stage.resources)
    if not c.outages.up[at]:
        for row in stage.running.rows[: stage.running.many[0]].copy():
            on_it = stage.life.state[row] == RUNNING and is_on(stage.held, row, node)
            if on_it:
                requeue(c, row, now_s)
    wake_loops(c, now_s)


@entry_by_address
def requeue(c: Controller, row: int, now_s: float) -> None:
    """End a run before its time and queue the job again."""
    send_back(c.stage, row, now_s, c.rules.requeue_delay_s, restart_cost(c, row))
    _stir_if_free(c, row, now_s)


@entry_by_address
def ask_to_stop(c: Controller, row: int, now_s: float) -> None:
    """Let a running job save its work, which takes the time that the rules say, and then requeue itself."""
    if c.rules.saves_s <= 0:
        requeue(c, row, now_s)
    elif not now_s < c.stage.life.saved_s[row] < NEVER:
        save(c.stage, row, now_s + c.rules.saves_s, now_s)


@borrowing
def _arrive(c: Controller, row: int, now_s: float) -> None:
    """Queue an arrived job. It does not start at submit: slurmctld does that only for salloc and srun."""
    c.stage.life.state[row] = PENDING
    wait(c, row, now_s)
    wake_loops(c, now_s)


@entry_by_address
def begin_on(c: Controller, row: int, count: int, now_s: float) -> None:
    """Start a waiting job on the *count* nodes in the first lines of ``resources.room``, with the GPUs beside them."""
    begin(c, row, count, now_s)


@entry_by_address
def join(c: Controller, row: int, host: int, now_s: float) -> None:
    """Start a job on the GPUs of another; both run at the speed of the pair."""
    stage, pace, life = c.stage, c.stage.pace, c.stage.life
    node = stage.held.links[NODE, stage.held.first[host]]
    link(stage.resources.free, stage.held, row, node, 0, stage.requests.cpus[row])
    stage.resources.free.memory_mib[node] -= stage.requests.memory_mib[row]
    note_change(stage.resources, node, stage.resources.free.gpus[node])
    life.partner[row] = host
    life.guests[host] += stage.requests.gpus[row]
    life.spread[row] = max(life.spread[row], 1)
    life.speed[row] = pace.beside[pace.profile[row], pace.profile[host]]
    line_up_run(stage, row, now_s)
    set_out(stage, row, now_s)
    drop_from_queue(c, row)
    change_speed(stage, host, now_s)


@entry_by_address
def reordered(c: Controller) -> None:
    """Sort the queue again and wake the loops, after points, nice, holds or keys have changed."""
    put_in_order(c)
    wake_loops(c, c.clock[NOW])
