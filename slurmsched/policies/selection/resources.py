"""The GPUs, CPUs and memory of nodes of any kind and their allocation, in loops that compile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import borrowing, entry
from ..placement import CONSOLIDATE, FIRST_FREE, POOL, ROOMIEST, place
from .closed_times import ClosedTimes, shut
from .free_resources import FreeResources
from .unit_choice import BASE, ROOM, WHOLE, choose_units
from .unit_choice import CHOSEN as CHOSEN_UNITS

NONE = -1
NODE, GPUS, CPUS, NEXT = 0, 1, 2, 3
CHOSEN, TAKEN, OPEN, ALIKE = 0, 1, 2, 3


class NodeSlots(NamedTuple):
    """The slots of GPUs per node as sets of GPU numbers, one bit each: a GPU that can be shared has two slots."""

    has: IntArray  #: the GPUs with slots
    once: IntArray  #: those of which at least one slot is taken
    twice: IntArray  #: those of which both are


class NodeResources(NamedTuple):
    """The nodes: their capacity, what is free, and which jobs may use them."""

    has: FreeResources  #: the capacity
    free: FreeResources
    slots: NodeSlots
    up: BoolArray
    allowed: BoolArray  #: [kind of job, node]
    closed: ClosedTimes  #: when reservations close nodes to kinds of jobs
    sizes: IntArray  #: the distinct GPU counts of nodes, largest first
    units: IntArray  #: [level, node] the blocks or switches that nodes are in; no level of a flat network
    rules: IntArray  #: [rule, part] which of them jobs may have together (``UnitRule``); the first one is not used
    unit_room: IntArray  #: scratch of ``choose_units``
    room: IntArray  #: scratch, one column per node: nodes chosen, GPUs taken of each, open to the job, of one size


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
            values, at = np.unique(column, return_inverse=True)
            form = np.unique(form * len(values) + at, return_inverse=True)[1]
    requests.form[:] = form


@entry
def find(resources: NodeResources, requests: ResourceRequests, row: int, free: FreeResources, barred: BoolArray) -> int:
    """Find room for a job in *free*, off the *barred* nodes; return the number of nodes, 0 where there is none.

    The first lines of ``resources.room`` then hold the nodes and the GPUs of each. Nothing is taken.
    """
    room, gpus = resources.room, requests.gpus[row]
    allowed = resources.allowed[requests.kind[row]]
    cpus, memory_mib = requests.cpus[row], requests.memory_mib[row]
    total = 0
    for node in range(len(allowed)):
        room[OPEN, node] = 0
        if gpus and free.gpus[node] <= 0:  # most nodes of a busy cluster
            continue
        if not allowed[node] or barred[node] or not resources.up[node]:
            continue
        if free.cpus[node] < cpus or free.memory_mib[node] < memory_mib:
            continue
        if requests.exclusive[row] and free.cpus[node] < resources.has.cpus[node]:
            continue
        if requests.slots[row] and not has_slots(resources.slots, node, requests.slots[row]):
            continue
        room[OPEN, node] = max(0, free.gpus[node]) if gpus else 1
        total += room[OPEN, node]
    if total < max(gpus, 1):
        return 0
    if requests.rule[row] and requests.how[row] != POOL:
        return _in_units(resources, resources.rules[requests.rule[row]], max(requests.nodes[row], 1), gpus)
    if requests.nodes[row] or not gpus:
        return _on_so_many(room, max(requests.nodes[row], 1), gpus)
    how = requests.how[row]
    if how not in (CONSOLIDATE, ROOMIEST) or len(resources.sizes) == 1:
        return int(place(how, room[OPEN], resources.sizes[0], gpus, room[CHOSEN], room[TAKEN]))
    return _on_one_size(how, resources, allowed, gpus)


@borrowing
def find_open(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    barred: BoolArray,
    from_s: float,
    plan_s: float,
) -> int:
    """Find room as ``find`` does, off the nodes that are closed to the job while it would run, by its planned time."""
    closed, kind = resources.closed, requests.kind[row]
    if closed.span[0, kind] < closed.span[1, kind] and shut(closed, kind, free, from_s, from_s + plan_s):
        return find(resources, requests, row, closed.free, barred)
    return find(resources, requests, row, free, barred)


@borrowing
def is_shut(
    resources: NodeResources, requests: ResourceRequests, row: int, barred: BoolArray, from_s: float, plan_s: float
) -> bool:
    """Return True if reservations close too many nodes to a job, off *barred* ones, whatever runs on the others."""
    closed, kind = resources.closed, requests.kind[row]
    if closed.span[0, kind] == closed.span[1, kind]:
        return False
    return bool(find_open(resources, requests, row, resources.has, barred, from_s, plan_s) == 0)


@borrowing
def _on_so_many(room: IntArray, nodes: int, gpus: int) -> int:
    """Find the first nodes of the requested number, as many GPUs on each, as select/cons_tres mostly does."""
    each, found = -(-gpus // nodes), 0
    for node in range(room.shape[1]):
        if found == nodes:
            break
        if room[OPEN, node] >= max(each, 1):
            room[CHOSEN, found], room[TAKEN, found] = node, min(each, gpus)
            gpus -= room[TAKEN, found]
            found += 1
    return nodes if found == nodes else 0


@borrowing
def _in_units(resources: NodeResources, rule: IntArray, nodes: int, gpus: int) -> int:
    """Find nodes of few enough blocks or switches, as many GPUs on each; with whole units all nodes of these."""
    room, scratch, units = resources.room, resources.unit_room, resources.units
    each, found = -(-gpus // nodes), 0
    for node in range(room.shape[1]):
        room[ALIKE, node] = 1 if room[OPEN, node] >= max(each, 1) else 0
    if choose_units(units, rule, room[ALIKE], nodes, scratch) < nodes:
        return 0
    for node in range(room.shape[1]):
        unit = units[rule[BASE], node]
        if unit < 0 or not room[ALIKE, node] or not scratch[CHOSEN_UNITS, unit] or not scratch[ROOM, unit]:
            continue
        if found >= nodes and not rule[WHOLE]:
            break
        room[CHOSEN, found], room[TAKEN, found] = node, min(each, gpus)
        gpus -= room[TAKEN, found]
        scratch[ROOM, unit] -= 1
        found += 1
    return found


@borrowing
def _on_one_size(how: int, resources: NodeResources, allowed: BoolArray, gpus: int) -> int:
    """Find nodes of one size, the largest first; mix sizes only where no single size could ever hold the job."""
    room, most = resources.room, 0
    for size in resources.sizes:
        whole = 0
        for node in range(len(allowed)):
            alike = resources.has.gpus[node] == size
            room[ALIKE, node] = room[OPEN, node] if alike else 0
            whole += size if alike and allowed[node] else 0
        count = int(place(how, room[ALIKE], size, gpus, room[CHOSEN], room[TAKEN])) if size else 0
        if count:
            return count
        most = max(most, whole)
    return int(place(FIRST_FREE, room[OPEN], 0, gpus, room[CHOSEN], room[TAKEN])) if gpus > most else 0


@borrowing
def take(resources: NodeResources, held: Held, requests: ResourceRequests, row: int, count: int) -> None:
    """Allocate to a job the *count* nodes that ``find`` has just found."""
    for at in range(count):
        node = resources.room[CHOSEN, at]
        cpus = resources.free.cpus[node] if requests.exclusive[row] else requests.cpus[row]
        link(resources.free, held, row, node, resources.room[TAKEN, at], cpus)
        resources.free.memory_mib[node] -= requests.memory_mib[row]
        take_slots(resources.slots, node, requests.slots[row])
        part = own_part(resources.closed, requests.kind[row], node)
        if part >= 0:
            gpus = min(resources.room[TAKEN, at], max(0, resources.free.gpus[part]))
            link(resources.free, held, row, part, gpus, cpus)
            resources.free.memory_mib[part] -= requests.memory_mib[row]


@borrowing
def hold_part(resources: NodeResources, held: Held, requests: ResourceRequests, row: int, node: int, gpus: int) -> None:
    """Let a running job have its share of what its reservation has of a node, as far as that is there."""
    free, part = resources.free, own_part(resources.closed, requests.kind[row], node)
    if part >= 0:
        cpus = min(int(requests.cpus[row]), max(0, int(free.cpus[part])))
        link(free, held, row, part, min(gpus, max(0, int(free.gpus[part]))), cpus)
        free.memory_mib[part] -= requests.memory_mib[row]


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
        resources.free.gpus[node] += links[GPUS, spot]
        resources.free.cpus[node] += links[CPUS, spot]
        resources.free.memory_mib[node] += requests.memory_mib[row]
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
