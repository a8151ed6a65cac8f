"""GPU availability over time, as rows of room in which jobs with deadlines are counted."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.may_have import Allowances
from ...cluster.reservations import ANYBODY, keeping_out, nodes_in
from ...cluster.state import View
from ...cluster.text.hostlist import expanded
from ...policies.deadlines.lease_schedule import can_be_stopped
from ...policies.deadlines.remaining_work import remaining_work
from ...policies.deadlines.reservations import DeadlineRequests, Room
from ...policies.deadlines.stop_costs import RestartTerms, resume_costs_s
from ..job_nodes import node_part
from .iteration_runtime import earlier_s, paced, ran_s

MOMENTS = 256
"""Maximum number of distinct ends of running jobs; further neighbouring ends are merged."""

_Kind = tuple[int, int, int]  # codes of a job's partitions and GPU type, and the number of the nodes that may hold it
_Shape = tuple[_Kind, int, float]  # with its GPUs on each node, and how long before a window it may not start


class _Row(NamedTuple):
    """A row of room: nodes, in blocks of some GPUs, of which windows begin earlier by so many seconds."""

    nodes: BoolArray
    block: int
    early_s: float


class Footprints(NamedTuple):
    """The rows of room that pending jobs touch, by the shape of each."""

    of_row: IntArray  #: the shape of each job
    own: BoolArray  #: shape x row of room: rows in which they may run, with blocks no larger than their own
    larger: IntArray  #: shape x row of room: GPUs of a block in rows with larger ones, else 0
    single: IntArray  #: the row of the same nodes in single GPUs, of each row of room


class GpuAvailability:
    """Rows of room for a view: a row is a set of nodes, in blocks of some number of GPUs.

    ``open`` makes rows for jobs that request promises; other jobs are then counted in the same rows. Jobs are numbered
    pending ones first, then running ones. *stops_s* is the time by which each running job can make room before its end,
    minus infinity for one that requests its GPUs anew; *stoppable* selects the jobs that can be stopped once they run.
    Resuming one costs *restart_s*, and its start takes *startup_s*. ``work`` is what they still need, by forecasts.
    A running job that requests its GPUs anew, but would end after its time in *ends_by_s*, keeps those that it has.

    Slurm starts a job only where its whole time limit ends before a reservation begins, though it needs less: so it
    counts in a row of its own too, in which windows begin earlier by the difference.
    """

    def __init__(
        self,
        view: View,
        margin: float,
        lead_s: float,
        stops_s: FloatArray | None = None,
        stoppable: BoolArray | None = None,
        restart_s: float | FloatArray = 0.0,
        startup_s: float = 0.0,
        ends_by_s: FloatArray | None = None,
    ) -> None:
        self._view, self.soonest_s = view, view.now_s + max(lead_s, 1.0)
        self._jobs = view.pending.followed_by(view.running)
        self.stoppable = np.zeros(len(self._jobs), dtype=np.bool_) if stoppable is None else stoppable
        #: none: where Slurm starts jobs, each turn that jobs take costs them minutes, so that each has one reservation
        self.in_leases = np.zeros(len(self._jobs), dtype=np.bool_)
        past_s = np.concatenate([np.zeros(len(view.pending)), ran_s(view)])
        unpaced = view.forecast.joined(view.forecast_running)
        forecast = paced(unpaced, self._jobs, past_s)
        costs_s = np.broadcast_to(restart_s, len(self._jobs))
        earlier = self._jobs.changed(ran_s=earlier_s(self._jobs, past_s) + past_s)
        self.work = remaining_work(earlier, forecast, view.now_s, costs_s)
        self.needs_s = self.work.within_s(margin)
        #: the time that counts against quotas: a pace is its owner's own word
        self.charged_s = self.needs_s
        if forecast is not unpaced:
            by_forecast = remaining_work(self._jobs, unpaced, view.now_s, costs_s)
            self.charged_s = np.maximum(self.needs_s, by_forecast.within_s(margin))
        #: a job that was stopped may start at any time, and then has to wait for Slurm
        self.startup_s = np.where(self.stoppable & (np.arange(len(self._jobs)) < len(view.pending)), startup_s, 0.0)
        self.ends_s = view.now_s + self.needs_s[len(view.pending) :] + view.running.halts_high_s
        self._nodes: dict[_Kind, BoolArray] = {}
        self._widest: dict[_Kind, int] = {}  #: GPUs of the widest of these nodes
        self._may = Allowances(view.nodes, view.partitions)
        self._masks: list[BoolArray] = []  #: the nodes of which some jobs may have their parts
        self._mask_of: dict[bytes, int] = {}  #: their numbers, by what such jobs ask for
        self._rows: list[_Row] = []
        self._counts: dict[_Shape, list[bool]] = {}
        if stops_s is not None and ends_by_s is not None:
            stops_s = np.where(np.isneginf(stops_s) & (self.ends_s > ends_by_s), np.inf, stops_s)
        #: running jobs that request their GPUs anew
        self.moved = np.zeros(len(view.running), dtype=np.bool_) if stops_s is None else np.isneginf(stops_s)
        self._begins_s, self._free = self._over_time(self.ends_s, stops_s)

    def request_within(self, rows: IntArray, share: float) -> None:
        """Let pending *rows* request the time in which a larger *share* of such jobs end; quotas stay as they are."""
        self.needs_s = self.needs_s.copy()
        self.needs_s[rows] = np.maximum(self.needs_s, self.work.within_s(share))[rows]

    def open(self, rows: IntArray) -> Room:
        """Return room with a row for each set of nodes and block size that the jobs in *rows* request."""
        kinds = {}
        for kind, block, early_s in dict.fromkeys(self._shapes(rows)):
            if block:
                nodes = self._nodes[kind]
                kinds[(nodes.tobytes(), 1, 0.0)] = _Row(nodes, 1, 0.0)
                kinds[(nodes.tobytes(), block, 0.0)] = _Row(nodes, block, 0.0)
                kinds[(nodes.tobytes(), block, early_s)] = _Row(nodes, block, early_s)
        self._rows = list(kinds.values())
        self._counts = {}
        return self._room(self._begins_s, self._free)

    def freed(self, stops_s: FloatArray) -> Room:
        """Return the room of the same rows if running jobs end at *stops_s* or at a future planned end, if sooner."""
        ends_s = np.where(self.ends_s > self._view.now_s, self.ends_s, np.inf)
        return self._room(*self._over_time(ends_s, stops_s))

    def holding(self, rows: IntArray) -> BoolArray:
        """Select running jobs with GPUs on nodes that one of the pending *rows* may run on."""
        nodes = np.zeros(len(self._view.nodes), dtype=np.bool_)
        for kind in {kind for kind, *_ in self._shapes(rows)}:
            nodes |= self._nodes[kind]
        names = {name for name, mine in zip(self._view.nodes.name, nodes.tolist(), strict=True) if mine}
        hosts = self._view.running.node_list
        inside = [not names.isdisjoint(expanded(text)) for text in hosts.names]
        return hosts.map(inside, np.bool_) & (self._view.running.gpus > 0)

    def requests(self, rows: IntArray, due_s: FloatArray, since_s: float) -> DeadlineRequests:
        """Return the requests of jobs in *rows*; each counts in the rows of room that hold all nodes it may run on."""
        shapes = self._shapes(rows)
        wanted, block = self._jobs.gpus[rows], np.array([block for _, block, _ in shapes], dtype=np.int64)
        return DeadlineRequests(
            gpus=np.maximum(block, -(-wanted // np.maximum(block, 1)) * block),
            needs_s=self.needs_s[rows] + self.startup_s[rows],
            since_s=np.full(len(rows), since_s),
            due_s=due_s,
            rows=np.array([self._held(shape) for shape in shapes], dtype=np.bool_).reshape(len(rows), len(self._rows)),
            stoppable=self.in_leases[rows],
            job_id=self._jobs.job_id[rows],
            runs=rows >= len(self._view.pending),
            resume_s=self.work.resume_s[rows],
        )

    def wide(self, requests: DeadlineRequests) -> BoolArray:
        """Select requests for several GPUs on one node."""
        blocks = np.array([row.block for row in self._rows], dtype=np.int64)
        return np.asarray((requests.rows & (blocks > 1)).any(axis=1))

    def gpus(self, row: int) -> int:
        """Return the GPUs that a pending row takes, in whole blocks."""
        return int(self.requests(np.array([row]), np.array([np.inf]), 0.0).gpus[0])

    def confined(self, rows: IntArray) -> BoolArray:
        """Select the *rows* that may not run on all nodes with GPUs that are up."""
        nodes = self._view.nodes
        every = nodes.usable & (nodes.gpus > 0)
        return np.array([(every & ~self._nodes[kind]).any() for kind, *_ in self._shapes(rows)], dtype=np.bool_)

    def footprints(self, rows: IntArray) -> Footprints:
        """Return the rows of room that each of the pending *rows* touches."""
        shapes = [(kind, block) for kind, block, _ in self._shapes(rows)]
        places = {shape: place for place, shape in enumerate(dict.fromkeys(shapes))}
        alone = {
            row.nodes.tobytes(): place for place, row in enumerate(self._rows) if row.block == 1 and not row.early_s
        }
        size_of = np.array([row.block for row in self._rows], dtype=np.int64)
        own = np.zeros((len(places), len(self._rows)), dtype=np.bool_)
        larger = np.zeros(own.shape, dtype=np.int64)
        for place, (kind, block) in enumerate(places):
            meets = [not row.early_s and bool((self._nodes[kind] & row.nodes).any()) for row in self._rows]
            met = np.array(meets, dtype=np.bool_)
            own[place] = met & (size_of <= block)
            larger[place] = np.where(met & (size_of > block), size_of, 0)
        single = np.array([alone[row.nodes.tobytes()] for row in self._rows], dtype=np.int64)
        return Footprints(np.array([places[shape] for shape in shapes], dtype=np.int64), own, larger, single)

    def most(self, row: int) -> int:
        """Return the most GPUs that a job like this pending row can have on the nodes that are up."""
        ((kind, block, _),) = self._shapes(np.array([row]))
        return int((self._view.nodes.gpus[self._nodes[kind]] // block * block).sum()) if block else 0

    def _held(self, shape: _Shape) -> list[bool]:
        """Return one flag per row of room: its nodes hold all nodes of *shape*, in blocks no larger than its own.

        Of the rows in which windows begin earlier, it counts in its own alone.
        """
        if shape not in self._counts:
            nodes, (_, block, early_s) = self._nodes[shape[0]], shape
            self._counts[shape] = [
                block >= row.block and row.early_s in (0.0, early_s) and not (nodes & ~row.nodes).any()
                for row in self._rows
            ]
        return self._counts[shape]

    def _shapes(self, rows: IntArray) -> list[_Shape]:
        """Return the kind of nodes that each of *rows* may run on, and its GPUs on each of them (0 without nodes)."""
        jobs = self._jobs
        columns = (
            *(jobs.partition.codes, jobs.gpu_type.codes),
            *(jobs.gpus, jobs.nodes, self._early_s),
        )
        values, holding = (column[rows].tolist() for column in columns), self._holding(rows)
        shapes: list[_Shape] = []
        for mask, partitions, gpu_type, gpus, count, early_s in zip(holding, *values, strict=True):
            kind = partitions, gpu_type, mask
            widest = self._widest[kind] if kind in self._widest else self._find(kind)
            count = max(count, -(-gpus // widest) if widest else 1)
            shapes.append((kind, -(-gpus // count) if widest else 0, early_s))
        return shapes

    @cached_property
    def _windows(self) -> list[tuple[float, float, BoolArray]]:
        """The windows in which nodes are reserved for others: begin, end, nodes."""
        view, table = self._view, self._view.reservations
        rows = np.flatnonzero(keeping_out(table, view.now_s, np.inf, ANYBODY)).tolist() if len(table) else ()
        return [(float(table.start_s[row]), float(table.end_s[row]), nodes_in(table, row, view.nodes)) for row in rows]

    @cached_property
    def _early_s(self) -> FloatArray:
        """How long before a window each job may not start though it would be done: 0 of running ones."""
        if not self._windows:
            return np.zeros(len(self._jobs))
        waits = np.arange(len(self._jobs)) < len(self._view.pending)
        spare_s = self._jobs.time_limit_s - self.needs_s - self.startup_s
        return np.where(waits, np.maximum(spare_s, 0.0), 0.0)

    def _holding(self, rows: IntArray) -> list[int]:
        """Return the number of the nodes of which each of *rows* may have its part; of all where none may hold it."""
        jobs = self._jobs
        asked = (
            *(jobs.partition.codes, jobs.nodes, jobs.cpus, jobs.ntasks),
            *(jobs.memory_mib, jobs.cpu_memory_mib, jobs.exclusive),
        )
        table = np.stack([column[rows] for column in asked], axis=1).astype(np.float64)
        numbers: list[int] = []
        for row, key in zip(rows.tolist(), map(bytes, table), strict=True):
            if key not in self._mask_of:
                nodes = np.asarray(self._may.holding(jobs.partition[row], node_part(jobs, row)).any(axis=0), np.bool_)
                self._mask_of[key] = self._numbered(nodes if nodes.any() else np.ones(len(nodes), dtype=np.bool_))
            numbers.append(self._mask_of[key])
        return numbers

    def _numbered(self, nodes: BoolArray) -> int:
        """Return the number of some *nodes* among ``_masks``."""
        for number, mask in enumerate(self._masks):
            if np.array_equal(mask, nodes):
                return number
        self._masks.append(nodes)
        return len(self._masks) - 1

    def _find(self, kind: _Kind) -> int:
        """Find the nodes for jobs of a kind; return the GPUs of the widest one."""
        jobs, have = self._jobs, self._view.nodes
        fitting = have.with_gpus_for(jobs.partition.names[kind[0]], jobs.gpu_type.names[kind[1]])
        fitting &= self._masks[kind[2]]
        self._nodes[kind] = fitting
        self._widest[kind] = int(have.gpus[fitting].max(initial=0))
        return self._widest[kind]

    def _room(self, begins_s: FloatArray, free: IntArray) -> Room:
        if self._windows:
            begins_s, free = self._cut(begins_s, free)
        rows = [self._outside(begins_s, free, row) for row in self._rows]
        blocks = [
            (mine[row.nodes] // row.block * row.block).sum(axis=0) for mine, row in zip(rows, self._rows, strict=True)
        ]
        return Room(begins_s.copy(), np.array(blocks, dtype=np.int64).reshape(len(blocks), len(begins_s)))

    def _cut(self, begins_s: FloatArray, free: IntArray) -> tuple[FloatArray, IntArray]:
        """Let a stretch of time begin where a window begins, for any row, or ends."""
        earlier_s = np.unique([0.0, *(row.early_s for row in self._rows)])
        bounds_s = np.array([begin_s for begin_s, _, _ in self._windows])[:, None] - earlier_s
        bounds_s = np.append(bounds_s, [end_s for _, end_s, _ in self._windows])
        bounds_s = bounds_s[(bounds_s > self._view.now_s) & np.isfinite(bounds_s)]
        cut_s = np.unique(np.concatenate([begins_s, bounds_s]))
        return cut_s, free[:, np.searchsorted(begins_s, cut_s, side="right") - 1]

    def _outside(self, begins_s: FloatArray, free: IntArray, row: _Row) -> IntArray:
        """Return the free GPUs without those of nodes in the time in which they are reserved for others."""
        if not self._windows:
            return free
        free = free.copy()
        for begin_s, end_s, nodes in self._windows:
            inside = (begins_s >= begin_s - row.early_s) & (begins_s < end_s)
            free[np.ix_(nodes, inside)] = 0
        return free

    def _over_time(self, ends_s: FloatArray, stops_s: FloatArray | None) -> tuple[FloatArray, IntArray]:
        """Return moments (rising) and the free GPUs of each node from each on, as running jobs end or stop."""
        view, now_s = self._view, self._view.now_s
        ends_s = ends_s if stops_s is None else np.minimum(ends_s, stops_s)
        placed = np.isneginf(ends_s)
        ends_s = np.where(np.isfinite(ends_s), np.maximum(ends_s, self.soonest_s), np.where(placed, now_s, np.inf))
        free_s = view.free_gpus.by_node(ends_s, now_s)
        moments, which = _thinned(free_s[free_s > now_s])
        back = np.zeros((len(free_s), len(moments) + 2), dtype=np.int64)
        at = np.zeros(free_s.shape, dtype=np.int64)
        at[free_s > now_s] = which + 1
        np.add.at(back, (np.broadcast_to(np.arange(len(free_s))[:, None], at.shape), at), 1)
        return np.concatenate([[now_s], moments]), np.cumsum(back, axis=1)[:, :-1]


class PooledGpus(GpuAvailability):
    """GPUs counted as one pool: one row of room, in which each job counts; jobs with consent can be stopped."""

    def __init__(self, view: View, margin: float, lead_s: float, restarting: RestartTerms) -> None:
        jobs = view.pending.followed_by(view.running)
        costs_s = resume_costs_s(jobs, restarting)
        super().__init__(view, margin, lead_s, stoppable=can_be_stopped(jobs), restart_s=costs_s)
        self.in_leases = self.stoppable

    @cached_property
    def _early_s(self) -> FloatArray:
        """No time: all jobs count in the one row."""
        return np.zeros(len(self._jobs))

    def confined(self, rows: IntArray) -> BoolArray:
        """Select none of the *rows*."""
        return np.zeros(len(rows), dtype=np.bool_)

    def requests(self, rows: IntArray, due_s: FloatArray, since_s: float) -> DeadlineRequests:
        """Return the requests of jobs in *rows*."""
        return replace(super().requests(rows, due_s, since_s), rows=np.ones((len(rows), 1), dtype=np.bool_))


def _thinned(ends_s: FloatArray) -> tuple[FloatArray, IntArray]:
    """Merge ends into at most MOMENTS moments, none before its ends; return both moments and the index per end."""
    moments = np.unique(ends_s[np.isfinite(ends_s)])
    if len(moments) > MOMENTS:
        moments = moments[np.linspace(0, len(moments) - 1, MOMENTS).astype(np.int64)]
    return moments, np.searchsorted(moments, ends_s)
