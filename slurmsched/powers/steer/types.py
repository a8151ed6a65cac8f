"""Steering: untyped pending jobs are sent to the type of GPU on which they end soonest, by excluded nodes. Pure.

An exclusion is one line, and so is its end: between any two lines a job can start on nodes of its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...cluster.actions import Action, Steer, Unsteer
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.exclusions import ANY_TYPE
from ...cluster.may_have import Allowances, NodePart
from ...cluster.outlook.remaining import Bounds
from ...cluster.speed_texts import speeds_on
from ...cluster.state import View
from ...cluster.text.hostlist import expanded, fold
from ...cluster.ties import in_ms, in_points
from ...decide.job_nodes import node_part
from ...decide.node_pools import NodePools
from ...decide.not_repeated import STEER, not_repeated
from ...decide.ordering.eligibility import begins_soon
from ...decide.profiling import both
from ...decide.rules import Rules, SteeringRules
from ...policies.steering import Ends, earliest_ends


def steer_wishes(view: View, rules: Rules, standings: IntArray, ranked: IntArray, starving: BoolArray) -> list[Action]:
    """Return the changes of excluded nodes, those of the next jobs in the order *ranked* first.

    Jobs whose begin time comes soon stand behind these: what was just submitted may be delayed for this.

    A job that we steered and that is no longer ours to steer is let go.
    """
    jobs, ours = view.pending, view.pending.steered.nonempty()
    if not rules.executor.changes_requests or (rules.steering is None and not ours.any()):
        return []
    if rules.steering is None:
        return [Unsteer(job) for job in jobs.job_id[ours].tolist()]
    ranked = np.concatenate([ranked, np.flatnonzero(begins_soon(jobs, standings, view.now_s))])
    pools = NodePools(view.nodes)
    pool = pools.of(jobs.partition)
    may = steerable(view, rules) & ~starving & (pool >= 0)
    wishes: list[Action] = [Unsteer(job) for job in jobs.job_id[ours & ~may].tolist()]
    rest = np.setdiff1d(np.flatnonzero(ours & may), ranked)
    open_to_us = ours | jobs.type_speeds.nonempty() | jobs.types.nonempty()
    for number in np.unique(pool[may & open_to_us]).tolist():
        line, others = ranked[pool[ranked] == number], rest[pool[rest] == number]
        late = line[rules.window :]
        rows = np.concatenate([line[: rules.window], late[ours[late]], others])
        wishes += _Pool(view, rules.steering, rows, may[rows], pools.of_nodes == number).wishes()
    return wishes


def steerable(view: View, rules: Rules) -> BoolArray:
    """Select pending jobs whose type of GPU is open, and about whose nodes nobody has said anything."""
    jobs = view.pending
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    free = (jobs.gpus > 0) & (jobs.het_job_id == 0)
    free &= ~(jobs.off | jobs.interactive | jobs.shares | promised | not_repeated(view, jobs, STEER))
    free &= ~jobs.excluded_nodes.nonempty() | jobs.steered.nonempty()
    for column in (jobs.gpu_type, jobs.required_nodes, jobs.features, jobs.reservation):
        free &= ~column.nonempty()
    if rules.profiling is not None:
        free &= ~both(jobs, rules.profiling)
    return np.asarray(free, dtype=np.bool_)


class _Choice(NamedTuple):
    """What is known of one job, by type of GPU."""

    row: int
    fits: BoolArray  #: enough nodes that are up hold it, and its owner accepts the type
    speed: FloatArray
    start_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True)
class _Pool:
    """The next jobs of a pool of nodes, and the types of GPUs there."""

    view: View
    rules: SteeringRules
    rows: IntArray  #: the jobs, in their order
    may: BoolArray  #: which of them may be steered
    nodes: BoolArray

    def wishes(self) -> Iterator[Action]:
        """Yield the changes for these jobs."""
        if len(self.types) < 2:
            ours = self.rows[self.may & self.view.pending.steered.nonempty()[self.rows]]
            yield from (Unsteer(job) for job in self.view.pending.job_id[ours].tolist())
            return
        ends = self._ends
        for at in np.flatnonzero(self.may).tolist():
            row = int(self.rows[at])
            wish = self._wish(_Choice(row, self._fits[at], self._speeds[at], ends.start_s[at], ends.end_s[at]))
            if wish is not None:
                yield wish

    def _wish(self, job: _Choice) -> Action | None:
        """Return the change for one job; None where it is as it should be."""
        jobs, row, now_s = self.view.pending, job.row, self.view.now_s
        ends = in_ms(job.end_s)
        best, present = int(np.argmin(ends)), self._chosen_type(row)
        known = in_points(job.speed[job.fits])
        gains = len(known) > 1 and known.max() >= in_points(self.rules.least_gain * known.min())
        gains = gains and np.isfinite(job.end_s[best])
        if present < 0:
            let_go = jobs.steered_s[row] > 0 and jobs.steered[row] != ANY_TYPE
            rests = let_go and now_s - jobs.steered_s[row] < self.rules.again_s
            return self._to(row, [self.types[best]]) if gains and not rests else self._let_go(row)
        since_s = max(float(jobs.steered_s[row]), float(jobs.submitted_s[row]))
        full = job.start_s[present] > 0
        if not gains or not job.fits[present] or (full and now_s - since_s >= self.rules.patience_s):
            return self._let_go(row)
        moves = full and job.start_s[best] <= 0 and ends[best] < ends[present]
        return self._to(row, [self.types[best if moves else present]])

    def _chosen_type(self, row: int) -> int:
        """Return the one type that we chose for a job; -1 without one."""
        steered = self.view.pending.steered[row]
        return self.types.index(steered) if steered in self.types and [steered] != self._accepted(row) else -1

    def _accepted(self, row: int) -> list[str]:
        """Return the types that a job's owner accepts, and that can hold it; empty where that leaves out none."""
        accepted = self.view.pending.types[row].split("+")
        could = self._could[self._shape_of[row]].tolist()
        names = [name for name, can in zip(self.types, could, strict=True) if can and name in accepted]
        return names if len(names) < len(self.types) else []

    def _let_go(self, row: int) -> Action | None:
        """Return the change that leaves a job to all types that its owner accepts; None where it is so."""
        if accepted := self._accepted(row):
            return self._to(row, accepted)
        return Unsteer(int(self.view.pending.job_id[row])) if self.view.pending.steered[row] else None

    def _to(self, row: int, types: Sequence[str]) -> Action | None:
        """Return the change that sends a job to *types*; None where all others are excluded already."""
        jobs, name = self.view.pending, "+".join(types)
        others, text = self._others(jobs.partition[row], tuple(types))
        if not others:
            return Unsteer(int(jobs.job_id[row])) if jobs.steered[row] else None
        if jobs.steered[row] == name and others.issubset(expanded(jobs.excluded_nodes[row])):
            return None
        return Steer(int(jobs.job_id[row]), name, text)

    def _others(self, partitions: str, types: tuple[str, ...]) -> tuple[frozenset[str], str]:
        """Return the nodes of some *partitions* with GPUs of other types than *types*, and their host list."""
        key = partitions, types
        if key not in self._excluded:
            nodes = self.view.nodes
            other = nodes.gpu_type.map([name not in types for name in nodes.gpu_type.names], np.bool_)
            names = frozenset(nodes.name.take(self._inside(partitions) & other))
            self._excluded[key] = names, fold(sorted(names))
        return self._excluded[key]

    @cached_property
    def _excluded(self) -> dict[tuple[str, tuple[str, ...]], tuple[frozenset[str], str]]:
        return {}

    def _inside(self, partitions: str) -> BoolArray:
        """Select the nodes with GPUs of some *partitions*, whether they are up or not."""
        nodes, wanted = self.view.nodes, set(partitions.split(","))
        bind = any(nodes.partitions.names)
        inside = [not bind or bool(wanted & set(names.split(","))) for names in nodes.partitions.names]
        return nodes.partitions.map(inside, np.bool_) & (nodes.gpus > 0)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of GPUs here."""
        nodes = self.view.nodes
        return tuple(dict.fromkeys(name for name in nodes.gpu_type.take(self.nodes & (nodes.gpus > 0)) if name))

    @cached_property
    def _of_type(self) -> BoolArray:
        """The nodes of each type."""
        names = self.view.nodes.gpu_type
        return np.array([self.nodes & names.map([name == one for name in names.names], np.bool_) for one in self.types])

    @cached_property
    def _shapes(self) -> tuple[list[tuple[int, ...]], IntArray]:
        """What the jobs ask of nodes, each once, and the number of that for each job."""
        jobs, rows = self.view.pending, self.rows
        parts = np.array([node_part(jobs, row) for row in rows.tolist()]).reshape(-1, len(NodePart._fields))
        asked = np.ceil(parts).astype(np.int64).T
        columns = (jobs.partition.codes[rows], jobs.gpus[rows], jobs.nodes[rows], *asked)
        distinct, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return list(map(tuple, distinct.T.tolist())), which.reshape(-1)

    @cached_property
    def _shape_of(self) -> dict[int, int]:
        """The number of its shape, by row of a pending job."""
        return dict(zip(self.rows.tolist(), self._shapes[1].tolist(), strict=True))

    @cached_property
    def _holds(self) -> list[BoolArray]:
        """The nodes of which a job of each shape may have its part, by its partitions: [partition, node]."""
        nodes, names = self.view.nodes, self.view.pending.partition.names
        may = Allowances(nodes, self.view.partitions)
        return [
            may.holding(names[partition], NodePart(cpus, memory_mib, bool(exclusive), cpu_mib))
            & (nodes.gpus >= max(-(-gpus // max(count, 1)), 1))
            for partition, gpus, count, cpus, memory_mib, exclusive, cpu_mib in self._shapes[0]
        ]

    def _enough(self, nodes: BoolArray) -> BoolArray:
        """Return whether each type has enough of these *nodes* for a job, by its shape, in one of its partitions."""
        found = [
            ((self._of_type[:, None] & (holds & nodes)).sum(axis=2) >= max(shape[2], 1)).any(axis=1)
            for holds, shape in zip(self._holds, self._shapes[0], strict=True)
        ]
        return np.array(found, dtype=np.bool_).reshape(-1, len(self.types))

    @cached_property
    def _could(self) -> BoolArray:
        """Whether each type has enough nodes for a job, up or not, by its shape: a job sent elsewhere never starts."""
        return self._enough(np.ones(len(self.view.nodes), dtype=np.bool_))

    @cached_property
    def _fits(self) -> BoolArray:
        """Whether each type, as its owner accepts it, has enough nodes for each job that are up."""
        jobs = self.view.pending
        found = self._enough(self.view.nodes.usable)[self._shapes[1]]
        for column in (jobs.gpu_type, jobs.types):
            open_to = [[not text or one in text.split("+") for one in self.types] for text in column.names]
            found &= np.array(open_to, dtype=np.bool_).reshape(-1, len(self.types))[column.codes[self.rows]]
        return found

    @cached_property
    def _speeds(self) -> FloatArray:
        """The speed of each job by type, as a share of that on its fastest one."""
        return self._speeds_of(self.view.pending.type_speeds.take(self.rows))

    def _speeds_of(self, texts: Labels) -> FloatArray:
        """Return the speed by type that each of *texts* stands for."""
        return speeds_on(texts.names, self.types)[texts.codes]

    @cached_property
    def _ends(self) -> Ends:
        """When each job would start and end on each type. Its forecast is taken as that on a type of mean speed."""
        jobs, rows, speeds = self.view.pending, self.rows, self._speeds
        runtime_s = Bounds.of(self.view.forecast.take(rows), jobs.time_limit_s[rows]).median_s
        seconds = np.where(self._fits, runtime_s[:, None] * speeds.mean(axis=1, keepdims=True) / speeds, np.inf)
        steered = jobs.steered
        number = [self.types.index(name) if name in self.types else -1 for name in steered.names]
        fixed = np.asarray(number, dtype=np.int64)[steered.codes[rows]]
        can = self._fits[np.arange(len(rows)), np.maximum(fixed, 0)]
        return earliest_ends(jobs.gpus[rows], jobs.tasks[rows], seconds, np.where(can, fixed, -1), self._free_s)

    @property
    def _free_s(self) -> list[FloatArray]:
        """The seconds until each GPU of each type is free."""
        rows = [self.view.gpus_free_s[mine] for mine in self._of_type]
        return [free_s[np.isfinite(free_s)] for free_s in rows]
