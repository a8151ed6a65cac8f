"""Times in which reservations close nodes to jobs, in loops that compile. The rule is ``reservations.keeps_out``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.nodes import NodeTable
from ...cluster.reservations import (
    ANYBODY,
    CROSSES,
    MAGNETIC,
    Claimant,
    ClosedTime,
    PartUse,
    ReservationTable,
    closed_times,
    keeps_out,
    ways_kept,
)
from ...cluster.reserved_parts import NO_PART, ReservedParts
from ..compiled import borrowing
from .free_resources import FreeResources
from .struct_arrays import records

keeps_out_now = borrowing(keeps_out)


class Times(NamedTuple):
    """When nodes are closed."""

    how: IntArray
    begin_s: FloatArray
    end_s: FloatArray
    nodes: IntArray  #: which nodes: the line of ``taken``
    parts: IntArray  #: which parts of nodes it takes too: the line of ``parts``; NO_PART for none
    inside: BoolArray  #: it leaves just these parts instead
    with_gpus: BoolArray  #: these are of GPUs too


class ClosedTimes(NamedTuple):
    """The closed times of jobs of kind *i* are those from ``span[0, i]`` up to ``span[1, i]``."""

    span: IntArray
    times: Times
    taken: IntArray  #: [CPUs or GPUs, line, node]
    ends_s: FloatArray  #: when nodes open, rising
    free: FreeResources  #: scratch
    parts: IntArray  #: [line, node] the row of the part that a reservation has of each node; NO_PART for none
    most_gpus: IntArray  #: [line, node] the most of a node's GPUs that a job inside may have
    own: IntArray  #: [kind, node] likewise, of the reservation that the jobs name; without lines where there are none
    first: int  #: the first row of a part; those before are nodes
    number: IntArray  #: of the reservations that jobs of each kind name; 0 for none


class Claims(Protocol):
    """The columns of jobs that decide which reservations they belong to."""

    @property
    def user(self) -> Labels:
        """Who submitted each."""
        ...

    @property
    def account(self) -> Labels:
        """The account of each."""
        ...


class ClaimGroups(NamedTuple):
    """Jobs by what reservations keep from them."""

    of: Labels  #: the number of the group of each job, as text; its codes are these
    members: tuple[Claimant, ...]  #: one of each group


def claim_groups(table: ReservationTable, jobs: Claims, reservation: Labels | None) -> ClaimGroups | None:
    """Group *jobs*, with the reservations that they name, by what those of *table* keep from them; None for none."""
    if not len(table):
        return None
    named = Labels(np.zeros(len(jobs.user), dtype=np.int64), ("",)) if reservation is None else reservation
    outside = named.map([not text for text in named.names], np.bool_)
    code = named.codes * len(jobs.user.names) * len(jobs.account.names) + 1
    code = code + jobs.user.codes * len(jobs.account.names) + jobs.account.codes
    if not table.has(MAGNETIC).any():
        code = np.where(outside, 0, code)
    _, first, each = np.unique(code, return_index=True, return_inverse=True)
    groups: dict[tuple[object, ...], int] = {}
    members, number = list[Claimant](), list[int]()
    for row in first.tolist():
        names = tuple(name for name in named[row].split(",") if name)
        one = Claimant(jobs.user[row], jobs.account[row], names) if names or code[row] else ANYBODY
        key = (ways_kept(table, one).tobytes(), names, one.user if names else "")
        if key not in groups:
            groups[key] = len(members)
            members.append(one)
        number.append(groups[key])
    of = np.array(number, dtype=np.int64)[each.reshape(-1)]
    return ClaimGroups(Labels(of, tuple(str(at) for at in range(max(1, len(members))))), tuple(members))


def closed_to(
    table: ReservationTable,
    nodes: NodeTable,
    groups: ClaimGroups | None,
    kinds: IntArray,
    use: PartUse,
    parts: ReservedParts | None = None,
) -> ClosedTimes:
    """Return the times in which *nodes* are closed to jobs of each of *kinds*, which has the group of each.

    *use* is what jobs inside reservations of parts of nodes use of those that have no row among *parts*.
    """
    parts = ReservedParts(len(nodes)) if parts is None else parts
    bounds, found, members = [0], list[ClosedTime](), groups.members if groups is not None else ()
    for one in members:
        found.extend(closed_times(table, nodes, one, use, parts.rows.keys()))
        bounds.append(len(found))
    part_rows = np.array(list(parts.rows.values()), dtype=np.int64).reshape(len(parts.rows), len(nodes))
    place = {name: at for at, name in enumerate(parts.rows)}
    lines: dict[bytes, int] = {}
    taken, line = list[IntArray](), list[int]()
    for time in found:
        amounts = np.stack([time.cpus, time.gpus]).astype(np.int64)
        amounts[:, parts.first :] = 0  # parts are closed with their nodes
        line.append(lines.setdefault(amounts.tobytes(), len(lines)))
        if len(lines) > len(taken):
            taken.append(amounts)
    ends_s = np.unique(np.array([time.end_s for time in found] + [one.begin_s for one in found if one.how == CROSSES]))
    times = Times(
        np.array([time.how for time in found], dtype=np.int64),
        np.array([time.begin_s for time in found], dtype=np.float64),
        np.array([time.end_s for time in found], dtype=np.float64),
        np.array(line, dtype=np.int64),
        np.array([place.get(time.part, NO_PART) for time in found], dtype=np.int64),
        np.array([time.inside for time in found], dtype=np.bool_),
        np.array([time.with_gpus for time in found], dtype=np.bool_),
    )
    span, blank = np.zeros((2, len(kinds)), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
    if found:
        span[:] = np.array(bounds[:-1])[kinds], np.array(bounds[1:])[kinds]
    return ClosedTimes(
        span,
        records(times),
        np.stack(taken, axis=1) if taken else np.zeros((2, 0, len(nodes)), dtype=np.int64),
        ends_s[np.isfinite(ends_s)].copy(),
        records(FreeResources(blank, blank, np.zeros(len(nodes)))),
        part_rows,
        np.where(part_rows >= 0, nodes.gpus[part_rows], nodes.gpus),
        _own_parts(parts, members, kinds, len(nodes)),
        parts.first,
        _numbers_of_own(members, kinds),
    )


def _own_parts(parts: ReservedParts, members: Sequence[Claimant], kinds: IntArray, nodes: int) -> IntArray:
    """Return the row of the part of each node, [kind, node], that the reservation named by jobs of a kind has."""
    if not parts.rows:
        return np.zeros((0, nodes), dtype=np.int64)
    own = np.full((len(members), nodes), NO_PART, dtype=np.int64)
    for at, one in enumerate(members):
        for name in one.reservations:
            own[at] = np.maximum(own[at], parts.rows.get(name, NO_PART))
    return own[kinds]


def _numbers_of_own(members: Sequence[Claimant], kinds: IntArray) -> IntArray:
    """Return the number of the reservations that jobs of each kind name, 0 for none."""
    numbers = {text: at for at, text in enumerate(dict.fromkeys([(), *(one.reservations for one in members)]))}
    of = np.array([numbers[one.reservations] for one in members] or [0], dtype=np.int64)
    return np.asarray(of[kinds], dtype=np.int64)


@borrowing
def shut(closed: ClosedTimes, kind: int, free: FreeResources, from_s: float, until_s: float) -> bool:
    """Put into ``closed.free`` what of *free* is open to a run in [*from_s*, *until_s*); return False for all of it."""
    any_shut, times, left = False, closed.times, closed.free
    for at in range(closed.span[0, kind], closed.span[1, kind]):
        if not keeps_out_now(times.how[at], times.begin_s[at], times.end_s[at], from_s, until_s):
            continue
        line, before = times.nodes[at], left if any_shut else free
        for node in range(closed.taken.shape[2]):
            left.cpus[node] = before.cpus[node] - closed.taken[0, line, node]
            left.gpus[node] = before.gpus[node] - closed.taken[1, line, node]
            left.memory_mib[node] = before.memory_mib[node]
        if times.parts[at] >= 0:
            _leave_parts(closed, times.parts[at], times.inside[at], times.with_gpus[at])
        any_shut = True
    return any_shut


@borrowing
def _leave_parts(closed: ClosedTimes, line: int, inside: bool, with_gpus: bool) -> None:
    """Take what is free of the parts of nodes in *line* from ``closed.free``; *inside*, leave no more than that."""
    left = closed.free
    for node in range(closed.first):
        part = closed.parts[line, node]
        if part < 0:
            continue
        if inside:
            left.cpus[node] = min(left.cpus[node], left.cpus[part])
            left.gpus[node] = min(left.gpus[node], closed.most_gpus[line, node])
            continue
        left.cpus[node] -= max(0, left.cpus[part])
        if with_gpus:
            left.gpus[node] -= max(0, left.gpus[part])
