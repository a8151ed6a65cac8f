"""The servers of the tasks of one job. Loops that compile."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import IntArray
from ...policies.compiled import compiled, inner
from ...policies.placement import QUASI, place
from ...simulator.setup import TASK_PLACEMENTS
from .servers import NOWHERE, GangWork, Servers, is_overloaded
from .task_flows import TaskFlows

PACK, CALM, IDEAL = TASK_PLACEMENTS.values()


@compiled
def put(
    how: int,
    servers: Servers,
    flows: TaskFlows,
    work: GangWork,
    row: int,
    most: float,
    nodes: IntArray,
    taken: IntArray,
) -> int:
    """Give each task of a job a server, and return their number; there are as many free GPUs.

    In the first way tasks fill the servers of ``quasi-consolidate`` in order; in the second those of them with CPUs and
    network below the part *most* before all others. In the third each has the ``ideal`` server. *nodes* and *taken* are
    room to work in.
    """
    first, last = flows.task[row], flows.task[row + 1]
    if how == IDEAL:
        for task in range(first, last):
            put_task(nearest(servers, flows, work, row, task, most), servers, flows, work, row, task)
        return len(np.unique(work.server[first:last]))
    free, size = servers.free.copy(), int(servers.gpus.max())
    found = 0
    if how == CALM:
        for at in range(len(free)):
            while free[at] and is_overloaded(servers, at, free[at] * flows.cpus[row], 0.0, most):
                free[at] -= 1
        found = place(QUASI, free, size, last - first, nodes, taken)
    if not found:
        found = place(QUASI, servers.free, size, last - first, nodes, taken)
    task = first
    for at in range(found):
        for _ in range(taken[at]):
            put_task(nodes[at], servers, flows, work, row, task)
            task += 1
    return found


@inner
def put_task(at: int, servers: Servers, flows: TaskFlows, work: GangWork, row: int, task: int) -> None:
    """Put a task on server *at*, and count what it uses there and sends to the tasks that have a server."""
    work.server[task] = at
    servers.free[at] -= 1
    servers.busy_cpus[at] += flows.cpus[row]
    for flow in range(flows.flow[row], flows.flow[row + 1]):
        if task in (flows.source[flow], flows.target[flow]):
            peer = work.server[flows.source[flow] + flows.target[flow] - task]
            if peer not in (at, NOWHERE):
                servers.used_b[at] += flows.size_b[flow] / flows.iteration_s[row]
                servers.used_b[peer] += flows.size_b[flow] / flows.iteration_s[row]


@inner
def sent_from_b(at: int, flows: TaskFlows, work: GangWork, row: int, task: int) -> float:
    """Return the bytes a second that a task would send from server *at* to those that have another server."""
    sent_b = 0.0
    for flow in range(flows.flow[row], flows.flow[row + 1]):
        if task in (flows.source[flow], flows.target[flow]):
            peer = work.server[flows.source[flow] + flows.target[flow] - task]
            if peer not in (at, NOWHERE):
                sent_b += flows.size_b[flow] / flows.iteration_s[row]
    return sent_b


@inner
def nearest(servers: Servers, flows: TaskFlows, work: GangWork, row: int, task: int, most: float) -> int:
    """Return the server nearest to the ideal one: least use of each resource, most tasks of the job (section 3.3.2).

    Of the servers with a free GPU, those that stay at the part *most* of CPUs and network or below count if there are
    any. The tasks of the job there count over the most of any server: as printed they are megabytes beside shares.
    """
    count = len(servers.gpus)
    calm, here = np.zeros(count, dtype=np.bool_), np.zeros(count)
    for other in range(flows.task[row], flows.task[row + 1]):
        if work.server[other] != NOWHERE and other != task:
            here[work.server[other]] += 1.0
    for at in range(count):
        sent_b = sent_from_b(at, flows, work, row, task) if servers.free[at] else 0.0
        calm[at] = servers.free[at] > 0 and not is_overloaded(servers, at, flows.cpus[row], sent_b, most)
    anywhere = not calm.any()
    gpus = cpus = link = np.inf
    together = 0.0
    for at in range(count):
        if servers.free[at] and (anywhere or calm[at]):
            gpus = min(gpus, 1 - servers.free[at] / servers.gpus[at])
            cpus = min(cpus, servers.busy_cpus[at] / servers.cpus[at])
            link = min(link, servers.used_b[at] / servers.link_b[at])
            together = max(together, here[at])
    best, least = NOWHERE, np.inf
    for at in range(count):
        if servers.free[at] and (anywhere or calm[at]):
            far = (1 - servers.free[at] / servers.gpus[at] - gpus) ** 2
            far += (servers.busy_cpus[at] / servers.cpus[at] - cpus) ** 2
            far += (servers.used_b[at] / servers.link_b[at] - link) ** 2
            if together:
                far += (1 - here[at] / together) ** 2
            if far < least:
                best, least = at, far
    return best
