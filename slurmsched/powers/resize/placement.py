"""Pending jobs placed in their order on GPUs as these come free; jobs of several sizes on as few as they accept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.may_have import Allowances
from ...cluster.outlook.remaining import Bounds
from ...cluster.state import View
from ...cluster.ties import in_ms
from ...decide.job_nodes import gpus_by_node, node_part, nodes_by_kind
from ...decide.remaining_work import RemainingWork
from ...decide.rules import ResizingRules

SOON_S = 10.0
"""When a job starts at the earliest that does not start now."""

SOONER = 0.9
"""A job waits for GPUs, or for another number of them, where its end is then at most this share of the time away."""

TASKS = 64
"""The tasks of one array that are placed."""


@dataclass(frozen=True)
class Wait:
    """A pending job that waits for one of its nodes."""

    row: int
    gpus: int  #: the fewest on a node with which it starts
    gain_s: float  #: by how much sooner it ends if it starts so now
    nodes: BoolArray  #: empty of nodes where it needs several


@dataclass
class SizePlacement:
    """Pending jobs placed in their order, on GPUs as these come free; jobs of several sizes on as few as they may.

    A job takes the GPUs that come free first on the nodes that it may use. Which ones Slurm gives it is not known. One
    that waits keeps no GPU from others that is free now: Slurm fills these too.
    """

    view: View
    rules: ResizingRules
    able: BoolArray  #: pending jobs of several sizes
    waiting: BoolArray = field(init=False)  #: nodes that a job waits for
    starters: dict[int, list[int]] = field(init=False, default_factory=dict)  #: by node: rows that start there now
    spread: dict[int, list[int]] = field(init=False, default_factory=dict)  #: nodes of rows by nodes that start now
    later: dict[int, int] = field(init=False, default_factory=dict)  #: the size with which a waiting row ends soonest
    waits: list[Wait] = field(init=False, default_factory=list)
    order: list[int] = field(init=False, default_factory=list)  #: rows of several sizes

    def __post_init__(self) -> None:
        view, nodes = self.view, self.view.nodes
        self.waiting = np.zeros(len(nodes), dtype=np.bool_)
        waiting_s, running_s = (
            Bounds.of(forecast, jobs.time_limit_s).median_s
            for forecast, jobs in ((view.forecast, view.pending), (view.forecast_running, view.running))
        )
        self.pending = RemainingWork(view.pending, waiting_s, view.now_s, self.rules.doubling)
        self.running = RemainingWork(view.running, running_s, view.now_s, self.rules.doubling)
        self._may = Allowances(nodes, view.partitions)
        self.cpus = nodes.cpus - nodes.cpus_used
        self.memory_mib = nodes.memory_mib - nodes.memory_used_mib
        self.now = view.free_gpus.now.copy()
        #: when each GPU of each node is free, rising, if jobs of several sizes go on as they run now
        self.free_s = view.free_gpus.by_node(np.array([self.left_s(row) for row in range(len(view.running))]))
        self.each = gpus_by_node(view.pending)  #: the GPUs on a node of rows that get nodes; else 0
        self._begun = np.zeros((len(nodes), 2), dtype=np.int64)  # starters of each node, and the GPUs that they have
        with_gpus = nodes.usable & (nodes.gpus > 0)
        kinds = [nodes_by_kind(view, jobs) for jobs in (view.pending, view.running)]
        self._kinds = [(kind, allowed & with_gpus) for kind, allowed in kinds]

    def place(self, row: int) -> None:
        """Place a pending job, or the tasks of an array."""
        jobs = self.view.pending
        if self.able[row]:
            self._place_sized(row)
            return
        gpus, many = int(jobs.gpus[row]), max(int(jobs.nodes[row]), 1)
        allowed = self.allowed(jobs, row)
        most = int(self.view.nodes.gpus[allowed].max(initial=0))
        if gpus <= 0 or not most:
            return
        many = max(many, -(-gpus // most))
        each, runtime_s = -(-gpus // many), self.pending.runtime_s[row]
        for _ in range(min(int(jobs.tasks[row]), TASKS)):
            start_s, nodes = self._earliest(row, each, allowed, many)
            if not np.isfinite(start_s):
                return
            self._take(row, nodes, each, start_s, start_s + float(runtime_s))
            if start_s > 0:
                self._wait(row, each, start_s, allowed, many)
                return

    def _place_sized(self, row: int) -> None:
        jobs, sizes = self.view.pending, self.sizes(row)
        if not len(sizes):
            return
        self.order.append(row)
        allowed = self.allowed(jobs, row)
        step_s, left = self.pending.step_s(row, int(sizes[-1])), self.pending.left(row)
        shapes = [(gpus // self.each[row], self.each[row]) if self.each[row] else (1, gpus) for gpus in sizes.tolist()]
        starts = [self._earliest(row, gpus, allowed, many)[0] for many, gpus in shapes]
        ends_s = np.array(starts) + step_s[sizes] * left
        now_s = np.where(np.array(starts) <= 0, ends_s, np.inf)
        best, least = int(np.argmin(in_ms(ends_s))), int(sizes[0])
        if in_ms(ends_s[best]) >= in_ms(SOONER * now_s.min()):
            if self.each[row]:
                nodes = self.spread[row] = self._earliest(row, shapes[0][1], allowed, shapes[0][0])[1]
            else:
                nodes = [self._roomiest(row, least, int(sizes[-1]), allowed)]
                self.starters.setdefault(nodes[0], []).append(row)
                self._begun[nodes[0]] += (1, least)
            self._take(row, nodes, shapes[0][1], 0.0, float(step_s[least] * left))
            return
        present = np.flatnonzero(sizes == jobs.gpus[row])
        if len(present) and ends_s[best] > SOONER * ends_s[present[0]]:
            best = int(present[0])
        self.later[row] = int(sizes[best])
        nodes = self._earliest(row, shapes[best][1], allowed, shapes[best][0])[1]
        self._take(row, nodes, shapes[best][1], starts[best], float(ends_s[best]))
        gain_s = float(ends_s[best] - step_s[least] * left)
        self._wait(row, shapes[0][1], gain_s, allowed, shapes[0][0])

    def _wait(self, row: int, gpus: int, gain_s: float, allowed: BoolArray, many: int) -> None:
        nodes = allowed & (self.view.nodes.gpus >= gpus)
        self.waiting |= nodes
        self.waits.append(Wait(row, gpus, gain_s, nodes & (many == 1) & self._fits(row, 1)))

    def sizes(self, row: int) -> IntArray:
        """Return the numbers of GPUs on which a pending job of several sizes may run here, rising."""
        jobs, each = self.view.pending, int(self.each[row])
        there = self.view.nodes.gpus[self.allowed(jobs, row)]
        least, most = int(jobs.least_gpus[row]), int(jobs.most_gpus[row])
        if each:
            return np.arange(max(-(-least // each), 1), min(most // each, int((there >= each).sum())) + 1) * each
        return np.arange(least, min(most, int(there.max(initial=0))) + 1)

    def allowed(self, jobs: JobTable, row: int) -> BoolArray:
        """Select the usable nodes on which a job may run, with what it asks for of each."""
        kind, nodes = self._kinds[jobs is self.view.running]
        may = self._may.holding(jobs.partition[row], node_part(jobs, row)).any(axis=0)
        return np.asarray(nodes[kind[row]] & may, dtype=np.bool_)

    def fits(self, cpus: float, memory_mib: float) -> BoolArray:
        """Select the nodes with so much left."""
        return np.asarray((self.cpus >= cpus) & (self.memory_mib >= memory_mib))

    def _earliest(self, row: int, gpus: int, allowed: BoolArray, many: int) -> tuple[float, list[int]]:
        """Return when *many* nodes have so many GPUs free each for a pending job, and which; infinite for never."""
        if gpus > self.free_s.shape[1]:
            return np.inf, []
        later_s = np.maximum(self.free_s[:, gpus - 1], SOON_S)
        start_s = np.where((self.now >= gpus) & self._fits(row, many), 0.0, later_s)
        start_s = np.where(allowed, start_s, np.inf)
        if many > len(start_s):
            return np.inf, []
        nodes = np.lexsort((self.now, in_ms(start_s)))[:many]  # the tightest of those that are free first
        return float(start_s[nodes].max()), nodes.tolist()

    def _fits(self, row: int, many: int) -> BoolArray:
        jobs, many = self.view.pending, self._parts(row, many)
        return self.fits(jobs.cpus[row] / many, np.nan_to_num(jobs.memory_mib[row]) / many)

    def _parts(self, row: int, many: int) -> int:
        """Return the nodes among which the CPUs and the memory of a job are divided that is to run on *many*.

        One that gets nodes with its GPUs gets CPUs and memory with them too.
        """
        return int(self.view.pending.nodes[row]) if self.each[row] else many

    def _roomiest(self, row: int, least: int, most: int, allowed: BoolArray) -> int:
        """Return the node with the fewest GPUs of those with *most* for it, else the one with most for it.

        The jobs of several sizes that start on a node share what is free there.
        """
        fits = allowed & self._fits(row, 1) & (self.now >= least)
        room = (self.now + self._begun[:, 1]) / (self._begun[:, 0] + 1)
        whole = fits & (room >= most)
        if whole.any():
            return int(np.argmin(np.where(whole, room, np.inf)))
        return int(np.argmax(np.where(fits, room, -1.0)))

    def _take(self, row: int, nodes: list[int], gpus: int, start_s: float, end_s: float) -> None:
        jobs = self.view.pending
        for node in nodes:
            self.free_s[node, :gpus] = end_s
            self.free_s[node].sort()
            if start_s <= 0:
                self.now[node] -= gpus
                self.cpus[node] -= -(-int(jobs.cpus[row]) // self._parts(row, len(nodes)))
                self.memory_mib[node] -= np.nan_to_num(jobs.memory_mib[row]) / self._parts(row, len(nodes))

    def left_s(self, row: int) -> float:
        """Return the seconds that a running job goes on for on its GPUs."""
        jobs = self.view.running
        gpus = max(int(jobs.gpus[row]), 1)
        ends_s = self.running.step_s(row, max(gpus, int(jobs.own_gpus[row])))[gpus] * self.running.left(row)
        return float(min(max(ends_s, 1.0), jobs.time_limit_s[row]))
