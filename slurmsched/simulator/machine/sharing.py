"""Two jobs on the same GPUs, in loops that compile.

A waiting job joins a running one with as many GPUs on one node, or, where that is allowed, some of the GPUs of one that
has more: then this one may have several guests, and is as slow as the slowest of its GPUs. Never more than two on a
GPU, never over several nodes, never one whose profile is not known yet, never where the slower of the two is believed
to keep too little of its speed.

Of several it joins the one beside which the slower is fastest; or, where pairs are weighed, the one where that costs
least: the two lose time while they run together, and GPUs come free sooner for those that wait.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...policies import sharing
from ...policies.compiled import compiled, inner
from ...policies.selection.resources import NEXT, NODE, NONE, link
from ..engine.job_state import ALONE, RUNNING, change_speed, set_out
from ..slurmctld.slurmctld import Controller, drop_from_queue, ready

gain_s = inner(sharing.pair_gain_s)
expected_left_s = inner(sharing.expected_left_s)


@inner
def step_of(c: Controller, now_s: float) -> int:
    """The step of time that the policy is in."""
    return int(np.searchsorted(c.stage.pace.packs.from_s, now_s, side="right")) - 1


@inner
def share(c: Controller, now_s: float) -> None:
    """Let waiting jobs, in order, join running ones."""
    stage, step = c.stage, step_of(c, now_s)
    hosts, many = _hosts(c, now_s)
    capacity = max(1, stage.resources.has.gpus.sum())
    free = stage.resources.free.gpus.sum()
    at, ahead_s = 0, 0.0
    while at < c.queue.many[0] and many:
        row = c.queue.rows[at]
        gpus = stage.requests.gpus[row]
        # What it would wait: the work before it in the queue, unless there is room.
        waits_s = 0.0 if gpus <= free else ahead_s / capacity
        found = -1
        if stage.pace.profile[row] and stage.pace.packs.known_s[row] <= 0 and ready(c, row, now_s):
            found = _best(c, row, hosts[:many], step, waits_s, now_s)
        if found < 0:
            ahead_s += gpus * stage.pace.packs.told_s[row]
            at += 1
            continue
        join(c, row, hosts[found], now_s)
        if stage.life.guests[hosts[found]] == stage.requests.gpus[hosts[found]] or not c.rules.uneven:
            many -= 1
            hosts[found] = hosts[many]


@inner
def _hosts(c: Controller, now_s: float) -> tuple[IntArray, int]:
    """The running jobs that one more may join, and how many."""
    stage, many = c.stage, 0
    hosts = np.empty(stage.running.many[0], dtype=np.int64)
    for at in range(stage.running.many[0]):
        host = stage.running.rows[at]
        if stage.life.state[host] != RUNNING or stage.life.partner[host] != ALONE or not stage.pace.profile[host]:
            continue
        if stage.life.guests[host] == stage.requests.gpus[host] or (stage.life.guests[host] and not c.rules.uneven):
            continue
        if now_s - stage.life.since_s[host] + stage.life.ran_s[host] < stage.pace.packs.known_s[host]:
            continue
        if stage.held.links[NEXT, stage.held.first[host]] != NONE or stage.requests.exclusive[host]:
            continue
        hosts[many] = host
        many += 1
    return hosts, many


@inner
def _best(c: Controller, row: int, hosts: IntArray, step: int, waits_s: float, now_s: float) -> int:
    """The place of the host that the row should join; -1 where none will do."""
    requests, pace = c.stage.requests, c.stage.pace
    if requests.nodes[row] > 1 or requests.exclusive[row]:
        return -1
    best, most = -1, 0.0
    for place in range(len(hosts)):
        host = hosts[place]
        if requests.gpus[host] != requests.gpus[row] and not c.rules.uneven:
            continue
        if requests.gpus[host] - c.stage.life.guests[host] < requests.gpus[row]:
            continue
        mine = pace.packs.believed[pace.profile[row], pace.profile[host]]
        its = pace.packs.believed[pace.profile[host], pace.profile[row]]
        if min(mine, its) < pace.packs.least[step]:
            continue
        gain = min(mine, its)
        if c.rules.weighing:
            gain = _weighed_s(c, row, host, mine, its, step, waits_s, now_s)
        if gain < most or (gain == most and (best < 0 or host > hosts[best])) or not _room(c, row, host):
            continue
        best, most = place, gain
    return best


@inner
def _weighed_s(
    c: Controller, row: int, host: int, mine: float, its: float, step: int, waits_s: float, now_s: float
) -> float:
    """Return the gain of a pair, by the policy's own function."""
    life, packs, gpus = c.stage.life, c.stage.pace.packs, c.stage.requests.gpus
    ran_s = life.ran_s[host] + now_s - life.since_s[host]
    left_s = expected_left_s(packs.told_s[host], ran_s)
    demand = (c.queue.many[0] + packs.coming[step]) / max(1, c.stage.resources.has.gpus.sum())
    slowed = max(0.0, life.speed[host] - its)
    guest_s, guest_demand, host_demand = packs.told_s[row], gpus[row] * demand, gpus[host] * demand
    return float(gain_s(waits_s, guest_s, left_s, mine, its, slowed, guest_demand, host_demand))


@inner
def _room(c: Controller, row: int, host: int) -> bool:
    """Whether the host's node has CPUs and memory for a second job of this kind."""
    stage = c.stage
    node, free = stage.held.links[NODE, stage.held.first[host]], stage.resources.free
    roomy = free.cpus[node] >= stage.requests.cpus[row] and free.memory_mib[node] >= stage.requests.memory_mib[row]
    return bool(roomy and stage.resources.allowed[stage.requests.kind[row], node])


@compiled
def join(c: Controller, row: int, host: int, now_s: float) -> None:
    """Start a job on the GPUs of another; both run at the speed of the pair."""
    stage, pace, life = c.stage, c.stage.pace, c.stage.life
    node = stage.held.links[NODE, stage.held.first[host]]
    link(stage.resources.free, stage.held, row, node, 0, stage.requests.cpus[row])
    stage.resources.free.memory_mib[node] -= stage.requests.memory_mib[row]
    life.partner[row] = host
    life.guests[host] += stage.requests.gpus[row]
    life.spread[row] = max(life.spread[row], 1)
    life.speed[row] = pace.beside[pace.profile[row], pace.profile[host]]
    set_out(stage, row, now_s)
    drop_from_queue(c, row)
    change_speed(stage, host, now_s)
