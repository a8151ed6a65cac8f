"""Separation: the guests that go on with GPUs of their own, now that some are free. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState
from ...cluster.state import View
from ...policies.deadlines.lease_schedule import can_be_stopped
from ...policies.selection.free_nodes import FreeNodes
from ...policies.sharing import expected_speeds, gains_of_pairs
from ...policies.sharing_candidates import Sharers
from ..rules import SharingRules
from .pairing import guests_and_hosts, sharers_of

MOVED = 0.1
"""The part of its time that a job may lose by moves for others: it is not moved before it ran for so long."""


def separate(view: View, nodes: FreeNodes, rules: SharingRules) -> None:
    """Start guests on GPUs that are free on nodes where nobody starts, those first that lose most where they are.

    They are those that would not join their host if all they had to wait for were the restart (``apart_s``), by the
    rule that made the pair: ``pair_gain_s``. Each saves its work. Where the free GPUs are on several nodes, smaller
    jobs go from one of them to others, if their restarts cost less than the guest loses.
    """
    cost_s = rules.apart_s
    if cost_s is None:
        return
    taken = nodes.of_started()
    others = _movable(view, nodes, taken, cost_s)
    for guest, lost_s in _worst_first(view, rules, cost_s):
        if not nodes.jobs.resources.counts.gpus.any():
            return
        most = int(lost_s / cost_s) if cost_s else len(view.running)
        if not nodes.start(guest, taken) and others.leave_room(guest, most):
            nodes.start(guest, taken)


def _worst_first(view: View, rules: SharingRules, cost_s: float) -> Iterator[tuple[int, float]]:
    """Yield the rows of the guests whose pair is a loss, and the loss beyond the restart in seconds."""
    jobs, (guests, hosts) = view.running, guests_and_hosts(view.running)
    stoppable = can_be_stopped(jobs)[guests]
    guests, hosts = guests[stoppable], hosts[stoppable]
    if not len(guests):
        return
    packing, at = rules.packing(), np.arange(len(guests))
    mine, theirs = _sharers(view, guests, rules), _sharers(view, hosts, rules)
    speeds = expected_speeds(mine, at, theirs, at, packing)
    theirs = replace(theirs, speed=_without_each(guests, hosts, speeds[1]))
    gain_s = gains_of_pairs(mine, np.full(len(guests), cost_s), at, theirs, at, speeds, packing)
    for place in np.lexsort((jobs.job_id[guests], gain_s)).tolist():
        if -np.inf < gain_s[place] < 0.0:
            yield int(guests[place]), -float(gain_s[place])


def _sharers(view: View, rows: IntArray, rules: SharingRules) -> Sharers:
    nobody = np.zeros(len(rows), dtype=np.bool_)
    return sharers_of(view.running, rows, view.remaining.median_s[rows], nobody, rules)


def _without_each(guests: IntArray, hosts: IntArray, speed: FloatArray) -> FloatArray:
    """Return the speed that each host would have without that guest: the least beside its other ones, 1 alone."""
    left = np.ones(len(guests))
    for at in range(len(guests)):
        others = (hosts == hosts[at]) & (guests != guests[at])
        left[at] = speed[others].min(initial=1.0)
    return left


def _movable(view: View, nodes: FreeNodes, taken: BoolArray, cost_s: float) -> _Movable:
    """Return the jobs alone on GPUs of one node that may go on elsewhere, where nobody starts."""
    jobs, number = view.running, {name: at for at, name in enumerate(view.nodes.name)}
    place = jobs.node_list.map([number.get(name, -1) for name in jobs.node_list.names], np.int64)
    able = can_be_stopped(jobs) & (jobs.state == JobState.RUNNING) & (place >= 0) & (jobs.gpus > 0) & ~nodes.yields
    able &= (jobs.beside == 0) & (jobs.guest_gpus == 0) & (view.now_s - jobs.started_s >= cost_s / MOVED)
    able[able] = ~taken[place[able]]
    at: dict[int, list[int]] = {}
    for row in sorted(np.flatnonzero(able).tolist(), key=lambda row: (-int(jobs.gpus[row]), int(jobs.job_id[row]))):
        at.setdefault(int(place[row]), []).append(row)
    return _Movable(jobs.gpus, nodes, taken, at)


@dataclass(frozen=True)
class _Movable:
    """Jobs that may leave their nodes for others."""

    gpus: IntArray
    nodes: FreeNodes
    taken: BoolArray
    at: dict[int, list[int]]  #: by node, the widest first

    def leave_room(self, guest: int, most: int) -> bool:
        """Move at most so many jobs, the fewest, off one node until a *guest* fits there; return whether they did.

        Each has fewer GPUs, and goes where GPUs are free.
        """
        found = [(len(rows), place, rows) for place, rows in self._ways(guest, most)]
        if not found:
            return False
        _, place, rows = min(found)
        barred = self.taken.copy()
        barred[place] = True
        for row in rows:
            self.at[place].remove(row)
            self.nodes.stop(row)
            self.nodes.yields[row] = not self.nodes.start(row, barred)
        return not self.nodes.yields[rows].any()

    def _ways(self, guest: int, most: int) -> Iterator[tuple[int, list[int]]]:
        """Yield nodes, and the jobs that would leave each and find GPUs on others."""
        room, need, allowed = self._room(), self._need(guest), self._allowed(guest)
        for place in self.at:
            leave: list[int] = []
            lacks = need - room[:, place]
            for row in self.at[place]:
                if (lacks > 0).any() and self.gpus[row] < self.gpus[guest]:
                    leave.append(row)
                    lacks = lacks - self._need(row)
            if leave and len(leave) <= most and (lacks <= 0).all() and allowed[place]:
                elsewhere = room.copy()
                elsewhere[:, place] = -1.0
                if self._fit(leave, elsewhere):
                    yield place, leave

    def _fit(self, rows: Sequence[int], room: FloatArray) -> bool:
        """Return whether each of *rows* finds a node with *room*, which is less afterwards."""
        for row in rows:
            need = self._need(row)
            fits = np.flatnonzero((room >= need[:, None]).all(axis=0) & self._allowed(row))
            if not len(fits):
                return False
            room[:, fits[np.argmin(room[0, fits])]] -= need
        return True

    def _room(self) -> FloatArray:
        """Return the GPUs, CPUs and memory that are free on each node; less than nothing where jobs start."""
        resources = self.nodes.jobs.resources
        free = np.array([resources.free.gpus, resources.free.cpus, resources.free.memory_mib], dtype=np.float64)
        return np.where(resources.up & ~self.taken, free, -1.0)

    def _need(self, row: int) -> FloatArray:
        """Return the GPUs, CPUs and memory that a job of one node needs there."""
        requests = self.nodes.jobs.requests
        return np.array([requests.gpus[row], requests.cpus[row], requests.memory_mib[row]], dtype=np.float64)

    def _allowed(self, row: int) -> BoolArray:
        allowed: BoolArray = self.nodes.places.allowed[self.nodes.jobs.requests.kind[row]]
        return allowed
