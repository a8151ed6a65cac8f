"""The GPUs, CPUs and memory of nodes of any kind and their allocation, in loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import borrowing, entry
from .closed_times import ClosedTimes
from .fragmentation import JobMix
from .free_resources import FreeResources
from .nodes_by_free import NodesByFree, file_node, filed_by
from .nodes_by_free import validate as validate_filed

NONE = -1
NODE, GPUS, CPUS, NEXT = 0, 1, 2, 3
CHOSEN, TAKEN, OPEN, ALIKE = 0, 1, 2, 3
ALL, UP = 0, 1


class NodeSlots(NamedTuple):
    """The slots of GPUs per node as sets of GPU numbers, one bit each: a GPU that can be shared has two slots."""

    has: IntArray  #: the GPUs with slots
    once: IntArray  #: those of which at least one slot is taken
    twice: IntArray  #: those of which both are


class FreeCounts(NamedTuple):
    """What follows from the free resources of nodes, kept beside them; see ``note_change``."""

    by_free: NodesByFree
    gpus: IntArray  #: free on ALL nodes, and on those that are UP
    changed: IntArray  #: nodes on which something changed since this list was last emptied
    is_changed: BoolArray  #: per node: it is on that list
    changes: IntArray  #: the length of the list


class NodeResources(NamedTuple):
    """The nodes: their capacity, what is free, and which jobs may use them."""

    has: FreeResources  #: the capacity
    free: FreeResources
    counts: FreeCounts  #: of ``free``
    slots: NodeSlots
    up: BoolArray
    allowed: BoolArray  #: [kind of job, node]
    closed: ClosedTimes  #: when reservations close nodes to kinds of jobs
    sizes: IntArray  #: the distinct GPU counts of nodes, largest first
    units: IntArray  #: [level, node] the blocks or switches that nodes are in; no level of a flat network
    rules: IntArray  #: [rule, part] which of them jobs may have together (``UnitRule``); the first one is not used
    unit_room: IntArray  #: scratch of ``choose_units``
    room: IntArray  #: scratch, one column per node: nodes chosen, GPUs taken of each, open to the job, of one size
    mix: JobMix  #: the jobs by which a placement scores nodes; none for other placements


class ResourceRequests(NamedTuple):
    """The resources that each job requests."""

    gpus: IntArray  #: over all nodes; 0 of a job with slots
    slots: IntArray  #: the GPUs of its node of which it requests a slot each, one bit per number; 0 for none
    nodes: IntArray  #: 0 where the job does not say
    cpus: IntArray  #: per node
    memory_mib: FloatArray  #: per node
    exclusive: BoolArray
    kind: IntArray  #: jobs of one kind may use the same nodes, at the same times
    rule: IntArray  #: its place in ``NodeResources.rules``; 0 where it may have any nodes
    how: IntArray  #: one of ``PLACEMENTS``
    form: IntArray  #: jobs of one form have identical requests


class Held(NamedTuple):
    """The allocations of jobs as linked lists: ``first[row]`` is a job's first link; ``spare`` heads the free list."""

    first: IntArray
    links: IntArray  #: lines NODE, GPUS, CPUS, NEXT
    spare: IntArray  #: one number


def nothing_held(jobs: int, links: int) -> Held:
    """Return empty allocations for *jobs*, with room for *links* (job, node) pairs at once."""
    chain = np.zeros((4, links), dtype=np.int64)
    chain[NEXT] = np.arange(1, links + 1)
    chain[NEXT, -1:] = NONE
    return Held(np.full(jobs, NONE, dtype=np.int64), chain, np.zeros(1, dtype=np.int64))


def carry_over(old: Held, new: Held) -> None:
    """Copy the allocations of *old* into larger, empty ones."""
    many = old.links.shape[1]
    new.first[: len(old.first)] = old.first
    new.links[:, :many] = old.links
    unused = np.ones(new.links.shape[1], dtype=np.bool_)
    for spot in old.first.tolist():
        while spot != NONE:
            unused[spot] = False
            spot = int(old.links[NEXT, spot])
    chain = np.flatnonzero(unused)
    new.links[NEXT, chain] = np.append(chain[1:], NONE)
    new.spare[0] = chain[0]


def number_forms(requests: ResourceRequests) -> None:
    """Number jobs by identical requests; call it after requests were changed."""
    form = np.zeros(len(requests.gpus), dtype=np.int64)
    for name in ("gpus", "slots", "nodes", "cpus", "memory_mib", "exclusive", "kind", "rule", "how"):
        column = getattr(requests, name)
        if len(column) and column.min() != column.max():
            at = _numbered(column)
            form = _numbered(form * (int(at.max()) + 1) + at)
    requests.form[:] = form


def _numbered(values: IntArray | FloatArray) -> IntArray:
    """Return the place of each value among the distinct ones, rising; those within a small range are not sorted."""
    if values.dtype == np.int64 and values.max() - values.min() < 2 * len(values) + 64:
        offset = values - values.min()
        present = np.zeros(int(offset.max()) + 1, dtype=np.bool_)
        present[offset] = True
        return np.asarray((np.cumsum(present) - 1)[offset], dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def no_counts(nodes: int) -> FreeCounts:
    """Return counts of *nodes* on which nothing is free."""
    zeros = np.zeros(nodes, dtype=np.int64)
    nothing = filed_by(zeros, 0)
    return FreeCounts(nothing, np.zeros(2, np.int64), zeros, np.zeros(nodes, np.bool_), np.zeros(1, np.int64))


def counted(resources: NodeResources) -> NodeResources:
    """Return *resources* with counts of what is free on them; nodes of several sizes are not filed."""
    free, sizes, counts = resources.free.gpus, resources.sizes, no_counts(len(resources.up))
    counts = counts._replace(by_free=filed_by(free, int(sizes[0]) if len(sizes) == 1 else 0))
    resources = resources._replace(counts=counts)
    recount(resources)
    return resources


@entry
def recount(resources: NodeResources) -> None:
    """Count again what is free, after other nodes are up, or free resources were written."""
    gpus = resources.counts.gpus
    gpus[ALL], gpus[UP] = 0, 0
    for node in range(len(resources.up)):
        note_as_changed(resources.counts, node)
        free = max(0, resources.free.gpus[node])
        file_node(resources.counts.by_free, node, free)
        gpus[ALL] += free
        gpus[UP] += free if resources.up[node] else 0


@borrowing
def note_change(resources: NodeResources, node: int, before: int) -> None:
    """Count what is free on a node, of which something changed; *before*, so many of its GPUs were free."""
    counts, before, now = resources.counts, max(0, before), max(0, resources.free.gpus[node])
    note_as_changed(counts, node)
    if now != before:
        file_node(counts.by_free, node, now)
        counts.gpus[ALL] += now - before
        counts.gpus[UP] += now - before if resources.up[node] else 0


@borrowing
def note_as_changed(counts: FreeCounts, node: int) -> None:
    """Enter a node in the list of those that changed."""
    if not counts.is_changed[node]:
        counts.is_changed[node] = True
        counts.changed[counts.changes[0]] = node
        counts.changes[0] += 1


@borrowing
def take(resources: NodeResources, held: Held, requests: ResourceRequests, row: int, count: int) -> None:
    """Allocate to a job the *count* nodes that ``find`` has just found."""
    free = resources.free
    for at in range(count):
        node = resources.room[CHOSEN, at]
        cpus, before = resources.free.cpus[node] if requests.exclusive[row] else requests.cpus[row], free.gpus[node]
        link(free, held, row, node, resources.room[TAKEN, at], cpus)
        free.memory_mib[node] -= requests.memory_mib[row]
        note_change(resources, node, before)
        take_slots(resources.slots, node, requests.slots[row])
        part = own_part(resources.closed, requests.kind[row], node)
        if part >= 0:
            before = free.gpus[part]
            link(free, held, row, part, min(resources.room[TAKEN, at], max(0, before)), cpus)
            free.memory_mib[part] -= requests.memory_mib[row]
            note_change(resources, part, before)


@borrowing
def hold_part(resources: NodeResources, held: Held, requests: ResourceRequests, row: int, node: int, gpus: int) -> None:
    """Let a running job have its share of what its reservation has of a node, as far as that is there."""
    free, part = resources.free, own_part(resources.closed, requests.kind[row], node)
    if part >= 0:
        cpus, before = min(int(requests.cpus[row]), max(0, int(free.cpus[part]))), free.gpus[part]
        link(free, held, row, part, min(gpus, max(0, int(before))), cpus)
        free.memory_mib[part] -= requests.memory_mib[row]
        note_change(resources, part, before)


@borrowing
def own_part(closed: ClosedTimes, kind: int, node: int) -> int:
    """Return the row of the part of a node that the reservation of a *kind* of job has; NO_PART where it has none."""
    return int(closed.own[kind, node]) if len(closed.own) else NONE


@borrowing
def has_slots(slots: NodeSlots, node: int, gpus: int) -> bool:
    """Return True if a node has a free slot of each of *gpus*."""
    return bool((gpus & ~(slots.has[node] & ~slots.twice[node])) == 0)


@entry
def take_slots(slots: NodeSlots, node: int, gpus: int) -> None:
    """Take a slot of each of *gpus*."""
    slots.twice[node] |= slots.once[node] & gpus
    slots.once[node] |= gpus


@borrowing
def _free_slots(slots: NodeSlots, node: int, gpus: int) -> None:
    """Free a slot of each of *gpus*."""
    second = slots.twice[node] & gpus
    slots.twice[node] &= ~second
    slots.once[node] &= ~(gpus & ~second)


@entry
def link(free: FreeResources, held: Held, row: int, node: int, gpus: int, cpus: int) -> None:
    """Record GPUs and CPUs of one node as allocated to a job."""
    links, spot = held.links, held.spare[0]
    held.spare[0] = links[NEXT, spot]
    links[NODE, spot], links[GPUS, spot], links[CPUS, spot], links[NEXT, spot] = node, gpus, cpus, held.first[row]
    held.first[row] = spot
    free.gpus[node] -= gpus
    free.cpus[node] -= cpus


@entry
def give_back(resources: NodeResources, held: Held, requests: ResourceRequests, row: int) -> None:
    """Free all resources of a job."""
    links, spot = held.links, held.first[row]
    while spot != NONE:
        node = links[NODE, spot]
        before = resources.free.gpus[node]
        resources.free.gpus[node] += links[GPUS, spot]
        resources.free.cpus[node] += links[CPUS, spot]
        resources.free.memory_mib[node] += requests.memory_mib[row]
        note_change(resources, node, before)
        _free_slots(resources.slots, node, requests.slots[row])
        after = links[NEXT, spot]
        links[NEXT, spot] = held.spare[0]
        held.spare[0] = spot
        spot = after
    held.first[row] = NONE


@borrowing
def width(requests: ResourceRequests, row: int) -> int:
    """Return the number of GPUs of a job, shared ones included."""
    gpus, slots = requests.gpus[row], requests.slots[row]
    while slots:
        gpus += slots & 1
        slots >>= 1
    return int(gpus)


@borrowing
def is_on(held: Held, row: int, node: int) -> bool:
    """Return True if a job has a part of this node."""
    spot = held.first[row]
    while spot != NONE:
        if held.links[NODE, spot] == node:
            return True
        spot = held.links[NEXT, spot]
    return False


def validate(resources: NodeResources, held: Held, requests: ResourceRequests) -> None:
    """Raise AssertionError where the lists of allocations are broken, or nodes do not have what their jobs leave."""
    owner = owners(held)
    mine = owner != NONE
    node, nodes = held.links[NODE, mine], len(resources.up)
    assert ((node >= 0) & (node < nodes)).all(), "a job holds a node that does not exist"
    assert (held.links[GPUS, mine] >= 0).all(), "a job holds less than no GPU"
    assert len(np.unique(owner[mine] * nodes + node)) == len(node), "a job holds a node twice"

    def held_of(amounts: IntArray | FloatArray) -> FloatArray:
        return np.asarray(np.bincount(node, weights=amounts, minlength=nodes), dtype=np.float64)

    has, free = resources.has, resources.free
    whole = np.where(resources.slots.has > 0, 0, has.gpus)
    assert (free.gpus >= 0).all(), "a node gives more GPUs than it has"
    assert (free.cpus >= 0).all(), "a node gives more CPUs than it has"
    assert (free.gpus + held_of(held.links[GPUS, mine]) == whole).all(), "free and held GPUs are not those of a node"
    assert (free.cpus + held_of(held.links[CPUS, mine]) == has.cpus).all(), "free and held CPUs are not those of a node"
    memory_mib = free.memory_mib + held_of(requests.memory_mib[owner[mine]])
    assert np.allclose(memory_mib, has.memory_mib), "free and held memory is not that of a node"
    _validate_slots(resources.slots, node, requests.slots[owner[mine]])
    _validate_counts(resources)


def _validate_counts(resources: NodeResources) -> None:
    counts, free = resources.counts, np.maximum(resources.free.gpus, 0)
    validate_filed(counts.by_free, free)
    assert counts.gpus.tolist() == [free.sum(), free[resources.up].sum()], "the free GPUs of nodes are miscounted"


def _validate_slots(slots: NodeSlots, node: IntArray, gpus: IntArray) -> None:
    """Compare the taken slots of each node with the *gpus* of which each allocation on *node* holds one."""
    numbers = np.arange(63)
    taken = np.zeros((len(slots.has), len(numbers)), dtype=np.int64)
    np.add.at(taken, node, gpus[:, None] >> numbers & 1)
    assert (taken <= 2).all(), "a GPU has more than two jobs"
    assert not (gpus & ~slots.has[node]).any(), "a job holds slots that its node lacks"
    assert ((taken >= 1) @ (1 << numbers) == slots.once).all(), "the GPUs with a slot taken are not those of the jobs"
    assert ((taken == 2) @ (1 << numbers) == slots.twice).all(), "the GPUs with two slots taken are not those of jobs"


def owners(held: Held) -> IntArray:
    """Return the job of each link, NONE for a spare one; AssertionError for a link in two lists or in none."""
    after, owner = held.links[NEXT], np.full(held.links.shape[1], NONE, dtype=np.int64)
    assert ((after >= NONE) & (after < len(after))).all(), "a link of an allocation leads nowhere"
    uses = np.zeros(len(after), dtype=np.int64)
    rows = np.flatnonzero(held.first != NONE)
    spots = held.first[rows]
    while len(spots):
        np.add.at(uses, spots, 1)
        assert uses.max() == 1, "a link is in two allocations"
        owner[spots] = rows
        more = after[spots] != NONE
        rows, spots = rows[more], after[spots[more]]
    spot = int(held.spare[0])
    while spot != NONE:
        assert not uses[spot], "a spare link is in use"
        uses[spot], spot = 1, int(after[spot])
    assert uses.all(), "a link is neither in use nor spare"
    return owner
