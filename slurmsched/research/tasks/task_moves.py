"""Moves of tasks away from overloaded servers (section 3.3.3). Loops that compile."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import compiled, inner
from ...policies.migration import NOBODY, is_above, nearest_ideal
from .servers import NOWHERE, GangWork, Servers, is_overloaded, load
from .task_flows import TaskFlows
from .task_placement import nearest, put_task, sent_from_b

EVERY_S = 3_600.0  #: minimum time between two moves of a job


@compiled
def move(
    servers: Servers,
    flows: TaskFlows,
    work: GangWork,
    rows: IntArray,
    moved_s: FloatArray,
    state_b: FloatArray,
    now_s: float,
    move_s: float,
    most: float,
) -> int:
    """Move tasks of the jobs in *rows* from servers above the part *most* to servers that stay below it.

    Return the number of moves. A job computes nothing for *move_s* seconds after those of a round, and the *state_b*
    bytes of each task are sent. A task that no server can take stays where it is.
    """
    moves, waits, tried = 0, now_s - moved_s < EVERY_S, np.zeros(len(work.server), dtype=np.bool_)
    load(servers, flows, work, rows)
    for at in range(len(servers.gpus)):
        while is_overloaded(servers, at, 0.0, 0.0, most):
            row, task = _to_move(servers, flows, work, rows, waits, tried, at, most)
            if row == NOWHERE:
                break
            tried[task] = True  # one attempt in a round
            work.server[task] = NOWHERE
            other = _calm_server(servers, flows, work, row, task, most)
            if other in (NOWHERE, at):
                work.server[task] = at
                continue
            put_task(other, servers, flows, work, row, task)
            moved_s[row] = now_s
            work.restart_s[row] = move_s
            work.sent_b[row] += state_b[row]
            load(servers, flows, work, rows)
            moves += 1
    return moves


@inner
def _calm_server(servers: Servers, flows: TaskFlows, work: GangWork, row: int, task: int, most: float) -> int:
    """Return the ideal server of a task, if it stays at the part *most* of its CPUs and network."""
    if not servers.free.any():
        return NOWHERE
    at = nearest(servers, flows, work, row, task, most)
    calm = not is_overloaded(servers, at, flows.cpus[row], sent_from_b(at, flows, work, row, task), most)
    return at if calm else NOWHERE


@inner
def _to_move(
    servers: Servers,
    flows: TaskFlows,
    work: GangWork,
    rows: IntArray,
    waits: BoolArray,
    tried: BoolArray,
    at: int,
    most: float,
) -> tuple[int, int]:
    """Return the job and the task on server *at* nearest to the ideal one to move.

    That uses most of what is overloaded there, least of the rest, and sends nothing to the tasks beside it. Jobs that
    wait for a next move, and tasks that were *tried*, are left out.
    """
    most_tasks = servers.gpus[at]
    places, beside = np.zeros((most_tasks, 2), dtype=np.int64), np.zeros(most_tasks)
    uses, many = np.zeros((most_tasks, 2)), 0
    for row in rows:
        if waits[row]:
            continue
        for task in range(flows.task[row], flows.task[row + 1]):
            if work.server[task] != at or tried[task]:
                continue
            places[many, 0], places[many, 1] = row, task
            uses[many, 0] = flows.cpus[row] / servers.cpus[at]
            uses[many, 1] = sent_from_b(at, flows, work, row, task) / servers.link_b[at]
            beside[many] = _beside_b(at, flows, work, row, task)
            many += 1
    overloaded = np.array(
        [
            is_above(servers.busy_cpus[at], servers.cpus[at], most),
            is_above(servers.used_b[at], servers.link_b[at], most),
        ]
    )
    best = nearest_ideal(uses[:many], overloaded, beside[:many])
    return (places[best, 0], places[best, 1]) if best != NOBODY else (NOWHERE, NOWHERE)


@inner
def _beside_b(at: int, flows: TaskFlows, work: GangWork, row: int, task: int) -> float:
    """Return the bytes of an iteration between a task and those of its job on the same server."""
    beside_b = 0.0
    for flow in range(flows.flow[row], flows.flow[row + 1]):
        if task in (flows.source[flow], flows.target[flow]):
            peer = work.server[flows.source[flow] + flows.target[flow] - task]
            beside_b += flows.size_b[flow] if peer == at else 0.0
    return beside_b
