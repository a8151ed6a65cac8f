"""The preemptive loop, which compiles: the best jobs run, whatever ran before, and the others yield where needed.

Who runs is chosen by number: in order, each job for which GPUs are left. The chosen jobs then get nodes: free ones, or
else those of running jobs that were not chosen, the worst of which yield until there is room. So no job is stopped for
one that would not start, and a chosen job that runs keeps its nodes even where a better one needs whole nodes. A job
that was not chosen does not start, lest a better one claims its GPUs at the next event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ..compiled import borrowing, entry, inner
from .free_resources import FreeResources
from .loops import DecisionJobs, Started, note_start, within_limit
from .node_search import find_open_filed, is_shut
from .nodes_by_free import NodesByFree, file_node, filed_by
from .resources import ALL, CHOSEN, CPUS, GPUS, NEXT, NODE, NONE, TAKEN, UP, NodeResources, note_as_changed, own_part
from .struct_arrays import records


class GpuCounts(NamedTuple):
    """The GPUs that are left to choose jobs for, in segments: nodes that the same kinds of jobs may use."""

    segment: IntArray  #: of each node
    may: BoolArray  #: [kind of job, segment]
    left: IntArray  #: per segment, on nodes that are up
    taken: IntArray  #: [kind of job, segment], by waiting jobs, which may be moved to another segment


class FiledNodes(NamedTuple):
    """What nodes have, and the nodes by their GPUs."""

    free: FreeResources
    by_free: NodesByFree


class Spare(NamedTuple):
    """Scratch of preemptive selections among the same nodes.

    Between two of them it differs from what is free only on nodes that are noted as changed.
    """

    free: FiledNodes  #: free now, or left by jobs that yield
    loose: FiledNodes  #: those, and what jobs have that may yield
    unused: BoolArray  #: one of them, True before the first selection
    counts: GpuCounts
    chosen: BoolArray  #: per place in the order


def no_spare(resources: NodeResources, jobs: int) -> Spare:
    """Return scratch for so many *jobs* on these nodes."""
    allowed = resources.allowed
    kinds, nodes = allowed.shape
    zeros = np.zeros(nodes, dtype=np.int64)
    may, segment = np.unique(allowed, axis=1, return_inverse=True)
    many = may.shape[1]
    counts = GpuCounts(
        segment.reshape(-1).astype(np.int64),
        np.ascontiguousarray(may),
        np.zeros(many, dtype=np.int64),
        np.zeros((kinds, many), dtype=np.int64),
    )
    size = len(resources.counts.by_free.many) - 1
    free, loose = (
        FiledNodes(records(FreeResources(zeros, zeros, np.zeros(nodes))), filed_by(zeros, size)) for _ in range(2)
    )
    return Spare(free, loose, np.ones(1, dtype=np.bool_), counts, np.zeros(jobs, dtype=np.bool_))


@entry
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
    """Choose the jobs that run from now on, in *order*; *runs* selects the running ones, others that run go on.

    The first *firm* jobs of *order* take the nodes of any worse one, chosen or not, where there is no other way to
    place them. *yields* marks the running jobs that yield, *to* has those that start.
    """
    _choose(jobs, order, runs, spare, barred, now_s)
    free = _open(jobs, order, runs, spare, yields)
    loose = free + _not_chosen(jobs, order, runs, spare)
    for at in range(len(order)):
        row = order[at]
        if runs[row] or not spare.chosen[at]:
            continue
        gpus, plan_s, count = jobs.requests.gpus[row], jobs.life.plan_s[row], 0
        if gpus <= free:
            count = _find(jobs, row, spare.free, barred, now_s, plan_s)
        if not count and gpus <= loose:
            count = _find(jobs, row, spare.loose, barred, now_s, plan_s)
            if count:
                free += _clear(jobs, order, runs, len(order), row, count, spare, yields)
        if not count and at < firm:
            loose += _shift(jobs, order, runs, spare, at + 1, yields, 1)
            count = _find(jobs, row, spare.loose, barred, now_s, plan_s)
            if count:
                free += _clear(jobs, order, runs, at, row, count, spare, yields)
            loose += _shift(jobs, order, runs, spare, at + 1, yields, -1)
        if count:
            free -= gpus
            loose -= gpus
            _occupy(spare.loose, jobs, row, count)
            _occupy(spare.free, jobs, row, count)
            note_start(to, row, jobs.resources.room, count)


@borrowing
def _find(jobs: DecisionJobs, row: int, among: FiledNodes, barred: BoolArray, now_s: float, plan_s: float) -> int:
    """Find room for a job; return the number of nodes."""
    free, by_free = among.free, among.by_free
    return int(find_open_filed(jobs.resources, jobs.requests, row, free, by_free, barred, now_s, plan_s))


@borrowing
def _choose(
    jobs: DecisionJobs, order: IntArray, runs: BoolArray, spare: Spare, barred: BoolArray, now_s: float
) -> None:
    """Choose jobs in *order* while GPUs are left, of the nodes that each may use and to its account.

    A job for which the nodes that are open to it were too few even if nothing ran there is not chosen.
    """
    counts, chosen = spare.counts, spare.chosen
    _count_all(jobs, order, runs, counts)
    used, account, requests = jobs.accounts.used, jobs.accounts.account, jobs.requests
    for at in range(len(order)):  # the limits count the jobs that run from now on
        if runs[order[at]]:
            used[account[order[at]]] -= requests.gpus[order[at]]
    for at in range(len(order)):
        row = order[at]
        chosen[at] = False
        if not within_limit(jobs, row):
            continue
        plan_s = jobs.life.plan_s[row]
        if not runs[row] and is_shut(jobs.resources, jobs.requests, row, barred, now_s, plan_s):
            continue
        if runs[row]:
            chosen[at] = _keep(jobs, counts, row)
        elif len(counts.left) == 1:
            chosen[at] = _take_of_one(counts, requests.kind[row], requests.gpus[row])
        else:
            chosen[at] = _take_of_many(counts, requests.kind[row], requests.gpus[row])
        if chosen[at]:
            used[account[row]] += requests.gpus[row]


@borrowing
def _count_all(jobs: DecisionJobs, order: IntArray, runs: BoolArray, counts: GpuCounts) -> None:
    """Count the GPUs that are free or that running jobs have, on nodes that are up."""
    resources, links, segment = jobs.resources, jobs.held.links, counts.segment
    counts.left[:] = 0
    counts.taken[:] = 0
    if len(counts.left) == 1:
        counts.left[0] = resources.counts.gpus[UP]
    else:
        for node in range(len(segment)):
            if resources.up[node]:
                counts.left[segment[node]] += max(0, resources.free.gpus[node])
    for at in range(len(order)):
        row = order[at]
        spot = jobs.held.first[row] if runs[row] else NONE
        while spot != NONE:
            if resources.up[links[NODE, spot]]:
                counts.left[segment[links[NODE, spot]]] += links[GPUS, spot]
            spot = links[NEXT, spot]


@borrowing
def _keep(jobs: DecisionJobs, counts: GpuCounts, row: int) -> bool:
    """Count a running job on the segments of its nodes; return False, and change nothing, where GPUs are missing."""
    if len(counts.left) > 1:
        return _keep_on_many(jobs, counts, row)
    links, spot, gpus = jobs.held.links, jobs.held.first[row], 0
    while spot != NONE:
        if jobs.resources.up[links[NODE, spot]]:
            gpus += links[GPUS, spot]
        spot = links[NEXT, spot]
    if gpus > counts.left[0]:
        return False
    counts.left[0] -= gpus
    return True


@borrowing
def _take_of_one(counts: GpuCounts, kind: int, gpus: int) -> bool:
    """Take GPUs of the only segment; return False where they are missing."""
    if (not counts.may[kind, 0] and gpus) or counts.left[0] < gpus:
        return False
    counts.left[0] -= gpus
    return True


@inner
def _take_of_many(counts: GpuCounts, kind: int, gpus: int) -> bool:
    """Take GPUs of the segments of a kind of job; return False where they are missing."""
    return bool(count_gpus(counts, counts.may[kind], counts.taken[kind], gpus))


@inner
def _keep_on_many(jobs: DecisionJobs, counts: GpuCounts, row: int) -> bool:
    """Count a running job on the segments of its nodes, of several; return False where GPUs are missing."""
    links, first = jobs.held.links, jobs.held.first[row]
    left, taken = counts.left.copy(), counts.taken.copy()
    spot, here = first, np.zeros(len(left), dtype=np.bool_)
    while spot != NONE:
        if jobs.resources.up[links[NODE, spot]]:
            here[:] = False
            here[counts.segment[links[NODE, spot]]] = True
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


@borrowing
def _open(jobs: DecisionJobs, order: IntArray, runs: BoolArray, spare: Spare, yields: BoolArray) -> int:
    """Fill the scratch before any job starts; return the GPUs that are free."""
    resources, counts, nodes = jobs.resources, jobs.resources.counts, len(jobs.resources.up)
    many = nodes if spare.unused[0] else counts.changes[0]
    for at in range(many):
        node = at if spare.unused[0] else counts.changed[at]
        _copy(resources.free, spare.free, node)
        _copy(resources.free, spare.loose, node)
    for at in range(counts.changes[0]):
        counts.is_changed[counts.changed[at]] = False
    counts.changes[0], spare.unused[0] = 0, False
    for at in range(len(order)):
        if runs[order[at]]:
            yields[order[at]] = False
    return int(counts.gpus[ALL])


@borrowing
def _copy(free: FreeResources, to: FiledNodes, node: int) -> None:
    into = to.free
    into.gpus[node], into.cpus[node], into.memory_mib[node] = free.gpus[node], free.cpus[node], free.memory_mib[node]
    file_node(to.by_free, node, max(0, free.gpus[node]))


@borrowing
def _not_chosen(jobs: DecisionJobs, order: IntArray, runs: BoolArray, spare: Spare) -> int:
    """Add to what is loose what running jobs have that were not chosen; return their GPUs."""
    gpus = 0
    for at in range(len(order)):
        if runs[order[at]] and not spare.chosen[at]:
            _move(spare.loose, jobs, order[at], 1)
            gpus += jobs.requests.gpus[order[at]]
    return gpus


@borrowing
def _shift(
    jobs: DecisionJobs,
    order: IntArray,
    runs: BoolArray,
    spare: Spare,
    after: int,
    yields: BoolArray,
    sign: int,
) -> int:
    """Add to what is loose what chosen jobs have that run and do not yield, or take it away; return their GPUs, signed.

    They are those from the place *after* on in *order*.
    """
    gpus = 0
    for at in range(after, len(order)):
        if runs[order[at]] and spare.chosen[at] and not yields[order[at]]:
            _move(spare.loose, jobs, order[at], sign)
            gpus += sign * jobs.requests.gpus[order[at]]
    return gpus


@borrowing
def _clear(
    jobs: DecisionJobs,
    order: IntArray,
    runs: BoolArray,
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
        if not runs[other] or yields[other] or (spare.chosen[at] and at <= firm):
            continue
        if _helps(jobs, row, count, spare, other):
            yields[other] = True
            _move(spare.free, jobs, other, 1)
            gpus += jobs.requests.gpus[other]
    return gpus


@borrowing
def _helps(jobs: DecisionJobs, row: int, count: int, spare: Spare, other: int) -> bool:
    """Return True if *other* runs on one of the *count* nodes found for *row*, or in its part, that lacks anything."""
    requests, room, links, free = jobs.requests, jobs.resources.room, jobs.held.links, spare.free.free
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
            part = own_part(jobs.resources.closed, requests.kind[row], node)
            if part == links[NODE, spot] and free.cpus[part] < requests.cpus[row]:
                return True
        spot = links[NEXT, spot]
    return False


@borrowing
def _move(to: FiledNodes, jobs: DecisionJobs, row: int, sign: int) -> None:
    """Add what a running job has to what is free, or take it away."""
    links, spot, free = jobs.held.links, jobs.held.first[row], to.free
    while spot != NONE:
        node = links[NODE, spot]
        free.gpus[node] += sign * links[GPUS, spot]
        free.cpus[node] += sign * links[CPUS, spot]
        free.memory_mib[node] += sign * jobs.requests.memory_mib[row]
        _file(to, jobs, node)
        spot = links[NEXT, spot]


@borrowing
def _occupy(of: FiledNodes, jobs: DecisionJobs, row: int, count: int) -> None:
    """Take the *count* nodes found for a job from what is free."""
    room, requests, free = jobs.resources.room, jobs.requests, of.free
    for at in range(count):
        node = room[CHOSEN, at]
        free.gpus[node] -= room[TAKEN, at]
        free.cpus[node] -= jobs.resources.has.cpus[node] if requests.exclusive[row] else requests.cpus[row]
        free.memory_mib[node] -= requests.memory_mib[row]
        _file(of, jobs, node)
        part = own_part(jobs.resources.closed, requests.kind[row], node)
        if part >= 0:
            free.cpus[part] -= requests.cpus[row]
            free.gpus[part] -= min(room[TAKEN, at], max(0, free.gpus[part]))
            _file(of, jobs, part)


@borrowing
def _file(nodes: FiledNodes, jobs: DecisionJobs, node: int) -> None:
    """File a node of the scratch by what is free there; from now on it differs from what is free."""
    file_node(nodes.by_free, node, max(0, nodes.free.gpus[node]))
    note_as_changed(jobs.resources.counts, node)
