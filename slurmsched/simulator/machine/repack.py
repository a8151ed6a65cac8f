"""Preemptive repacking: at each decision the best jobs run, whatever ran before, in loops that compile.

Jobs are processed in the order of their keys. A running job keeps its nodes if no better one has claimed them; a
waiting one takes free nodes, or else nodes of jobs that come after it; whatever fits is filled in. Then the jobs that
were not chosen are preempted, and the others start.
"""

from __future__ import annotations

import numpy as np

from ...policies.compiled import inner
from ...policies.selection.resources import CHOSEN, CPUS, GPUS, NEXT, NODE, NONE, TAKEN, FreeResources, find, width
from ..engine.calendar import NEVER
from ..engine.job_state import stop
from ..slurmctld.slurmctld import MAIN_DUE, MAIN_LAST, Controller, begin, may_run, wait

ROW, ON, MANY, NODES = 0, 1, 2, 3
"""Lines of ``Scratch.fresh``: a chosen job, one of its nodes, its GPUs there, its number of nodes."""


@inner
def repack(c: Controller, now_s: float) -> None:
    """Choose the jobs that run now; preempt the others."""
    c.clock[MAIN_DUE], c.clock[MAIN_LAST] = NEVER, now_s
    if not c.queue.many[0]:
        return
    _rank_running(c, now_s)
    fresh = _choose(c, now_s)
    ran = c.stage.running.many[0]
    for at in range(ran):
        if not c.scratch.stays[at]:
            row = c.scratch.order[at]
            stop(c.stage, row, now_s, restart_cost(c, row))
            c.caps.used[c.caps.account[row]] -= c.stage.requests.gpus[row]
            wait(c, row, now_s)
    at = 0
    while at < fresh:
        row, nodes = c.scratch.fresh[ROW, at], c.scratch.fresh[NODES, at]
        c.stage.resources.room[CHOSEN, :nodes] = c.scratch.fresh[ON, at : at + nodes]
        c.stage.resources.room[TAKEN, :nodes] = c.scratch.fresh[MANY, at : at + nodes]
        begin(c, row, nodes, now_s)
        at += nodes
    if c.rules.poll_s > 0 and c.queue.many[0]:
        c.clock[MAIN_DUE] = min(c.clock[MAIN_DUE], now_s + c.rules.poll_s)


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
    scratch.stays[: running.many[0]] = False


@inner
def _choose(c: Controller, now_s: float) -> int:
    """Choose jobs by key; return the number of columns of ``fresh`` that hold jobs to start."""
    stage, scratch, queue = c.stage, c.scratch, c.queue
    _open_all(c)
    running, waiting, fresh, left = 0, 0, 0, scratch.claimed.gpus.sum()
    while running < stage.running.many[0] or waiting < queue.many[0]:
        first = waiting == queue.many[0] or (
            running < stage.running.many[0] and scratch.keys[running] <= queue.keys[waiting]
        )
        if first:
            row = scratch.order[running]
            scratch.stays[running] = _can_stay(c, row)
            _claim(scratch.claimed if scratch.stays[running] else scratch.calm, c, row, scratch.stays[running])
            left -= stage.requests.gpus[row] if scratch.stays[running] else 0
            running += 1
            continue
        row = queue.rows[waiting]
        waiting += 1
        account = c.caps.account[row]
        if stage.requests.gpus[row] > left:
            continue
        if scratch.cap[account] + stage.requests.gpus[row] > c.caps.most[account] or not may_run(c, row, now_s):
            continue
        count = find(stage.resources, stage.requests, row, scratch.calm, c.barred)
        if not count:
            count = find(stage.resources, stage.requests, row, scratch.claimed, c.barred)
        for at in range(count):
            node, gpus = stage.resources.room[CHOSEN, at], stage.resources.room[TAKEN, at]
            scratch.fresh[ROW, fresh], scratch.fresh[ON, fresh] = row, node
            scratch.fresh[MANY, fresh], scratch.fresh[NODES, fresh] = gpus, count
            _take(scratch.claimed, c, row, node, gpus)
            _take(scratch.calm, c, row, node, gpus)
            fresh += 1
        if count:
            scratch.cap[account] += stage.requests.gpus[row]
            left -= stage.requests.gpus[row]
    return fresh


@inner
def _open_all(c: Controller) -> None:
    """Reset the claims: all nodes are unclaimed, and what running jobs hold is not available yet."""
    resources, scratch = c.stage.resources, c.scratch
    c.barred[:], scratch.cap[:] = False, 0
    scratch.claimed.gpus[:], scratch.claimed.cpus[:] = resources.has.gpus, resources.has.cpus
    scratch.claimed.memory_mib[:] = resources.has.memory_mib
    scratch.calm.gpus[:], scratch.calm.cpus[:] = resources.free.gpus, resources.free.cpus
    scratch.calm.memory_mib[:] = resources.free.memory_mib


@inner
def _can_stay(c: Controller, row: int) -> bool:
    """Return True if no better job has claimed anything that a running one has."""
    stage, claimed = c.stage, c.scratch.claimed
    account = c.caps.account[row]
    links, spot = stage.held.links, stage.held.first[row]
    while spot != NONE:
        node = links[NODE, spot]
        if claimed.gpus[node] < links[GPUS, spot] or claimed.cpus[node] < links[CPUS, spot]:
            return False
        if claimed.memory_mib[node] < stage.requests.memory_mib[row]:
            return False
        spot = links[NEXT, spot]
    c.scratch.cap[account] += stage.requests.gpus[row]
    return True


@inner
def _claim(free: FreeResources, c: Controller, row: int, stays: bool) -> None:
    """Claim the nodes of a running job that stays, or free them for others where it is preempted."""
    sign = -1 if stays else 1
    links, spot = c.stage.held.links, c.stage.held.first[row]
    while spot != NONE:
        node = links[NODE, spot]
        free.gpus[node] += sign * links[GPUS, spot]
        free.cpus[node] += sign * links[CPUS, spot]
        free.memory_mib[node] += sign * c.stage.requests.memory_mib[row]
        spot = links[NEXT, spot]


@inner
def _take(free: FreeResources, c: Controller, row: int, node: int, gpus: int) -> None:
    free.gpus[node] -= gpus
    free.cpus[node] -= (
        c.stage.resources.has.cpus[node] if c.stage.requests.exclusive[row] else c.stage.requests.cpus[row]
    )
    free.memory_mib[node] -= c.stage.requests.memory_mib[row]
