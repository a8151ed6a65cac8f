"""Servers with GPUs, CPUs and network, the tasks on them, and the speed of jobs. Loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled, inner
from ...policies.migration import is_above, slowed
from .task_flows import TaskFlows

NOWHERE = -1


class Servers(NamedTuple):
    """The capacity of each server, and what is in use."""

    gpus: IntArray
    cpus: FloatArray
    link_b: FloatArray  #: bytes a second
    free: IntArray  #: GPUs
    busy_cpus: FloatArray  #: that tasks ask for, and may be more than there are
    used_b: FloatArray  #: bytes a second that tasks send and receive


class GangWork(NamedTuple):
    """How far each job is; seconds of work are those on an undisturbed cluster."""

    server: IntArray  #: of each task; NOWHERE while the job waits
    goal_s: FloatArray  #: work until the end
    required_s: FloatArray  #: work until the accuracy that the owner requires
    deadline_s: FloatArray
    done_s: FloatArray
    speed: FloatArray  #: seconds of work in a second
    alone: FloatArray  #: the factor by which a job by itself, on as few servers as can be, is slowed down
    cut_b: FloatArray  #: bytes between servers in a second of work
    restart_s: FloatArray  #: seconds left until it computes again
    ran_s: FloatArray  #: seconds with GPUs
    lost_s: FloatArray  #: of them spent on restarts
    credit_s: FloatArray  #: work by speed and time alone
    sent_b: FloatArray
    by_deadline_s: FloatArray  #: work done by the deadline
    reached_s: FloatArray  #: moment at which it had the required accuracy; NaN before
    end_s: FloatArray  #: NaN before


@compiled
def load(servers: Servers, flows: TaskFlows, work: GangWork, rows: IntArray) -> None:
    """Compute what the tasks of *rows* use of each server, and the bytes that each job sends between servers."""
    servers.free[:] = servers.gpus
    servers.busy_cpus[:] = 0.0
    servers.used_b[:] = 0.0
    for row in rows:
        for task in range(flows.task[row], flows.task[row + 1]):
            servers.free[work.server[task]] -= 1
            servers.busy_cpus[work.server[task]] += flows.cpus[row]
        work.cut_b[row] = 0.0
        for flow in range(flows.flow[row], flows.flow[row + 1]):
            one, other = work.server[flows.source[flow]], work.server[flows.target[flow]]
            if one != other:
                rate_b = flows.size_b[flow] / flows.iteration_s[row]
                servers.used_b[one] += rate_b
                servers.used_b[other] += rate_b
                work.cut_b[row] += rate_b


@compiled
def slowdown(servers: Servers, flows: TaskFlows, work: GangWork, row: int) -> float:
    """Return how much longer a job takes: on its slowest server, by CPUs times network; one on one server sends none.

    ``load`` has computed what is in use.
    """
    first, last = flows.task[row], flows.task[row + 1]
    worst, spread = 1.0, False
    for task in range(first, last):
        spread = spread or work.server[task] != work.server[first]
    for task in range(first, last):
        at = work.server[task]
        factor = slowed(servers.busy_cpus[at], servers.cpus[at])
        if spread:
            factor *= slowed(servers.used_b[at], servers.link_b[at])
        worst = max(worst, factor)
    return worst


@compiled
def set_speeds(servers: Servers, flows: TaskFlows, work: GangWork, rows: IntArray) -> None:
    """Set the speed of the jobs in *rows*, which are all that run."""
    load(servers, flows, work, rows)
    for row in rows:
        work.speed[row] = min(work.alone[row] / slowdown(servers, flows, work, row), 1.0)


@compiled
def train(work: GangWork, rows: IntArray, waiting: IntArray, now_s: float, until_s: float) -> None:
    """Let *rows* train from *now_s* to *until_s*, while others are *waiting*; who ends holds its GPUs until then."""
    for row in waiting:
        if now_s < work.deadline_s[row] <= until_s:
            work.by_deadline_s[row] = work.done_s[row]
    for row in rows:
        waits_s = min(work.restart_s[row], until_s - now_s)
        work.restart_s[row] -= waits_s
        work.lost_s[row] += waits_s
        begins_s, speed, done_s = now_s + waits_s, work.speed[row], work.done_s[row]
        possible_s = done_s + speed * (until_s - begins_s)
        if done_s < work.required_s[row] <= possible_s:
            work.reached_s[row] = begins_s + (work.required_s[row] - done_s) / speed
        if now_s < work.deadline_s[row] <= until_s:
            at_s = done_s + speed * max(work.deadline_s[row] - begins_s, 0.0)
            work.by_deadline_s[row] = min(at_s, work.goal_s[row])
        end_s = until_s
        if possible_s >= work.goal_s[row]:
            end_s = begins_s + (work.goal_s[row] - done_s) / speed
            work.end_s[row] = end_s
            possible_s = work.goal_s[row]
        work.done_s[row] = possible_s
        work.credit_s[row] += speed * (end_s - begins_s)
        work.sent_b[row] += (possible_s - done_s) * work.cut_b[row]
        work.ran_s[row] += end_s - now_s


@inner
def is_overloaded(servers: Servers, at: int, cpus: float, sent_b: float, most: float) -> bool:
    """Return whether a server with so much more load is above the part *most* of its CPUs or network.

    Whole GPUs count by their measured use, which these jobs do not say: a full server is not overloaded by that.
    """
    return bool(
        is_above(servers.busy_cpus[at] + cpus, servers.cpus[at], most)
        or is_above(servers.used_b[at] + sent_b, servers.link_b[at], most)
    )


@compiled
def overloaded(servers: Servers, most: float) -> int:
    """Return the number of servers above the part *most* of their CPUs or network."""
    many = 0
    for at in range(len(servers.gpus)):
        many += is_overloaded(servers, at, 0.0, 0.0, most)
    return many


@compiled
def first_end_s(work: GangWork, rows: IntArray, now_s: float) -> float:
    """Return the first end of a job in *rows* if nothing changes."""
    first_s = np.inf
    for row in rows:
        first_s = min(first_s, now_s + work.restart_s[row] + (work.goal_s[row] - work.done_s[row]) / work.speed[row])
    return first_s
