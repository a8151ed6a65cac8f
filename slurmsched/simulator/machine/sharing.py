"""Two jobs on the same GPUs, in loops that compile.

A waiting job joins a running one with as many GPUs on one node, the one beside which the slower of the two is believed
to keep most of its speed, if that is enough. Never more than two, never over several nodes, never one whose profile is
not known yet.
"""

from __future__ import annotations

from ...policies.compiled import inner
from .ground import NEXT, NODE, NONE, link
from .life import ALONE, RUNNING, go_on, pause, set_out
from .slurmctld import Controller, drop_from_queue, ready


@inner
def share(c: Controller, now_s: float) -> None:
    """Let waiting jobs, in order, join running ones."""
    at = 0
    while at < c.queue.many[0]:
        row = c.queue.rows[at]
        host = _best_host(c, row, now_s) if c.stage.pace.profile[row] and ready(c, row, now_s) else ALONE
        if host == ALONE:
            at += 1
        else:
            _join(c, row, host, now_s)


@inner
def _best_host(c: Controller, row: int, now_s: float) -> int:
    """The running job beside which the slower of the two should be fastest; ALONE where none will do."""
    stage, pace = c.stage, c.stage.pace
    best, best_speed = ALONE, c.rules.least_speed
    if pace.known_s[row] > 0:
        return best
    for at in range(stage.running.many[0]):
        host = stage.running.rows[at]
        if stage.life.state[host] != RUNNING or stage.life.partner[host] != ALONE:
            continue
        if stage.asks.gpus[host] != stage.asks.gpus[row] or now_s - stage.life.since_s[host] < pace.known_s[host]:
            continue
        mine, its = pace.profile[row], pace.profile[host]
        speed = pace.believed[mine, its]
        if speed < best_speed or (best != ALONE and speed == best_speed) or not _fits_beside(c, row, host):
            continue
        best, best_speed = host, speed
    return best


@inner
def _fits_beside(c: Controller, row: int, host: int) -> bool:
    """Whether the host is on one node alone, which has CPUs and memory for a second job of this kind."""
    stage, spot = c.stage, c.stage.held.first[host]
    if stage.held.links[NEXT, spot] != NONE or stage.asks.nodes[row] > 1:
        return False
    if stage.asks.exclusive[row] or stage.asks.exclusive[host]:
        return False
    node, free = stage.held.links[NODE, spot], stage.ground.free
    roomy = free.cpus[node] >= stage.asks.cpus[row] and free.memory_mib[node] >= stage.asks.memory_mib[row]
    return bool(roomy and stage.ground.allowed[stage.asks.kind[row], node])


@inner
def _join(c: Controller, row: int, host: int, now_s: float) -> None:
    """Start a job on the GPUs of another; both run at the speed of the pair."""
    stage, pace, life = c.stage, c.stage.pace, c.stage.life
    node = stage.held.links[NODE, stage.held.first[host]]
    link(stage.ground.free, stage.held, row, node, 0, stage.asks.cpus[row])
    stage.ground.free.memory_mib[node] -= stage.asks.memory_mib[row]
    life.partner[row], life.partner[host] = host, row
    life.spread[row] = max(life.spread[row], 1)
    life.speed[row] = pace.beside[pace.profile[row], pace.profile[host]]
    set_out(stage, row, now_s)
    drop_from_queue(c, row)
    pause(stage, host, now_s)
    life.speed[host] = pace.beside[pace.profile[host], pace.profile[row]]
    go_on(stage, host, now_s)
