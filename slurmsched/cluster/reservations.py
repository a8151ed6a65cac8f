"""Reservations of nodes, cores and GPUs as windows of time, and which of them keep a job from a node.

The rules are those of slurmctld: a reservation keeps away every job that does not belong to it, whatever its users and
accounts; a job belongs to the reservations that it names, and to a magnetic one that it may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from .jobs import JobTable
from .nodes import NodeTable
from .text.hostlist import expanded

MAINT, OVERLAP, FLEX, MAGNETIC = "MAINT", "OVERLAP", "FLEX", "MAGNETIC"


@dataclass(frozen=True, eq=False)
class ReservationTable(Table):
    """Windows of reservations, one row each; one that repeats has a row for each of its next windows."""

    name: Labels
    start_s: FloatArray
    end_s: FloatArray
    nodes: Labels  #: host list; empty for one of licences alone
    whole: BoolArray  #: takes all cores of its nodes; else only the cores and GPUs below
    cores: IntArray  #: on all its nodes together
    gpus: IntArray  #: likewise, where it reserves a number of GPUs (23.11 and later); else 0
    gpu_types: Labels  #: of these, as a100=2+v100=2; empty where they have no type
    flags: Labels  #: a comma list in Slurm's spelling
    partition: Labels
    users: Labels  #: a comma list; with a sign before each: all but these
    groups: Labels  #: likewise, of unix groups
    accounts: Labels  #: likewise
    licences: Labels

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


def on_node(table: ReservationTable, node: str) -> BoolArray:
    """Select the windows that *node* is in."""
    return table.nodes.map([node in expanded(text) for text in table.nodes.names], np.bool_)


def keeping_out(table: ReservationTable, from_s: float, until_s: float, job: Claimant) -> BoolArray:
    """Select the windows that keep *job* from their nodes if it runs in [*from_s*, *until_s*).

    A job outside reservations may use none. One inside is kept out of others, but not where its own is for maintenance,
    or overlaps and the other one is not for maintenance; of others that take parts of nodes Slurm sees to it itself.
    """
    meets = (table.start_s < until_s) & (table.end_s > from_s) & table.nodes.said()
    named = table.name.map([name in job.reservations for name in table.name.names], np.bool_)
    if not job.reservations:
        return np.asarray(meets & ~_attracts(table, from_s, until_s, job), dtype=np.bool_)
    if not named.any():
        return np.asarray(meets, dtype=np.bool_)
    if table.has(MAINT)[named].any():
        return np.zeros(len(table), dtype=np.bool_)
    others = meets & ~named & table.whole
    if table.has(OVERLAP)[named].any():
        others &= table.has(MAINT)
    return np.asarray(others, dtype=np.bool_)


def _attracts(table: ReservationTable, from_s: float, until_s: float, job: Claimant) -> BoolArray:
    """Select the magnetic windows in which *job* may run though it does not name them.

    Where the job would not end before the window, newer releases keep it out; older ones let it in and end it then.
    """
    inside = table.has(FLEX) | ((table.start_s <= from_s) & (until_s <= table.end_s))
    may = np.array(list(_may_use(table, job)), dtype=np.bool_)
    return np.asarray(table.has(MAGNETIC) & inside & may, dtype=np.bool_)


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
