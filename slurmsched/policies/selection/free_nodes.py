"""The nodes of a decision: what is free on them, and which jobs start there or leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.nodes import NodeTable
from ...cluster.state import View, with_parts_of_nodes
from ..contract import Placement
from .allowed_nodes import AllowedNodes, allowed_nodes, binding
from .closed_times import ClaimGroups, ClosedTimes, claim_groups, closed_to
from .fragmentation import GPU, JobKinds, JobMix, TypicalJobs, most_frequent, no_mix
from .free_resources import FreeResources
from .loops import AccountGpus, DecisionJobs, PlannedLife, Started, note_running, nothing_started, start_one
from .planned_room import MOST_STEPS, YEAR_S, BackfillPlan, blank_outlook
from .resources import (
    NodeResources,
    NodeSlots,
    ResourceRequests,
    counted,
    give_back,
    no_counts,
    nothing_held,
    number_forms,
)
from .sorted_rows import empty_line
from .struct_arrays import records, writable
from .unit_choice import NO_RULES, NO_UNITS, scratch_of

TYPICAL = 0.95  #: the part of the jobs that typical ones are at least
NO_LIMIT = 2**62  #: GPUs of an account without a limit


@dataclass(frozen=True, eq=False)
class RunSet:
    """The jobs that start, each with its nodes and the GPUs on each, and the running jobs that yield."""

    rows: IntArray  #: pending rows, in the order in which they were placed
    nodes: tuple[tuple[tuple[str, int], ...], ...]  #: of each row: node names and GPUs
    yields: IntArray  #: running rows
    moves: IntArray  #: running rows of jobs that go on on other nodes, in the order of placement
    moved: tuple[tuple[tuple[str, int], ...], ...]  #: where each of them does


class FreeNodes:
    """The nodes of *view* for one decision; jobs are numbered running ones first, then pending ones.

    A selection starts jobs with ``start`` and lets running ones yield with ``stop``; compiled loops work on ``jobs``,
    ``started`` and ``yields`` themselves. Behind the nodes are their parts that reservations keep for jobs inside.
    """

    def __init__(self, view: View, placement: Placement) -> None:
        self.count, self.jobs_running = len(view.running) + len(view.pending), len(view.running)
        view, parts = with_parts_of_nodes(view)
        self.view = view
        self.present = view.running.followed_by(view.pending)  #: the jobs by number
        groups = claim_groups(view.reservations, self.present, self.present.reservation)
        self._places = _places(self.present, view, groups)
        closed = closed_to(view.reservations, view.nodes, groups, self._places.group, view.part_use, parts)
        self._places.allowed[:, closed.first :] = False
        resources = _resources(view.nodes, self._places.allowed, closed)
        requests = _requests(self.present, placement)
        requests.kind[:] = self._places.kind
        number_forms(requests)
        if placement.by_jobs:
            resources = resources._replace(mix=_mix(requests, resources))
        held = nothing_held(self.count, int(2 * view.nodes.gpus.sum() + len(view.nodes) * max(1, self.count) + 1))
        most = self.count + self.jobs_running  # a running job may start again on other nodes
        running = empty_line(most + 1)
        self.jobs = DecisionJobs(
            resources, held, requests, PlannedLife(_plan_s(self.present)), running, _accounts(view, self.present)
        )
        self.started: Started = nothing_started(most, int(view.nodes.gpus.sum()) + most)
        self.yields = np.zeros(self.jobs_running, dtype=np.bool_)
        self._tell_allocations()

    @property
    def places(self) -> AllowedNodes:
        """The nodes that each job may use."""
        return self._places

    @property
    def runs(self) -> BoolArray:
        """A mask of the running jobs."""
        return np.arange(self.count) < self.jobs_running

    @cached_property
    def no_node(self) -> BoolArray:
        """A mask that bars no node."""
        return np.zeros(len(self.view.nodes), dtype=np.bool_)

    def of_started(self) -> BoolArray:
        """Return a mask of the nodes on which jobs start; a selection that preempts does not count these as taken."""
        mask = np.zeros(len(self.view.nodes), dtype=np.bool_)
        mask[self.started.pairs[0, : self.started.first[self.started.many[0]]]] = True
        return mask

    def plan(self, reservations: int) -> BackfillPlan:
        """Return an empty plan of room over time with place for so many *reservations*."""
        steps = 2 * reservations + self.jobs_running + len(self.jobs.resources.closed.ends_s) + 6
        return blank_outlook(len(self.view.nodes), min(steps, MOST_STEPS), self.count)

    def start(self, number: int, barred: BoolArray | None = None) -> bool:
        """Start a job where its placement finds room on nodes not *barred*; return True if it started.

        A running one goes on there: a guest on GPUs of another, or one that yields.
        """
        barred = self.no_node if barred is None else barred
        return bool(start_one(self.jobs, number, barred, self.view.now_s, self.started))

    def stop(self, number: int) -> None:
        """Let a running job yield; its GPUs are free for other jobs at once."""
        self.yields[number] = True
        give_back(self.jobs.resources, self.jobs.held, self.jobs.requests, number)
        accounts = self.jobs.accounts
        accounts.used[accounts.account[number]] -= self.jobs.requests.gpus[number]

    def run_set(self) -> RunSet:
        """Return what the selection decided."""
        many, names = int(self.started.many[0]), self.view.nodes.name
        rows, first = self.started.rows[:many], self.started.first[: many + 1].tolist()
        pairs = [(names[node], gpus) for node, gpus in self.started.pairs[:, : first[-1]].T.tolist()]
        nodes, waited = [tuple(pairs[begin:end]) for begin, end in pairwise(first)], rows >= self.jobs_running
        begun, moved = (tuple(nodes[at] for at in np.flatnonzero(some).tolist()) for some in (waited, ~waited))
        return RunSet(rows[waited] - self.jobs_running, begun, np.flatnonzero(self.yields), rows[~waited], moved)

    def _tell_allocations(self) -> None:
        """Record the GPUs and CPUs that running jobs have on each node; those of unknown nodes stay in use."""
        jobs, held = self.jobs, self.view.free_gpus.held
        ends_s = self.view.running.started_s + jobs.life.plan_s[: self.jobs_running]
        note_running(jobs, *writable(held), jobs.requests.cpus.copy(), ends_s)


def _places(jobs: JobTable, view: View, groups: ClaimGroups | None) -> AllowedNodes:
    """Return the nodes that each job may use; partitions that are gone count as none."""
    nodes, partitions, of = view.nodes, view.partitions, None if groups is None else groups.of
    known = set(partitions.name)
    if not len(partitions) or all(known.issuperset(names.split(",")) for names in jobs.partition.names):
        return allowed_nodes(jobs, nodes, partitions, binding(jobs), groups=of)
    lists = [",".join(name for name in names.split(",") if name in known) for names in jobs.partition.names]
    left = Labels(jobs.partition.codes, tuple(text or partitions.name[0] for text in lists))
    gone = jobs.partition.map([not text for text in lists], np.bool_)
    found = allowed_nodes(_Wants(left, jobs.gpu_type, jobs.features), nodes, partitions, binding(jobs), groups=of)
    nowhere = np.concatenate([found.allowed, np.zeros((1, len(nodes)), dtype=np.bool_)])
    kind = np.where(gone, len(found.allowed), found.kind)
    return found._replace(kind=kind, allowed=nowhere, group=np.append(found.group, 0))


class _Wants(NamedTuple):
    partition: Labels
    gpu_type: Labels
    features: Labels


def _resources(nodes: NodeTable, allowed: BoolArray, closed: ClosedTimes) -> NodeResources:
    free_mib = np.where(np.isfinite(nodes.memory_mib), nodes.memory_mib - nodes.memory_used_mib, np.inf)
    resources = NodeResources(
        has=records(FreeResources(nodes.gpus, nodes.cpus, nodes.memory_mib)),
        free=records(FreeResources(nodes.gpus - nodes.gpus_used, nodes.cpus - nodes.cpus_used, free_mib)),
        counts=no_counts(len(nodes)),
        slots=records(NodeSlots(*np.zeros((3, len(nodes)), dtype=np.int64))),  # a selection places whole GPUs
        up=nodes.usable.copy(),
        allowed=allowed,
        closed=closed,
        sizes=np.unique(nodes.gpus[: closed.first])[::-1].copy(),
        units=NO_UNITS.copy(),
        rules=NO_RULES.copy(),
        unit_room=scratch_of(NO_UNITS),
        room=np.zeros((4, len(nodes)), dtype=np.int64),
        mix=no_mix(),
    )
    return counted(resources)


def _requests(jobs: JobTable, placement: Placement) -> ResourceRequests:
    spread = np.maximum(jobs.nodes, 1)
    zeros = np.zeros(len(jobs), dtype=np.int64)
    return records(
        ResourceRequests(
            gpus=jobs.gpus,
            slots=zeros.copy(),
            nodes=jobs.nodes,
            cpus=np.maximum(-(-jobs.cpus // spread), 1),
            memory_mib=np.nan_to_num(jobs.memory_mib / spread),
            exclusive=jobs.exclusive,
            kind=zeros,
            rule=zeros.copy(),
            how=placement.ways(jobs.sensitive, jobs.spread_speed),
            form=zeros.copy(),
        )
    )


def _mix(requests: ResourceRequests, resources: NodeResources) -> JobMix:
    """Return the kinds of jobs among all *requests*, by what they ask for on one node."""
    most = int(resources.sizes.max(initial=0))
    on_node = np.where(requests.nodes > 0, -(-requests.gpus // np.maximum(requests.nodes, 1)), requests.gpus)
    columns = np.array([requests.cpus, np.minimum(on_node, most), requests.kind])
    (cpus, gpus, kind), part = most_frequent(columns, TYPICAL)
    kinds = records(JobKinds(cpus, gpus, np.where(gpus > 0, GPU, 0), part))
    return JobMix(TypicalJobs(kinds, resources.allowed[kind]), np.zeros((2, most), dtype=np.int64))


def _accounts(view: View, jobs: JobTable) -> AccountGpus:
    """Return the limits of the accounts of *jobs*, running ones first, and the GPUs that running ones have."""
    limits = dict(zip(view.accounts.name, view.accounts.gpus.tolist(), strict=True))
    names = jobs.account.names or ("",)
    most = np.array([limits.get(name, NO_LIMIT) for name in names], dtype=np.int64)
    account, gpus = jobs.account.codes[: len(view.running)], view.running.gpus * view.running.tasks
    used = np.bincount(account, weights=gpus, minlength=len(names)).astype(np.int64)
    return writable(AccountGpus(jobs.account.codes, most, used))


def _plan_s(jobs: JobTable) -> FloatArray:
    return np.where(np.isfinite(jobs.time_limit_s), jobs.time_limit_s, YEAR_S)
