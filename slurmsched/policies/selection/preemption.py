"""The preemptive loop, which compiles: the best jobs run, whatever ran before, and the others yield where needed.

Who runs is chosen by number: in order, each job for which GPUs are left. The chosen jobs then get nodes: free ones, or
else those of running jobs that were not chosen, the worst of which yield until there is room. So no job is stopped for
one that would not start, and a chosen job that runs keeps its nodes even where a better one needs whole nodes. A job
that was not chosen does not start, lest a better one claims its GPUs at the next event. The event loop over a pool of
equal nodes (``simulator.fast``) does the same on its own state, and is held equal by tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ..compiled import compiled, inner
from .free_resources import FreeResources
from .loops import DecisionJobs, Started, note_start, within_limit
from .resources import CHOSEN, CPUS, GPUS, NEXT, NODE, NONE, TAKEN, find_open, is_shut
from .struct_arrays import records


class Spare(NamedTuple):
    """Scratch of a preemptive selection: resources of nodes that jobs can start on."""

    free: FreeResources  #: free now, or left by jobs that yield
    loose: FreeResources  #: those, and what jobs have that may yield


class GpuCounts(NamedTuple):
    """The GPUs that are left to choose jobs for, in segments: nodes that the same kinds of jobs may use."""

    segment: IntArray  #: of each node; NONE where the node is not up
    may: BoolArray  #: [kind of job, segment]
    left: IntArray  #: per segment
    taken: IntArray  #: [kind of job, segment], by waiting jobs, which may be moved to another segment


def no_spare(nodes: int) -> Spare:
    """Return scratch for so many *nodes*."""
    zeros = np.zeros(nodes, dtype=np.int64)
    blank = FreeResources(zeros, zeros, np.zeros(nodes))
    return Spare(records(blank), records(blank))


@compiled
def run_best(
    jobs: DecisionJobs,
    order: IntArray,
    runs: BoolArray,
    firm: int,
    spare: Spare,
    barred: BoolArray,
    yields: BoolArray,
    to: Started,
    now_s: float,
) -> None:
    """Choose the jobs that run from now on, in *order*; *runs* selects the running ones.

    The first *firm* jobs of *order* take the nodes of any worse one, chosen or not, where there is no other way to
    place them. *yields* marks the running jobs that yield, *to* has those that start.
    """
    chosen = _chosen(jobs, order, runs, barred, now_s)
    free, loose = _open(jobs, order, runs, chosen, spare, yields)
    for at in range(len(order)):
        row = order[at]
        if runs[row] or not chosen[at]:
            continue
        gpus, plan_s, count = jobs.requests.gpus[row], jobs.life.plan_s[row], 0
        if gpus <= free:
            count = find_open(jobs.resources, jobs.requests, row, spare.free, barred, now_s, plan_s)
        if not count and gpus <= loose:
            count = find_open(jobs.resources, jobs.requests, row, spare.loose, barred, now_s, plan_s)
            if count:
                free += _clear(jobs, order, runs, chosen, len(order), row, count, spare, yields)
        if not count and at < firm:
            loose += _shift(jobs, order, runs, chosen, at + 1, spare.loose, yields, 1)
            count = find_open(jobs.resources, jobs.requests, row, spare.loose, barred, now_s, plan_s)
            if count:
                free += _clear(jobs, order, runs, chosen, at, row, count, spare, yields)
            loose += _shift(jobs, order, runs, chosen, at + 1, spare.loose, yields, -1)
        if count:
            free -= gpus
            loose -= gpus
            _occupy(spare.loose, jobs, row, count)
            _occupy(spare.free, jobs, row, count)
            note_start(to, row, jobs.resources.room, count)


@inner
def _chosen(jobs: DecisionJobs, order: IntArray, runs: BoolArray, barred: BoolArray, now_s: float) -> BoolArray:
    """Choose jobs in *order* while GPUs are left, of the nodes that each may use and to its account.

    A job for which the nodes that are open to it were too few even if nothing ran there is not chosen.
    """
    counts = _gpu_counts(jobs, order, runs)
    used, account, requests = jobs.accounts.used, jobs.accounts.account, jobs.requests
    used[:] = 0  # the limits count the jobs that run from now on
    chosen = np.zeros(len(order), dtype=np.bool_)
    for at in range(len(order)):
        row = order[at]
        if not within_limit(jobs, row):
            continue
        plan_s = jobs.life.plan_s[row]
        if not runs[row] and is_shut(jobs.resources, jobs.requests, row, barred, now_s, plan_s):
            continue
        if runs[row]:
            chosen[at] = _keep(jobs, counts, row)
        else:
            kind = requests.kind[row]
            chosen[at] = count_gpus(counts, counts.may[kind], counts.taken[kind], requests.gpus[row])
        if chosen[at]:
            used[account[row]] += requests.gpus[row]
    return chosen


@inner
def _gpu_counts(jobs: DecisionJobs, order: IntArray, runs: BoolArray) -> GpuCounts:
    """Return the segments of the nodes, with the GPUs that are free or that running jobs have."""
    resources = jobs.resources
    kinds, nodes = resources.allowed.shape
    segment, first, many = np.full(nodes, NONE, dtype=np.int64), np.empty(nodes, dtype=np.int64), 0
    for node in range(nodes):
        if not resources.up[node]:
            continue
        number = 0
        while number < many and not _alike(resources.allowed, node, first[number]):
            number += 1
        if number == many:
            first[many] = node
            many += 1
        segment[node] = number
    left, taken = np.zeros(many, dtype=np.int64), np.zeros((kinds, many), dtype=np.int64)
    may = np.zeros((kinds, many), dtype=np.bool_)
    for number in range(many):
        may[:, number] = resources.allowed[:, first[number]]
    for node in range(nodes):
        if segment[node] != NONE:
            left[segment[node]] += max(0, resources.free.gpus[node])
    links = jobs.held.links
    for row in order:
        spot = jobs.held.first[row] if runs[row] else NONE
        while spot != NONE:
            if segment[links[NODE, spot]] != NONE:
                left[segment[links[NODE, spot]]] += links[GPUS, spot]
            spot = links[NEXT, spot]
    return GpuCounts(segment, may, left, taken)


@inner
def _alike(allowed: BoolArray, node: int, other: int) -> bool:
    """Return True if the same kinds of jobs may use two nodes."""
    differ = 0
    for kind in range(len(allowed)):
        differ += allowed[kind, node] != allowed[kind, other]
    return differ == 0


@inner
def _keep(jobs: DecisionJobs, counts: GpuCounts, row: int) -> bool:
    """Count a running job on the segments of its nodes; return False, and change nothing, where GPUs are missing."""
    links, first = jobs.held.links, jobs.held.first[row]
    left, taken = counts.left.copy(), counts.taken.copy()
    spot, here = first, np.zeros(len(left), dtype=np.bool_)
    while spot != NONE:
        number = counts.segment[links[NODE, spot]]
        if number != NONE:
            here[:] = False
            here[number] = True
            if not count_gpus(counts, here, np.zeros(len(left), dtype=np.int64), links[GPUS, spot]):
                counts.left[:], counts.taken[:] = left, taken
                return False
        spot = links[NEXT, spot]
    return True


@inner
def count_gpus(counts: GpuCounts, may: BoolArray, taken: IntArray, gpus: int) -> bool:
    """Take so many *gpus* of the segments in *may* and add them to *taken*; return False where they are missing.

    Where they are not left, jobs that were chosen before move to other segments that they may use (augmenting paths of
    a maximum flow), so no job is refused for the way in which others were counted.
    """
    left, many = counts.left, len(counts.left)
    if many == 1:
        if (not may[0] and gpus) or left[0] < gpus:
            return False
        left[0] -= gpus
        return True
    before, moved, mine = left.copy(), counts.taken.copy(), taken.copy()
    by_kind, by_segment = np.empty(many, dtype=np.int64), np.empty(many, dtype=np.int64)
    reached, line = np.empty(many, dtype=np.bool_), np.empty(many, dtype=np.int64)
    while gpus > 0:
        reached[:] = may
        seen, end, found = 0, 0, NONE
        for number in range(many):
            if may[number]:
                by_kind[number], by_segment[number], line[end] = NONE, NONE, number
                end += 1
        while seen < end and found == NONE:
            number = line[seen]
            seen += 1
            if left[number] > 0:
                found = number
                break
            for kind in range(len(counts.taken)):
                if counts.taken[kind, number] > 0:
                    for other in range(many):
                        if counts.may[kind, other] and not reached[other]:
                            reached[other] = True
                            by_kind[other], by_segment[other], line[end] = kind, number, other
                            end += 1
        if found == NONE:
            left[:], counts.taken[:], taken[:] = before, moved, mine
            return False
        step, number = min(gpus, left[found]), found
        while by_segment[number] != NONE:
            step = min(step, counts.taken[by_kind[number], by_segment[number]])
            number = by_segment[number]
        left[found] -= step
        number = found
        while by_segment[number] != NONE:
            counts.taken[by_kind[number], by_segment[number]] -= step
            counts.taken[by_kind[number], number] += step
            number = by_segment[number]
        taken[number] += step
        gpus -= step
    return True


@inner
def _open(
    jobs: DecisionJobs, order: IntArray, runs: BoolArray, chosen: BoolArray, spare: Spare, yields: BoolArray
) -> tuple[int, int]:
    """Fill the scratch before any job starts; return the GPUs that are free, and those that may become so."""
    free = jobs.resources.free
    for room in (spare.free, spare.loose):
        room.gpus[:], room.cpus[:], room.memory_mib[:] = free.gpus, free.cpus, free.memory_mib
    for row in order:
        if runs[row]:
            yields[row] = False
    now = int(np.maximum(free.gpus, 0).sum())
    more = 0
    for at in range(len(order)):
        if runs[order[at]] and not chosen[at]:
            _move(spare.loose, jobs, order[at], 1)
            more += jobs.requests.gpus[order[at]]
    return now, now + more


@inner
def _shift(
    jobs: DecisionJobs,
    order: IntArray,
    runs: BoolArray,
    chosen: BoolArray,
    after: int,
    loose: FreeResources,
    yields: BoolArray,
    sign: int,
) -> int:
    """Add to *loose* what chosen jobs have that run and do not yield, or take it away; return their GPUs with *sign*.

    They are those from the place *after* on in *order*.
    """
    gpus = 0
    for at in range(after, len(order)):
        if runs[order[at]] and chosen[at] and not yields[order[at]]:
            _move(loose, jobs, order[at], sign)
            gpus += sign * jobs.requests.gpus[order[at]]
    return gpus


@inner
def _clear(
    jobs: DecisionJobs,
    order: IntArray,
    runs: BoolArray,
    chosen: BoolArray,
    firm: int,
    row: int,
    count: int,
    spare: Spare,
    yields: BoolArray,
) -> int:
    """Let running jobs yield, the worst first, until job *row* has room on the *count* nodes found; return their GPUs.

    Jobs that were chosen yield only from the place after *firm* on in *order*.
    """
    gpus = 0
    for at in range(len(order) - 1, -1, -1):
        other = order[at]
        if not runs[other] or yields[other] or (chosen[at] and at <= firm):
            continue
        if _helps(jobs, row, count, spare, other):
            yields[other] = True
            _move(spare.free, jobs, other, 1)
            gpus += jobs.requests.gpus[other]
    return gpus


@inner
def _helps(jobs: DecisionJobs, row: int, count: int, spare: Spare, other: int) -> bool:
    """Return True if *other* runs on one of the *count* nodes found for *row* that lacks anything yet."""
    requests, room, links, free = jobs.requests, jobs.resources.room, jobs.held.links, spare.free
    spot = jobs.held.first[other]
    while spot != NONE:
        for at in range(count):
            node = room[CHOSEN, at]
            if node == links[NODE, spot]:
                cpus = jobs.resources.has.cpus[node] if requests.exclusive[row] else requests.cpus[row]
                if free.gpus[node] < room[TAKEN, at] or free.cpus[node] < cpus:
                    return True
                if free.memory_mib[node] < requests.memory_mib[row]:
                    return True
        spot = links[NEXT, spot]
    return False


@inner
def _move(free: FreeResources, jobs: DecisionJobs, row: int, sign: int) -> None:
    """Add what a running job has to *free*, or take it away."""
    links, spot = jobs.held.links, jobs.held.first[row]
    while spot != NONE:
        node = links[NODE, spot]
        free.gpus[node] += sign * links[GPUS, spot]
        free.cpus[node] += sign * links[CPUS, spot]
        free.memory_mib[node] += sign * jobs.requests.memory_mib[row]
        spot = links[NEXT, spot]


@inner
def _occupy(free: FreeResources, jobs: DecisionJobs, row: int, count: int) -> None:
    """Take the *count* nodes found for a job from *free*."""
    room, requests = jobs.resources.room, jobs.requests
    for at in range(count):
        node = room[CHOSEN, at]
        free.gpus[node] -= room[TAKEN, at]
        free.cpus[node] -= jobs.resources.has.cpus[node] if requests.exclusive[row] else requests.cpus[row]
        free.memory_mib[node] -= requests.memory_mib[row]
