"""The loops of the built-in selections, which compile: a decision and the simulator's core both call them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import borrowing, entry
from .node_search import find_now
from .planned_room import FOUND, NEVER, BackfillPlan, earliest, full_until, look, reserve, started
from .resources import (
    ALL,
    CHOSEN,
    TAKEN,
    Held,
    NodeResources,
    ResourceRequests,
    hold_part,
    link,
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


class Turns(NamedTuple):
    """Scratch of a pass over jobs in order."""

    blocked: BoolArray  #: per set of partitions: none of its jobs starts any more
    barred: BoolArray  #: per node: kept for jobs before
    left: IntArray  #: the jobs that did not start
    reserved: IntArray  #: per set of partitions: the jobs for which nodes are kept


def turns_of(jobs: int, sets: int, nodes: int) -> Turns:
    """Return scratch for so many *jobs* on so many *nodes*, in so many *sets* of partitions."""
    return Turns(
        np.zeros(sets, dtype=np.bool_),
        np.zeros(nodes, dtype=np.bool_),
        np.zeros(jobs, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
    )


@borrowing
def note_start(to: Started, row: int, room: IntArray, count: int) -> None:
    """Note that a job starts on the *count* nodes found for it."""
    at = to.many[0]
    begin = to.first[at]
    to.rows[at], to.first[at + 1], to.many[0] = row, begin + count, at + 1
    for spot in range(count):
        to.pairs[0, begin + spot], to.pairs[1, begin + spot] = room[CHOSEN, spot], room[TAKEN, spot]


@borrowing
def within_limit(jobs: DecisionJobs, row: int) -> bool:
    """Return True if the job's account may have its GPUs too."""
    accounts, gpus = jobs.accounts, jobs.requests.gpus[row]
    account = accounts.account[row]
    return bool(accounts.used[account] + gpus <= accounts.most[account])


@entry
def start_one(jobs: DecisionJobs, row: int, barred: BoolArray, now_s: float, to: Started) -> bool:
    """Start a job where it fits on nodes that are not barred, within its account's limit; return True if it started."""
    if not within_limit(jobs, row):
        return False
    count = find_now(jobs.resources, jobs.requests, row, barred, now_s, jobs.life.plan_s[row])
    if count:
        _begin(jobs, row, count, now_s, to)
    return count > 0


@entry
def note_running(
    jobs: DecisionJobs, row: IntArray, node: IntArray, gpus: IntArray, cpus: IntArray, end_s: FloatArray
) -> None:
    """Record what running jobs hold: a *row* has *gpus*, and its *cpus*, on a *node*; each running job has an *end_s*.

    What is free on whole nodes does not change, since it was known without these jobs; on parts of nodes it does.
    """
    free = jobs.resources.free
    for at in range(len(row)):
        link(free, jobs.held, row[at], node[at], gpus[at], cpus[row[at]])
        free.gpus[node[at]] += gpus[at]
        free.cpus[node[at]] += cpus[row[at]]
        hold_part(jobs.resources, jobs.held, jobs.requests, row[at], node[at], gpus[at])
    for at in range(len(end_s)):
        line_up(jobs.running, at, end_s[at])


@borrowing
def _begin(jobs: DecisionJobs, row: int, count: int, now_s: float, to: Started) -> None:
    """Start a job on the *count* nodes that were found for it."""
    take(jobs.resources, jobs.held, jobs.requests, row, count)
    jobs.accounts.used[jobs.accounts.account[row]] += jobs.requests.gpus[row]
    line_up(jobs.running, row, now_s + jobs.life.plan_s[row])
    note_start(to, row, jobs.resources.room, count)


@entry
def start_in_turn(
    jobs: DecisionJobs,
    order: IntArray,
    part: IntArray,
    nodes: BoolArray,
    strict: bool,
    now_s: float,
    turns: Turns,
    to: Started,
) -> int:
    """Start jobs in *order*; return how many of them did not, which are in ``turns.left``.

    *part* is the set of partitions of each job, *nodes* the nodes of each set. If *strict*, a job that does not fit
    keeps those after it off its partitions' nodes; one at its account's limit keeps nobody off.
    """
    blocked, barred, left = turns.blocked, turns.barred, turns.left
    many, free = 0, jobs.resources.counts.gpus[ALL]
    for at in range(len(order)):
        row = order[at]
        gpus = jobs.requests.gpus[row]
        if not blocked[part[row]] and within_limit(jobs, row):
            if gpus <= free and start_one(jobs, row, barred, now_s, to):
                free -= gpus
                continue
            if strict:
                blocked[part[row]] = True
                for node in range(len(barred)):
                    barred[node] = barred[node] or nodes[part[row], node]
        left[many] = row
        many += 1
    return many


@entry
def start_beside_reservations(
    jobs: DecisionJobs,
    order: IntArray,
    part: IntArray,
    reservations: int,
    depth: int,
    plan: BackfillPlan,
    now_s: float,
    turns: Turns,
    to: Started,
) -> None:
    """Plan jobs in *order*, each at the earliest time that delays none before it, and start those due now.

    At most *depth* jobs are planned. In each set of partitions, nodes are kept for the first *reservations* jobs that
    cannot start.
    """
    free, last, reserved = jobs.resources.counts.gpus[ALL], len(order) - 1, turns.reserved
    while last >= 0 and not (jobs.requests.gpus[order[last]] <= free and within_limit(jobs, order[last])):
        last -= 1
    if last < 0:
        return
    look(plan, jobs.resources, now_s)
    reserved[:] = 0
    one, planned = reservations == 1 and len(reserved) == 1, 0
    for at in range(last + 1):
        row = order[at]
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
