"""Searches for nodes that have room for a job, in loops that compile.

``find`` passes all nodes; ``find_filed`` has the same answers, and passes only nodes with enough free GPUs.
"""

from __future__ import annotations

from ...cluster.columns import BoolArray, IntArray
from ..compiled import borrowing, entry
from ..placement import ANY_NUMBER, CONSOLIDATE, FILLED_GRADIENT, FIRST_FREE, GRADIENT, POOL, ROOMIEST, place
from .closed_times import shut
from .fragmentation import FGD, FILLED, GPU, NO_ROOM, NodeRoom, gradient
from .free_resources import FreeResources
from .nodes_by_free import NodesByFree, next_with, next_with_at_least
from .resources import ALIKE, CHOSEN, NONE, OPEN, TAKEN, NodeResources, ResourceRequests, has_slots
from .unit_choice import BASE, ROOM, WHOLE, choose_units
from .unit_choice import CHOSEN as CHOSEN_UNITS


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
        if not _has_rest(resources, requests, row, free, node, cpus, memory_mib):
            continue
        room[OPEN, node] = max(0, free.gpus[node]) if gpus else 1
        total += room[OPEN, node]
    if total < max(gpus, 1):
        return 0
    if requests.rule[row] and requests.how[row] != POOL:
        return _in_units(resources, resources.rules[requests.rule[row]], max(requests.nodes[row], 1), gpus)
    if gpus and requests.how[row] == ANY_NUMBER:
        return _on_any_number(room, max(requests.nodes[row], 1), gpus)
    if requests.nodes[row] or not gpus:
        return _on_so_many(room, max(requests.nodes[row], 1), gpus)
    how = requests.how[row]
    if how in (GRADIENT, FILLED_GRADIENT):
        if _by_gradient(FGD if how == GRADIENT else FILLED, resources, free, cpus, gpus):
            return 1
        how = CONSOLIDATE  # it needs several nodes, or none has room
    if how not in (CONSOLIDATE, ROOMIEST) or len(resources.sizes) == 1:
        return int(place(how, room[OPEN], resources.sizes[0], gpus, room[CHOSEN], room[TAKEN]))
    return _on_one_size(how, resources, allowed, gpus)


@borrowing
def _has_rest(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    node: int,
    cpus: int,
    memory_mib: float,
) -> bool:
    """Return True if a node has what a job requests of it beside GPUs."""
    if free.cpus[node] < cpus or free.memory_mib[node] < memory_mib:
        return False
    if requests.exclusive[row] and free.cpus[node] < resources.has.cpus[node]:
        return False
    return not requests.slots[row] or has_slots(resources.slots, node, requests.slots[row])


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
def _on_any_number(room: IntArray, least: int, gpus: int) -> int:
    """Find the nodes with the most free GPUs, so many at *least*, each with one GPU at least."""
    found = 0
    while gpus > 0:
        best, later = NONE, max(least - found - 1, 0)  # nodes that are still to come
        for node in range(room.shape[1]):
            if room[OPEN, node] > 0 and (best == NONE or room[OPEN, node] > room[OPEN, best]):
                best = node
        if best == NONE or gpus <= later:
            return 0
        room[CHOSEN, found], room[TAKEN, found] = best, min(room[OPEN, best], gpus - later)
        gpus -= room[TAKEN, found]
        room[OPEN, best] = 0
        found += 1
    return found if found >= least else 0


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
def _by_gradient(measure: int, resources: NodeResources, free: FreeResources, cpus: int, gpus: int) -> bool:
    """Find the open node with the best score for a job of one node; return True if any has room."""
    room, mix, best = resources.room, resources.mix, NO_ROOM
    for node in range(room.shape[1]):
        if room[OPEN, node] < gpus:
            continue
        mix.scratch[0, : room[OPEN, node]] = GPU
        here = NodeRoom(mix.scratch[0], mix.scratch[1], room[OPEN, node], free.cpus[node], node)
        score, _ = gradient(measure, mix.typical, here, cpus, gpus, GPU)
        if score > best:
            best, room[CHOSEN, 0], room[TAKEN, 0] = score, node, gpus
    return bool(best > NO_ROOM)


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
def find_open_filed(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    by_free: NodesByFree,
    barred: BoolArray,
    from_s: float,
    plan_s: float,
) -> int:
    """Find room as ``find_open`` does, in *free*, of which *by_free* has the nodes."""
    closed, kind = resources.closed, requests.kind[row]
    if closed.span[0, kind] < closed.span[1, kind]:
        return find_open(resources, requests, row, free, barred, from_s, plan_s)
    return find_filed(resources, requests, row, free, by_free, barred)


@borrowing
def find_now(
    resources: NodeResources, requests: ResourceRequests, row: int, barred: BoolArray, now_s: float, plan_s: float
) -> int:
    """Find room as ``find_open`` does, in what is free now."""
    free, by_free = resources.free, resources.counts.by_free
    return int(find_open_filed(resources, requests, row, free, by_free, barred, now_s, plan_s))


@borrowing
def find_filed(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    by_free: NodesByFree,
    barred: BoolArray,
) -> int:
    """Find room as ``find`` does, in *free*, of which *by_free* has the nodes; others than these are not passed."""
    gpus, how, nodes = requests.gpus[row], requests.how[row], requests.nodes[row]
    if not len(by_free.words) or not gpus or requests.slots[row] or requests.rule[row] or how == ANY_NUMBER:
        return find(resources, requests, row, free, barred)
    if nodes or how in (POOL, FIRST_FREE):
        return _first_filed(resources, requests, row, free, by_free, barred)
    if how != CONSOLIDATE:
        return find(resources, requests, row, free, barred)
    room, size = resources.room, resources.sizes[0]
    whole, rest = gpus // size, gpus % size
    found, node = 0, NONE
    if by_free.many[size] < whole:
        return 0
    while found < whole:
        node = _next_open(resources, requests, row, free, by_free, barred, size, node + 1, False)
        if node == NONE:
            return 0
        room[CHOSEN, found], room[TAKEN, found] = node, size
        found += 1
    for each in range(rest, size + 1):
        if rest and by_free.many[each]:
            after = node + 1 if each == size else 0
            other = _next_open(resources, requests, row, free, by_free, barred, each, after, False)
            if other != NONE:
                room[CHOSEN, found], room[TAKEN, found] = other, rest
                return found + 1
    return 0 if rest else found


@borrowing
def _first_filed(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    by_free: NodesByFree,
    barred: BoolArray,
) -> int:
    """Find the first nodes with free GPUs, or with as many of them as the job needs on each of its number of nodes."""
    room, left, nodes = resources.room, requests.gpus[row], requests.nodes[row]
    each = max(1, -(-left // nodes)) if nodes else 1
    found, node = 0, NONE
    if each > resources.sizes[0]:
        return 0
    while left > 0 or found < nodes:
        node = _next_open(resources, requests, row, free, by_free, barred, each, node + 1, True)
        if node == NONE:
            return 0
        room[CHOSEN, found] = node
        room[TAKEN, found] = min(each if nodes else free.gpus[node], left)
        left -= room[TAKEN, found]
        found += 1
    return found


@borrowing
def _next_open(
    resources: NodeResources,
    requests: ResourceRequests,
    row: int,
    free: FreeResources,
    by_free: NodesByFree,
    barred: BoolArray,
    gpus: int,
    node: int,
    or_more: bool,
) -> int:
    """Return the first node from *node* on that is open to a job and has so many free *gpus*; NONE for none."""
    kind, cpus, memory_mib = requests.kind[row], requests.cpus[row], requests.memory_mib[row]
    while True:
        node = next_with_at_least(by_free, gpus, node) if or_more else next_with(by_free, gpus, node)
        if node == NONE:
            return NONE
        is_open = resources.allowed[kind, node] and not barred[node] and resources.up[node]
        if is_open and _has_rest(resources, requests, row, free, node, cpus, memory_mib):
            return node
        node += 1
