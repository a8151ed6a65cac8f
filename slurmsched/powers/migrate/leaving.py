"""Migration: jobs with ``ckpt`` leave overloaded nodes, and are kept off these for a while (MLFS section 3.3.3). Pure.

A job is one allocation, so that all of it moves: it is asked to save its work and queues itself again, and its
overloaded nodes are excluded while it waits. Nothing forces it: a job that does not answer goes on where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...cluster.actions import Action, AskToStop
from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.may_have import Allowances, NodePart
from ...cluster.plan import Standing
from ...cluster.records.progress import rows_of
from ...cluster.state import View
from ...cluster.text.hostlist import fold
from ...cluster.ties import in_ms, in_points
from ...decide.deadlines.stops import may_leave
from ...decide.excluded_nodes import among, nodes_chosen
from ...decide.node_pools import NodePools
from ...decide.node_use import CPUS, GPUS, MEMORY, RESOURCES, NodeUse
from ...decide.phrasing import spell
from ...decide.rules import MigrationRules, Rules
from ...decide.run_set import order_with_running
from ...policies.contract import Ordering
from ...policies.deadlines.stop_costs import stop_costs_s
from ...policies.migration import NOBODY, PRIORITY_PART, nearest_ideal

SETTLE_S = 600.0
"""The time after a request to leave a node in which no other job is asked to: loads follow late."""


SHOWN = 1.25
"""The least slowdown by a job's own reports that counts: paces differ by themselves."""

_NOT_IN_LINE = [
    *(Standing.HELD_BY_USER, Standing.HELD_BY_ADMIN, Standing.WAITS_FOR_DEPENDENCY, Standing.WAITS_FOR_BEGIN),
    *(Standing.IN_RESERVATION, Standing.LIMIT_BLOCKED, Standing.PARTITION_CLOSED, Standing.CANNOT_RUN),
]


def leave_wishes(
    view: View, ordering: Ordering, rules: Rules, standings: IntArray, busy: Collection[int]
) -> list[Action]:
    """Return the requests to leave overloaded nodes, one for a node at most; none to *busy* jobs.

    There is none in a pool of nodes where jobs wait for GPUs: what is free there is theirs.
    """
    terms = rules.migration
    if terms is None or not rules.executor.changes_requests or not rules.powers >= {"migrate", "requeue"}:
        return []
    nodes = NodeUse(view, terms.overload)
    if not nodes.overloaded.any():
        return []
    gains = Gains(view, terms, nodes)
    free_to_go = may_leave(view, terms, rules) & gains.worth & ~nodes_chosen(view.running) & ~_in_line(view, standings)
    free_to_go &= ~np.isin(view.running.job_id, list(busy))
    return _Requests(view, ordering, terms, nodes, free_to_go, gains).wishes() if free_to_go.any() else []


def reason_to_stay(view: View, rules: Rules, standings: IntArray, row: int) -> str:
    """Return why a running job is not asked to leave overloaded nodes, whatever it gains; empty where only that counts.

    A job that could leave may also be the second one of its node, which waits until its load is known again.
    """
    terms, jobs = rules.migration, view.running
    if terms is None:
        return "power.migrate is off"
    if jobs.left_s[row] > 0 and (rest_s := float(jobs.left_s[row]) + terms.every_s - view.now_s) > 0:
        return f"it was asked lately to leave {jobs.left_nodes[row]}, and is not asked again for {spell(rest_s)}"
    if not may_leave(view, terms, rules)[row]:
        return "its owner did not say slurmsched:ckpt, or it may not be asked to stop now"
    if nodes_chosen(jobs)[row]:
        return "its owner chose its nodes"
    nodes = NodeUse(view, terms.overload)
    gains = Gains(view, terms, nodes)
    if not gains.worth[row]:
        return ""
    if _in_line(view, standings)[row]:
        return "jobs wait for the GPUs that are free, or another job is about to leave"
    requests = _Requests(view, None, terms, nodes, np.ones(len(jobs), dtype=np.bool_), gains)
    return "no calm nodes have room for it" if requests.room(row) is None else "another job leaves its node first"


@dataclass(frozen=True, eq=False)
class Gains:
    """What each running job would gain on nodes that are not overloaded, and what it costs to go there."""

    view: View
    terms: MigrationRules
    nodes: NodeUse

    @cached_property
    def slowdown(self) -> FloatArray:
        """How much longer each job takes than at its best, by its own reports; 1 without any.

        The load of a node tells nothing of it: any user can raise that without slowing anybody down.
        """
        found = np.ones(len(self.view.running))
        rows, reported = rows_of(self.view.progress, self.view.running.job_id)
        shown = self.view.progress.slowdown[rows]
        found[reported] = np.where(shown >= SHOWN, shown, 1.0)
        return found

    @cached_property
    def gain_s(self) -> FloatArray:
        """The seconds of its remaining time that each job would save; 0 without a forecast."""
        left_s = np.where(np.isnan(self.view.forecast_running.runtime_s), 0.0, self.view.remaining.median_s)
        return np.asarray(left_s * (1.0 - 1.0 / self.slowdown))

    @cached_property
    def cost_s(self) -> FloatArray:
        """The seconds that a stop, and being as far again, cost each job."""
        return stop_costs_s(self.view.running, self.terms, self.terms.stop_s)

    @property
    def worth(self) -> BoolArray:
        """Whether that is a gain."""
        return np.asarray(in_ms(self.gain_s) > in_ms(self.cost_s))


@dataclass(eq=False)
class _Requests:
    """The requests of one decision, with the room on other nodes that they take."""

    view: View
    ordering: Ordering | None  #: None where no job is chosen
    terms: MigrationRules
    nodes: NodeUse
    free_to_go: BoolArray
    gains: Gains
    taken: FloatArray = field(init=False)  #: CPUs, memory and GPUs of each node

    def __post_init__(self) -> None:
        self.taken = np.zeros((len(self.view.nodes), len(RESOURCES)))

    def wishes(self) -> list[Action]:
        """Return a request for each overloaded node that has a job that can leave, in the order of nodes."""
        found: list[Action] = []
        resting = self._resting()
        for at in np.flatnonzero(self.nodes.overloaded.any(axis=1)).tolist():
            if resting[at] or (row := self._leaving(at)) == NOBODY:
                continue
            left = self.nodes.left_by(row)
            resting[self.nodes.nodes_of(row)] = True
            self.free_to_go[row] = False
            self.taken[self.room(row)] += self._needs(row)
            names = fold(sorted(self.view.nodes.name.take(left)))
            found.append(AskToStop(int(self.view.running.job_id[row]), self.terms.stop_signal, names))
        return found

    def _resting(self) -> BoolArray:
        """Select nodes that a job was asked to leave lately."""
        rest = np.zeros(len(self.view.nodes), dtype=np.bool_)
        for jobs in (self.view.pending, self.view.running):
            for row in np.flatnonzero(jobs.left_s > self.view.now_s - SETTLE_S).tolist():
                rest |= among(self.view.nodes.name, jobs.left_nodes[row])
        return rest

    def _leaving(self, at: int) -> int:
        """Return the running job that leaves an overloaded node: the nearest to the ideal one, NOBODY without one.

        Of several that are as near, it is the one that gains most.
        """
        rows = np.unique(self.nodes.job[self.nodes.node == at])
        rows = rows[self.free_to_go[rows]]
        if self.nodes.overloaded[at, GPUS] and self.ordering is not None and not self.ordering.native:
            last = self._places(self.ordering)[rows].argsort(kind="stable")[::-1]
            rows = np.sort(rows[last[: max(int(PRIORITY_PART * len(rows)), 1)]])
        rows = np.array([row for row in rows.tolist() if self.room(row) is not None], dtype=np.int64)
        rows = rows[np.lexsort((self.view.running.job_id[rows], -in_ms(self.gains.gain_s[rows])))]
        over, alone = self.nodes.overloaded[at], np.zeros(len(rows))
        best = int(nearest_ideal(np.array([self._uses(row, at) for row in rows.tolist()]).reshape(-1, 3), over, alone))
        return int(rows[best]) if best != NOBODY else NOBODY

    def _places(self, ordering: Ordering) -> IntArray:
        """Return the place of each running job in the order; the last have the lowest priority."""
        order = order_with_running(self.view, np.zeros(0, dtype=np.int64), ordering)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return place

    def _needs(self, row: int) -> FloatArray:
        """Return what a job takes of each of its nodes."""
        jobs, many = self.view.running, max(len(self.nodes.nodes_of(row)), 1)
        return -(-np.array([jobs.cpus[row], jobs.memory_mib[row], jobs.gpus[row]], dtype=np.float64) // many)

    def _uses(self, row: int, at: int) -> FloatArray:
        """Return the parts of a node's CPUs and memory that a job has, and the measured part of its GPUs."""
        nodes, here = self.view.nodes, (self.nodes.job == row) & (self.nodes.node == at)
        has = np.maximum(np.array([nodes.cpus[at], nodes.memory_mib[at], nodes.gpus[at]], dtype=np.float64), 1.0)
        needs = self._needs(row)
        needs[GPUS] = self.nodes.gpu_use[here].sum()
        return in_points(needs / has)

    def room(self, row: int) -> IntArray | None:
        """Return the calmest nodes that can hold a job and stay below the threshold; None if these are too few.

        Those of its own nodes that are not overloaded hold it as they do now.
        """
        view, jobs = self.view, self.view.running
        nodes, own, needs = view.nodes, self.nodes.nodes_of(row), self._needs(row)
        has = np.stack([nodes.cpus, nodes.memory_mib, nodes.gpus], axis=1).astype(np.float64)
        free = has - np.stack([nodes.cpus_used, nodes.memory_used_mib, nodes.gpus_used], axis=1) - self.taken
        has = np.maximum(has, 1.0)
        asks = needs.copy()
        asks[GPUS] *= np.nan_to_num(jobs.gpu_util[row], nan=0.0)
        then = in_points(self.nodes.parts + (self.taken + asks) / has)
        calm = (np.nan_to_num(then[:, :GPUS], nan=np.inf) <= self.terms.overload).all(axis=1)
        calm &= np.nan_to_num(then[:, GPUS], nan=0.0) <= self.terms.overload
        calm &= (free >= needs).all(axis=1) & self._may_hold(row)
        calm[own] = True
        calm &= ~self.nodes.overloaded.any(axis=1) & nodes.with_gpus_for(jobs.partition[row], jobs.gpu_type[row])
        candidates = np.flatnonzero(calm)
        candidates = candidates[np.argsort(then[candidates, CPUS], kind="stable")]
        return candidates[: len(own)] if len(own) and len(candidates) >= len(own) else None

    def _may_hold(self, row: int) -> BoolArray:
        """Select the nodes of which a running job may have its part."""
        jobs, part = self.view.running, self._needs(row)
        may = self._allowances.holding(
            jobs.partition[row], NodePart(float(part[CPUS]), float(np.nan_to_num(part[MEMORY])))
        )
        return np.asarray(may.any(axis=0), dtype=np.bool_)

    @cached_property
    def _allowances(self) -> Allowances:
        return Allowances(self.view.nodes, self.view.partitions)


def _in_line(view: View, standings: IntArray) -> BoolArray:
    """Select running jobs in pools of nodes where jobs wait for GPUs, or others were asked to leave lately."""
    pools, jobs, running = NodePools(view.nodes), view.pending, view.running
    waits = (jobs.gpus > 0) & ~np.isin(standings, _NOT_IN_LINE)
    leaves = running.left_s > np.fmax(running.started_s, view.now_s - SETTLE_S)
    of_running = pools.of(running.partition)
    return np.isin(of_running, np.concatenate([np.unique(pools.of(jobs.partition)[waits]), of_running[leaves]]))
