"""Preemptive repacking: at each decision the best jobs run, whatever ran before, in loops that compile.

The jobs are chosen by the loop of ``decide()`` (``policies.selection.preemption.run_best``). Then those that yield are
preempted, and the others start.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...policies.compiled import compiled, inner
from ...policies.selection.loops import AccountGpus, DecisionJobs, PlannedLife
from ...policies.selection.preemption import run_best
from ...policies.selection.resources import CHOSEN, TAKEN, width
from ..engine.calendar import NEVER
from ..engine.job_state import stop
from ..slurmctld.slurmctld import begin, may_run, wait
from ..slurmctld.state import MAIN_DUE, MAIN_LAST, Controller


@inner
def repack(c: Controller, now_s: float) -> None:
    """Choose the jobs that run now; preempt the others."""
    c.clock[MAIN_DUE], c.clock[MAIN_LAST] = NEVER, now_s
    if not c.queue.many[0]:
        return
    _rank_running(c, now_s)
    _choose(c, now_s)
    scratch, ran = c.scratch, c.stage.running.many[0]
    for at in range(ran):
        row = scratch.order[at]
        scratch.runs[row] = False
        if scratch.yields[row]:
            preempt(c, row, now_s)
    started, room = scratch.started, c.stage.resources.room
    for at in range(started.many[0]):
        first, last = started.first[at], started.first[at + 1]
        room[CHOSEN, : last - first] = started.pairs[0, first:last]
        room[TAKEN, : last - first] = started.pairs[1, first:last]
        begin(c, started.rows[at], last - first, now_s)
    if c.rules.poll_s > 0 and c.queue.many[0]:
        c.clock[MAIN_DUE] = min(c.clock[MAIN_DUE], now_s + c.rules.poll_s)


@compiled
def preempt(c: Controller, row: int, now_s: float) -> None:
    """Stop a running job at once and queue it again; it keeps its work."""
    stop(c.stage, row, now_s, restart_cost(c, row))
    c.caps.used[c.caps.account[row]] -= c.stage.requests.gpus[row]
    wait(c, row, now_s)


@inner
def restart_cost(c: Controller, row: int) -> float:
    """Return the cost of resuming a job after a preemption, in seconds."""
    return float(c.rules.restart_s + c.rules.restart_doubling_s * np.log2(max(1, width(c.stage.requests, row))))


@inner
def _rank_running(c: Controller, now_s: float) -> None:
    """Sort the running jobs by their present keys, equal ones by row."""
    scratch, life, keys, running = c.scratch, c.stage.life, c.given, c.stage.running
    for at in range(running.many[0]):
        row = running.rows[at]
        ran_s = life.ran_s[row] + max(0.0, now_s - life.since_s[row])
        key, spot = keys.at[life.level[row], row] + keys.slope[row] * ran_s, at
        while spot > 0 and (
            scratch.keys[spot - 1] > key or (scratch.keys[spot - 1] == key and scratch.order[spot - 1] > row)
        ):
            scratch.order[spot], scratch.keys[spot] = scratch.order[spot - 1], scratch.keys[spot - 1]
            spot -= 1
        scratch.order[spot], scratch.keys[spot] = row, key
        scratch.runs[row] = True


@inner
def _choose(c: Controller, now_s: float) -> None:
    """Choose jobs by key; ``scratch`` then has those that yield and those that start."""
    stage, scratch = c.stage, c.scratch
    accounts = AccountGpus(c.caps.account, c.caps.most, scratch.cap)
    jobs = DecisionJobs(
        stage.resources, stage.held, stage.requests, PlannedLife(stage.life.plan_s), stage.running, accounts
    )
    c.barred[:], scratch.started.many[0] = False, 0
    order = _in_turn(c, now_s)
    run_best(jobs, order, scratch.runs, 0, scratch.spare, c.barred, scratch.yields, scratch.started, now_s)


@inner
def _in_turn(c: Controller, now_s: float) -> IntArray:
    """Return running and waiting jobs by key, running ones first where equal, without those that may not run."""
    scratch, queue, ran = c.scratch, c.queue, c.stage.running.many[0]
    rows, running, many = np.empty(ran + queue.many[0], dtype=np.int64), 0, 0
    for waiting in range(queue.many[0] + 1):
        end = waiting == queue.many[0]
        while running < ran and (end or scratch.keys[running] <= queue.keys[waiting]):
            rows[many] = scratch.order[running]
            running, many = running + 1, many + 1
        if not end and may_run(c, queue.rows[waiting], now_s):
            rows[many] = queue.rows[waiting]
            many += 1
    return rows[:many]
