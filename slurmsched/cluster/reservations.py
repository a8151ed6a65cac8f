"""Reservations of nodes, cores and GPUs as windows of time, and which of them keep a job from a node.

The rules are those of slurmctld: a reservation keeps away every job that does not belong to it, whatever its users and
accounts; a job belongs to the reservations that it names, and to a magnetic one that it may use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, fill_unread, from_slurm, table_of
from .jobs import JobTable
from .nodes import NodeTable, by_type
from .outlook.free_gpus import HeldGpus
from .text.hostlist import expanded

MAINT, OVERLAP, FLEX, MAGNETIC, ANY_NODES = "MAINT", "OVERLAP", "FLEX", "MAGNETIC", "ANY_NODES"

UNREAD = "UNREAD"
"""The flag, of ours, of a row without nodes that stands for a reservation, or times of one, that could not be read."""

FREE, OVERLAPS, CROSSES, STARTS = 0, 1, 2, 3
"""What a closed time keeps out: nothing, runs that meet it, those of them that are not inside, and starts in it."""


@dataclass(frozen=True, eq=False)
class ReservationTable(Table):
    """Windows of reservations, one row each; one that repeats has a row for each of its next windows."""

    name: Labels = from_slurm()
    start_s: FloatArray = from_slurm()
    end_s: FloatArray = from_slurm()
    nodes: Labels = from_slurm()  #: host list; empty for one of licences alone
    whole: BoolArray = from_slurm()  #: takes all CPUs of its nodes; else only the CPUs and GPUs below
    cores: IntArray = from_slurm()  #: the CPUs of them, on all its nodes together
    gpus: IntArray = from_slurm()  #: likewise, where it reserves a number of GPUs (23.11 and later); else 0
    gpu_types: Labels = from_slurm()  #: of these, as a100=2+v100=2; empty where they have no type
    flags: Labels = from_slurm()  #: a comma list in Slurm's spelling
    partition: Labels = from_slurm()
    users: Labels = from_slurm()  #: a comma list; with a sign before each: all but these
    groups: Labels = from_slurm()  #: likewise, of unix groups
    accounts: Labels = from_slurm()  #: likewise
    licences: Labels = from_slurm()
    node_cpus: Labels = from_slurm(given=False)  #: CPUs of each node, as n1=2+n2=4, where Slurm says it; else empty

    def __post_init__(self) -> None:
        fill_unread(self)
        super().__post_init__()

    def has(self, flag: str) -> BoolArray:
        """Select the windows with a flag, such as MAINT; a flag with a value (PURGE_COMP=00:05:00) has its name."""
        found = [flag in [one.partition("=")[0] for one in text.split(",")] for text in self.flags.names]
        return self.flags.map(found, np.bool_)


NO_RESERVATIONS = table_of(ReservationTable, 0, {}, {})


@dataclass(frozen=True)
class Claimant:
    """What decides whether a job belongs to a reservation."""

    user: str
    account: str
    reservations: tuple[str, ...] = ()  #: that it names


@dataclass(frozen=True)
class Window:
    """A time in which a node is kept from a job."""

    name: str
    start_s: float
    end_s: float
    whole: bool  #: False: only a part of the node's cores and GPUs
    maintenance: bool


ANYBODY = Claimant("", "")
"""A job outside all reservations, of somebody to whom none is open."""


def claimant_of(jobs: JobTable, row: int) -> Claimant:
    """Return what decides about the reservations of a job."""
    named = tuple(name for name in jobs.reservation[row].split(",") if name)
    return Claimant(jobs.user[row], jobs.account[row], named)


def keeps_out(how: Any, begin_s: Any, end_s: Any, from_s: Any, until_s: Any) -> Any:
    """Report whether a time that is closed from *begin_s* to *end_s* keeps out a run in [*from_s*, *until_s*).

    This is the one rule: of numbers, of arrays, and in compiled loops.
    """
    crosses = (how == CROSSES) & ((from_s < begin_s) | (until_s > end_s))
    starts = (how == STARTS) & (begin_s <= from_s)
    return (begin_s < until_s) & (from_s < end_s) & ((how == OVERLAPS) | crosses | starts)


def windows_of(table: ReservationTable, node: str, from_s: float, until_s: float, job: Claimant) -> tuple[Window, ...]:
    """Return the windows that keep *node* from *job* in [*from_s*, *until_s*), the first one first."""
    rows = np.flatnonzero(keeping_out(table, from_s, until_s, job) & on_node(table, node))
    maintenance = table.has(MAINT)
    order = rows[np.lexsort((rows, table.start_s[rows]))].tolist()
    return tuple(
        Window(
            table.name[row],
            float(table.start_s[row]),
            float(table.end_s[row]),
            bool(table.whole[row]),
            bool(maintenance[row]),
        )
        for row in order
    )


def kept_nodes(
    table: ReservationTable, nodes: NodeTable, from_s: float, until_s: float, job: Claimant, *, exclusive: bool = False
) -> BoolArray:
    """Select the *nodes* of which *job* can have nothing in [*from_s*, *until_s*).

    An *exclusive* job, which shares no node, can have none of which a part is reserved.
    """
    kept = keeping_out(table, from_s, until_s, job) & (table.whole | exclusive)
    names = {name for text in _texts(table.nodes, kept) for name in expanded(text)}
    return nodes.name.map([name in names for name in nodes.name.names], np.bool_)


def kept_until_s(table: ReservationTable, nodes: NodeTable, now_s: float) -> FloatArray:
    """Return until when all of each of *nodes* is kept from jobs outside reservations at *now_s*; else -inf."""
    until_s = np.full(len(nodes), -np.inf)
    kept_now = keeping_out(table, now_s, now_s + 1.0, ANYBODY) & table.whole & (table.start_s <= now_s)
    for row in np.flatnonzero(kept_now).tolist():
        kept = nodes_in(table, row, nodes)
        until_s[kept] = np.maximum(until_s[kept], table.end_s[row])
    return until_s


def nodes_in(table: ReservationTable, row: int, nodes: NodeTable) -> BoolArray:
    """Select the *nodes* that the window in *row* is on."""
    names = set(expanded(table.nodes[row]))
    return nodes.name.map([name in names for name in nodes.name.names], np.bool_)


def in_the_way(table: ReservationTable, row: int, nodes: NodeTable, jobs: JobTable) -> BoolArray:
    """Select *jobs* with nodes of their partitions in the window in *row*, which is not their own reservation.

    One that could not be read is on all nodes.
    """
    here = nodes_in(table, row, nodes) | bool(table.has(UNREAD)[row])
    codes = np.unique(nodes.partitions.codes[here]).tolist()
    touched = set().union(*(nodes.partitions.names[code].split(",") for code in codes))
    there = jobs.partition.map([bool(touched & set(text.split(","))) for text in jobs.partition.names], np.bool_)
    own = jobs.reservation.map([table.name[row] in text.split(",") for text in jobs.reservation.names], np.bool_)
    return np.asarray(there & ~own)


def on_node(table: ReservationTable, node: str) -> BoolArray:
    """Select the windows that *node* is in."""
    return table.nodes.map([node in expanded(text) for text in table.nodes.names], np.bool_)


def keeping_out(table: ReservationTable, from_s: float, until_s: float, job: Claimant) -> BoolArray:
    """Select the windows that keep *job* from their nodes if it runs in [*from_s*, *until_s*)."""
    kept = keeps_out(ways_kept(table, job), table.start_s, table.end_s, from_s, until_s)
    return np.asarray(kept, dtype=np.bool_)


def ways_kept(table: ReservationTable, job: Claimant) -> IntArray:
    """Return how each window keeps *job* from its nodes: FREE, OVERLAPS or CROSSES.

    A job outside reservations may use none but a magnetic one that it may use. Where it would not end before that ends,
    newer releases keep it out; older ones let it in and end it then. A job inside is kept out of others, but not where
    its own is for maintenance, or overlaps and the other one is not for maintenance; of others that take parts of nodes
    Slurm sees to it itself.
    """
    how = np.where(table.nodes.nonempty(), OVERLAPS, FREE)
    named = _named(table, job)
    if not job.reservations:
        attracts = table.has(MAGNETIC)
        if attracts.any():
            attracts &= np.array(list(_may_use(table, job)), dtype=np.bool_) & (how != FREE)
            how[attracts] = np.where(table.has(FLEX)[attracts], FREE, CROSSES)
    elif table.has(MAINT)[named].any():
        how[:] = FREE
    elif named.any():
        how[named | ~table.whole] = FREE
        if table.has(OVERLAP)[named].any():
            how[~table.has(MAINT)] = FREE
    return how


class ClosedTime(NamedTuple):
    """A time in which nodes, or parts of them, are closed to a job."""

    how: int
    begin_s: float
    end_s: float
    cpus: IntArray  #: of each node that it takes; of a whole one ALL_OF_IT
    gpus: IntArray  #: likewise
    part: str = ""  #: the reservation whose parts of nodes, as far as they are free, it takes beside that
    inside: bool = False  #: it leaves just those parts instead
    with_gpus: bool = False  #: the parts are of GPUs too


ALL_OF_IT = 1 << 40
"""More CPUs and GPUs than a node has."""

PartUse = Mapping[str, tuple[IntArray, IntArray]]
"""CPUs and GPUs of each node that jobs inside a reservation of parts of nodes use now, by its name."""


def part_of_node(table: ReservationTable, row: int, nodes: NodeTable) -> tuple[IntArray, IntArray]:
    """Return the CPUs and GPUs that the window in *row* has of each of *nodes*: as Slurm says it, else evenly."""
    here, many = nodes_in(table, row, nodes), max(1, len(expanded(table.nodes[row])))
    cpus = -(-int(table.cores[row]) // many) * here
    if said := by_type(table.node_cpus[row]):
        cpus = nodes.name.map([said.get(name, 0) for name in nodes.name.names], np.int64)
    cpus = np.where(table.whole[row], nodes.cpus * here, np.minimum(cpus, nodes.cpus))
    gpus = np.full(len(nodes), -(-int(table.gpus[row]) // many))
    if types := by_type(table.gpu_types[row]):
        gpus = nodes.gpu_type.map([-(-types.get(name, 0) // many) for name in nodes.gpu_type.names], np.int64)
    return np.asarray(cpus, dtype=np.int64), np.asarray(np.minimum(gpus, nodes.gpus) * here, dtype=np.int64)


def part_use(table: ReservationTable, running: JobTable, held: HeldGpus, nodes: NodeTable) -> PartUse:
    """Return what *running* jobs use of the reservations of parts of *nodes* that they name; *held* is by job."""
    parts = set(table.name.take(np.flatnonzero(~table.whole))) & set(running.reservation.names) - {""}
    found = {name: (np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)) for name in parts}
    each = -(-running.cpus // np.maximum(np.bincount(held.job, minlength=len(running)), 1))
    for job, node, gpus in zip(*(column.tolist() for column in held), strict=True) if parts else ():
        if running.reservation[job] in found:
            cpus_used, gpus_used = found[running.reservation[job]]
            cpus_used[node] += each[job]
            gpus_used[node] += gpus
    return found


def closed_times(
    table: ReservationTable, nodes: NodeTable, job: Claimant, use: PartUse, parts: Collection[str] = ()
) -> Iterator[ClosedTime]:
    """Yield the times in which reservations keep *job* from *nodes*, and those in which its own is not open.

    What jobs inside a reservation *use* of it is no longer free. Those of *parts* have rows for that, which change with
    what runs (``reserved_parts``).
    """
    how, none = ways_kept(table, job), np.zeros(len(nodes), dtype=np.int64)
    for row in np.flatnonzero(how != FREE).tolist():
        name, times = table.name[row], (int(how[row]), float(table.start_s[row]), float(table.end_s[row]))
        if table.whole[row]:
            yield _closed(*times, nodes_in(table, row, nodes))
            continue
        if name in parts:
            yield ClosedTime(*times, none, none, part=name, with_gpus=bool(table.gpus[row]))
            continue
        (cpus, gpus), (cpus_used, gpus_used) = part_of_node(table, row, nodes), use.get(name, (none, none))
        yield ClosedTime(*times, np.maximum(cpus - cpus_used, 0), np.maximum(gpus - gpus_used, 0))
    if job.reservations:
        yield from _outside_own(table, nodes, job)
        for row in np.flatnonzero(_named(table, job)).tolist():
            if table.name[row] in parts:
                times = STARTS, float(table.start_s[row]), float(table.end_s[row])
                with_gpus = bool(table.gpus[row])
                yield ClosedTime(*times, none, none, part=table.name[row], inside=True, with_gpus=with_gpus)


def _closed(how: int, begin_s: float, end_s: float, nodes: BoolArray) -> ClosedTime:
    """Return the time in which all of *nodes* is closed."""
    return ClosedTime(how, begin_s, end_s, nodes * ALL_OF_IT, nodes * ALL_OF_IT)


def _outside_own(table: ReservationTable, nodes: NodeTable, job: Claimant) -> Iterator[ClosedTime]:
    """Yield the times in which a job that names a reservation may not start, and the nodes that this does not have."""
    own = np.flatnonzero(_named(table, job))
    if not len(own) or not all(_admitted(table, row, job) for row in own.tolist()):
        yield _closed(OVERLAPS, -np.inf, np.inf, np.ones(len(nodes), dtype=np.bool_))
        return
    if table.has(FLEX)[own].any():
        return  # it is bound to neither the nodes nor the time
    inside = np.array([nodes_in(table, row, nodes) for row in own.tolist()])
    inside |= table.has(ANY_NODES)[own].any()
    kinds, of = np.unique(inside, axis=1, return_inverse=True)
    for number, rows in enumerate(kinds.T):
        yield from _outside_windows(table, own[rows], of.reshape(-1) == number)


def _outside_windows(table: ReservationTable, rows: IntArray, here: BoolArray) -> Iterator[ClosedTime]:
    """Yield the times in which no job may start on the nodes *here*, which just the windows in *rows* open."""
    if not len(rows):
        yield _closed(OVERLAPS, -np.inf, np.inf, here)
        return
    closed_s = -np.inf
    for row in rows[np.argsort(table.start_s[rows], kind="stable")].tolist():
        if table.start_s[row] > closed_s:
            yield _closed(STARTS, closed_s, float(table.start_s[row]), here)
        closed_s = max(closed_s, float(table.end_s[row]))
    yield _closed(STARTS, closed_s, np.inf, here)


def followed(table: ReservationTable, jobs: JobTable) -> BoolArray:
    """Select the *jobs* of which it is known when and where reservations let them run.

    Not so of one that names one that is not there, or of parts of nodes that are not said. Of several it uses the first
    that has room, which is followed for a job on one node, and without flags that open other nodes or times.
    """
    known = _known_names(table, table.has(UNREAD) | unclear_parts(table))
    plain = _known_names(table, table.has(UNREAD) | ~table.whole | _opens_more(table))
    texts = jobs.reservation.names
    one = jobs.reservation.map([not text or text in known for text in texts], np.bool_)
    several = jobs.reservation.map(["," in text and plain.issuperset(text.split(",")) for text in texts], np.bool_)
    return np.asarray(one | (several & (jobs.nodes == 1)))


def unclear_parts(table: ReservationTable) -> BoolArray:
    """Select the windows of parts of nodes of which Slurm does not show how much of each node they take.

    It is all that they take of one node; of several 22.05 shows the sum.
    """
    several = table.nodes.map([len(expanded(text)) > 1 for text in table.nodes.names], np.bool_)
    unsaid = (several & ~table.node_cpus.nonempty()) | table.has(ANY_NODES)
    return np.asarray(~table.whole & ~table.has(FLEX) & unsaid, dtype=np.bool_)


def _known_names(table: ReservationTable, but: BoolArray) -> set[str]:
    return set(table.name) - set(table.name.take(np.flatnonzero(but)))


def _opens_more(table: ReservationTable) -> BoolArray:
    """Select the windows with a flag that lets their jobs be elsewhere, or at other times."""
    return np.asarray(np.logical_or.reduce([table.has(flag) for flag in (MAINT, OVERLAP, FLEX, ANY_NODES)]))


def doubts_of(table: ReservationTable, text: str, job: Claimant, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is not known of the reservations *text* that a new *job* names; *parents* are those of accounts."""
    found = []
    for name in filter(None, text.split(",")):
        rows = np.flatnonzero(table.name.map([one == name for one in table.name.names], np.bool_)).tolist()
        if not rows or table.has(UNREAD)[rows].any():
            found.append(f"--reservation={name} (it is not shown)")
        elif unclear_parts(table)[rows].any():
            found.append(f"--reservation={name} (how much it has of each node is not shown)")
        elif not all(_surely_admitted(table, row, job, parents) for row in rows):
            found.append(f"--reservation={name} (whether the user may use it)")
    return tuple(found)


def _surely_admitted(table: ReservationTable, row: int, job: Claimant, parents: Mapping[str, str]) -> bool:
    """Report whether a reservation is plainly for a job: by its user or by its account, where it names no others."""
    users, accounts = table.users[row], table.accounts[row]
    if table.groups[row] or "-" in (users[:1], accounts[:1]) or (users and accounts):
        return False
    line, account = {job.account}, job.account
    while (account := parents.get(account, "")) and account not in line:
        line.add(account)
    return job.user in users.split(",") or not line.isdisjoint(filter(None, accounts.split(",")))


def own_bounds_s(table: ReservationTable, jobs: JobTable, now_s: float) -> tuple[FloatArray, FloatArray]:
    """Return when the reservation that each of *jobs* names is open next, from *now_s* on; -inf and inf for none.

    Of several the first begin and the last end count. Slurm ends a job with its reservation, but not where that has
    the flag FLEX.
    """
    begin_s, end_s = np.full(len(jobs), -np.inf), np.full(len(jobs), np.inf)
    for code in np.unique(jobs.reservation.codes).tolist():
        begins_s, ends_s, mine = [], [], jobs.reservation.codes == code
        for name in filter(None, jobs.reservation.names[code].split(",")):
            own = np.flatnonzero(_named(table, Claimant("", "", (name,))) & (table.end_s > now_s))
            if len(own) and not table.has(FLEX)[own].any():
                first = int(own[np.argmin(table.start_s[own])])
                begins_s.append(max(now_s, float(table.start_s[first])))
                ends_s.append(float(table.end_s[first]))
        if begins_s:
            begin_s[mine], end_s[mine] = min(begins_s), max(ends_s)
    return begin_s, end_s


def _named(table: ReservationTable, job: Claimant) -> BoolArray:
    return table.name.map([name in job.reservations for name in table.name.names], np.bool_)


def _admitted(table: ReservationTable, row: int, job: Claimant) -> bool:
    """Report whether a job may use the reservation that it names; Slurm took it, so an account above its own may."""
    return bool(table.groups[row]) or _listed(table.users[row], job.user)


def _may_use(table: ReservationTable, job: Claimant) -> Iterator[bool]:
    """Yield whether *job* may use each window; False where only groups, or an account above its own, could tell."""
    for users, groups, accounts in zip(table.users, table.groups, table.accounts, strict=True):
        yield not groups and _listed(users, job.user) and _listed(accounts, job.account)


def _listed(text: str, name: str) -> bool:
    """Report whether a list admits *name*: it is in it, or not in a list of exceptions (``-a,-b``)."""
    names = [one for one in text.split(",") if one]
    if any(one.startswith("-") for one in names):
        return f"-{name}" not in names
    return not names or name in names


def _texts(column: Labels, rows: BoolArray) -> list[str]:
    return [column.names[code] for code in np.unique(column.codes[rows]).tolist()]
