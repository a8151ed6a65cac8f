"""The loops of the built-in selections, which compile.

The event loops of the simulator do the same on their own state, and are held equal by tests. On nodes of any kind they
call ``run_best`` itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import compiled, inner
from .planned_room import FOUND, NEVER, BackfillPlan, earliest, full_until, look, reserve, started
from .resources import (
    CHOSEN,
    TAKEN,
    Held,
    NodeResources,
    ResourceRequests,
    find_open,
    take,
)
from .sorted_rows import Line, line_up

RESOLUTION_S = 1.0  #: of plans of room over time


class PlannedLife(NamedTuple):
    """The durations that a decision plans with, one per job."""

    plan_s: FloatArray


class AccountGpus(NamedTuple):
    """The limits on the GPUs of accounts (GrpTRES)."""

    account: IntArray  #: of each job
    most: IntArray  #: per account
    used: IntArray  #: per account


class DecisionJobs(NamedTuple):
    """The jobs and nodes of one decision: running jobs first, then pending ones."""

    resources: NodeResources
    held: Held
    requests: ResourceRequests
    life: PlannedLife
    running: Line
    accounts: AccountGpus


class Started(NamedTuple):
    """The jobs that start, in order, and their (node, GPUs) pairs from ``first`` on; ``many`` is an array of one."""

    rows: IntArray
    first: IntArray
    pairs: IntArray  #: two lines
    many: IntArray


def nothing_started(jobs: int, pairs: int) -> Started:
    """Return room for that many *jobs* and *pairs*, empty."""
    return Started(
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs + 1, dtype=np.int64),
        np.zeros((2, pairs), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@inner
def note_start(to: Started, row: int, room: IntArray, count: int) -> None:
    """Note that a job starts on the *count* nodes found for it."""
    at = to.many[0]
    begin = to.first[at]
    to.rows[at], to.first[at + 1], to.many[0] = row, begin + count, at + 1
    to.pairs[0, begin : begin + count], to.pairs[1, begin : begin + count] = room[CHOSEN, :count], room[TAKEN, :count]


@inner
def within_limit(jobs: DecisionJobs, row: int) -> bool:
    """Return True if the job's account may have its GPUs too."""
    accounts, gpus = jobs.accounts, jobs.requests.gpus[row]
    account = accounts.account[row]
    return bool(accounts.used[account] + gpus <= accounts.most[account])


@compiled
def start_one(jobs: DecisionJobs, row: int, barred: BoolArray, now_s: float, to: Started) -> bool:
    """Start a job where it fits on nodes that are not barred, within its account's limit; return True if it started."""
    if not within_limit(jobs, row):
        return False
    plan_s = jobs.life.plan_s[row]
    count = find_open(jobs.resources, jobs.requests, row, jobs.resources.free, barred, now_s, plan_s)
    if count:
        _begin(jobs, row, count, now_s, to)
    return count > 0


@inner
def _begin(jobs: DecisionJobs, row: int, count: int, now_s: float, to: Started) -> None:
    """Start a job on the *count* nodes that were found for it."""
    take(jobs.resources, jobs.held, jobs.requests, row, count)
    jobs.accounts.used[jobs.accounts.account[row]] += jobs.requests.gpus[row]
    line_up(jobs.running, row, now_s + jobs.life.plan_s[row])
    note_start(to, row, jobs.resources.room, count)


@compiled
def start_in_turn(
    jobs: DecisionJobs, order: IntArray, part: IntArray, nodes: BoolArray, strict: bool, now_s: float, to: Started
) -> IntArray:
    """Start jobs in *order*; return those that did not start.

    *part* is the set of partitions of each job, *nodes* the nodes of each set. If *strict*, a job that does not fit
    keeps those after it off its partitions' nodes; one at its account's limit keeps nobody off.
    """
    blocked, barred = np.zeros(len(nodes), dtype=np.bool_), np.zeros(nodes.shape[1], dtype=np.bool_)
    left, many, free = np.empty(len(order), dtype=np.int64), 0, jobs.resources.free.gpus.sum()
    for row in order:
        gpus = jobs.requests.gpus[row]
        if not blocked[part[row]] and within_limit(jobs, row):
            if gpus <= free and start_one(jobs, row, barred, now_s, to):
                free -= gpus
                continue
            if strict:
                blocked[part[row]] = True
                barred[:] = barred | nodes[part[row]]
        left[many] = row
        many += 1
    return left[:many]


@compiled
def start_beside_reservations(
    jobs: DecisionJobs,
    order: IntArray,
    part: IntArray,
    sets: int,
    reservations: int,
    depth: int,
    plan: BackfillPlan,
    now_s: float,
    to: Started,
) -> None:
    """Plan jobs in *order*, each at the earliest time that delays none before it, and start those due now.

    At most *depth* jobs are planned. In each of the *sets* of partitions, nodes are kept for the first *reservations*
    jobs that cannot start.
    """
    free, last = jobs.resources.free.gpus.sum(), len(order) - 1
    while last >= 0 and not (jobs.requests.gpus[order[last]] <= free and within_limit(jobs, order[last])):
        last -= 1
    if last < 0:
        return
    look(plan, jobs.resources, now_s)
    reserved, one, planned = np.zeros(sets, dtype=np.int64), reservations == 1 and sets == 1, 0
    for row in order[: last + 1]:
        if not within_limit(jobs, row):
            continue
        if planned == depth:
            return
        planned += 1
        full = reserved[part[row]] >= reservations
        if full and jobs.requests.gpus[row] > free:
            continue
        known_s = full_until(plan.tried, plan.full_s, jobs.requests, jobs.life.plan_s, row)
        if known_s == NEVER or (full and known_s >= now_s):
            continue
        step = earliest(plan, jobs, row, RESOLUTION_S, NEVER, full)
        if step == 0:
            reserve(plan, jobs, row, 0, RESOLUTION_S, False)
            _begin(jobs, row, plan.counts[FOUND], now_s, to)
            started(plan, now_s + jobs.life.plan_s[row])
            free -= jobs.requests.gpus[row]
        elif step > 0:
            reserve(plan, jobs, row, step, RESOLUTION_S, not one)
            reserved[part[row]] += 1
