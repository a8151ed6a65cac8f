"""The run-set: the jobs that start now, on which nodes, and the running jobs that yield to them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.actions import Action, Move, Preempt, Start
from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..cluster.ties import in_ms, in_points
from ..policies.contract import PLACEMENTS, SELECTIONS, Ordering
from ..policies.selection.closed_times import shut
from ..policies.selection.free_nodes import FreeNodes
from ..policies.selection.free_resources import FreeResources
from ..policies.selection.resources import ResourceRequests, own_part
from .ordering.ranking import base_priority
from .profiling import at_home, profiling_nodes, to_profile
from .rules import Composition, ProfilingRules, SharingRules
from .sharing.pairing import Hosts, Join, paired
from .sharing.separation import separate

_NONE: IntArray = np.zeros(0, dtype=np.int64)


def start_wishes(
    view: View,
    ranked: IntArray,
    ordering: Ordering,
    composition: Composition,
    sharing: SharingRules | None,
    profiling: ProfilingRules | None = None,
) -> tuple[BoolArray, list[Action]]:
    """Choose among *ranked* pending rows, and among the running jobs if the selection preempts.

    Return a mask of the pending jobs that start, and the actions that carry it out: first the jobs that yield, then
    those that go on on other nodes, those that join a running job, and those that start on GPUs of their own. While two
    jobs share GPUs, neither yields.
    """
    view = view if profiling is None else at_home(view, profiling)
    nodes, runs = FreeNodes(view, PLACEMENTS.find(composition.placement)), np.zeros(len(view.pending), dtype=np.bool_)
    if profiling is not None and not SELECTIONS.find(composition.selection).preempts:
        runs[_measured_first(view, ranked, nodes, profiling)] = True
    joins = _joins(view, ranked, ~runs, nodes, sharing)
    runs[[join.row for join in joins]] = True
    _select(view, ranked[~runs[ranked]], ordering, composition.selection, nodes, [join.host for join in joins])
    if sharing is not None:
        separate(view, nodes, sharing)
    chosen = nodes.run_set()
    runs[chosen.rows] = True
    yields: list[Action] = [Preempt(job) for job in view.running.job_id[chosen.yields].tolist()]
    moves, starts = (
        [(job, ",".join(f"{name}:{gpus}" for name, gpus in on)) for job, on in zip(ids.tolist(), where, strict=True)]
        for ids, where in (
            (view.running.job_id[chosen.moves], chosen.moved),
            (view.pending.job_id[chosen.rows], chosen.nodes),
        )
    )
    moved, own = [Move(*move) for move in moves], [Start(*start) for start in starts]
    return runs, [*yields, *moved, *(_beside(view, join) for join in joins), *own]


def _select(
    view: View, ranked: IntArray, ordering: Ordering, line: str, nodes: FreeNodes, hosts: Sequence[int]
) -> None:
    """Let the selection start jobs on *nodes*; running jobs that share GPUs, and *hosts*, which will, go on."""
    selection, numbers = SELECTIONS.find(line), ranked + len(view.running)
    if selection.preempts:
        alone = (view.running.beside == 0) & (view.running.guest_gpus == 0)
        alone[list(hosts)] = False
        numbers = _with_running(view, ranked, ordering)
        numbers = numbers[np.append(alone, np.ones(len(view.pending), dtype=np.bool_))[numbers]]
    selection(view, numbers, nodes)


def _measured_first(view: View, ranked: IntArray, nodes: FreeNodes, profiling: ProfilingRules) -> list[int]:
    """Start jobs to be measured on the profiling nodes; return their rows (Lucid, Algorithm 1)."""
    here, started = profiling_nodes(nodes.view.nodes, profiling), []
    left = int(nodes.jobs.resources.free.gpus[here & nodes.view.nodes.usable].sum())
    for row in ranked[to_profile(view, profiling)[ranked]].tolist():
        gpus = int(view.pending.gpus[row])
        if gpus > left:
            break
        if nodes.start(len(view.running) + row, ~here):
            started.append(row)
            left -= gpus
    return started


def _joins(
    view: View, ranked: IntArray, able: BoolArray, nodes: FreeNodes, sharing: SharingRules | None
) -> Sequence[Join]:
    """Return the *able* jobs that join running ones, before others start on GPUs of their own (Lucid, Algorithm 2)."""
    if sharing is None or not sharing.makes_pairs:
        return ()
    return paired(view, ranked, able, Hosts.on_whole_gpus(view, NodeRoom(nodes), sharing), sharing).joins


def _beside(view: View, join: Join) -> Start:
    jobs, host = view.pending, view.running
    node = f"{host.node_list[join.host]}:{jobs.gpus[join.row]}"
    return Start(int(jobs.job_id[join.row]), node, int(host.job_id[join.host]))


@dataclass(frozen=True)
class NodeRoom:
    """The CPUs and memory that a selection has left on the nodes of its view, and the GPUs it has left to accounts."""

    nodes: FreeNodes

    def can_hold(self, jobs: JobTable, row: int) -> BoolArray:
        """Select nodes that a pending job may use, with CPUs and memory left for it; none at its account's limit."""
        free, requests, number = self._of(row)
        accounts = self.nodes.jobs.accounts
        account = accounts.account[number]
        if accounts.used[account] + requests.gpus[number] > accounts.most[account]:
            return self.nodes.no_node
        kind, now_s, plan_s = requests.kind[number], self.nodes.view.now_s, self.nodes.jobs.life.plan_s[number]
        closed = self.nodes.jobs.resources.closed
        if shut(closed, kind, free, now_s, now_s + plan_s):
            free = closed.free
        allowed = self.nodes.places.allowed[kind] & self.nodes.jobs.resources.up
        fits = (free.cpus >= requests.cpus[number]) & (free.memory_mib >= requests.memory_mib[number])
        return np.asarray(allowed & fits)

    def has_room(self, place: int, jobs: JobTable, row: int) -> bool:
        """Return whether a pending job may join another one on node *place*."""
        return bool(self.can_hold(jobs, row)[place])

    def take(self, place: int, jobs: JobTable, row: int, gpus: Sequence[int]) -> None:
        """Count a pending job on node *place*; GPUs have no slots here."""
        free, requests, number = self._of(row)
        part = own_part(self.nodes.jobs.resources.closed, requests.kind[number], place)
        for node in (place, part) if part >= 0 else (place,):
            free.cpus[node] -= requests.cpus[number]
            free.memory_mib[node] -= requests.memory_mib[number]
        accounts = self.nodes.jobs.accounts
        accounts.used[accounts.account[number]] += requests.gpus[number]

    def _of(self, row: int) -> tuple[FreeResources, ResourceRequests, int]:
        jobs = self.nodes.jobs
        return jobs.resources.free, jobs.requests, self.nodes.jobs_running + row


def _with_running(view: View, ranked: IntArray, ordering: Ordering) -> IntArray:
    """Return the numbers of running jobs and *ranked* pending ones by their keys, running ones first where equal."""
    rows = order_with_running(view, ranked, ordering)
    numbers = np.concatenate([np.arange(len(view.running)), ranked + len(view.running)])
    return numbers[rows]


def order_with_running(
    view: View, ranked: IntArray, ordering: Ordering, before: Sequence[IntArray | BoolArray] = ()
) -> IntArray:
    """Sort the running jobs, then *ranked* pending ones, by their keys; return places among these.

    Running jobs come first where equal. *before* are keys that count more, the last one most.
    """
    waits = np.concatenate([np.zeros(len(view.running), dtype=np.int64), np.ones(len(ranked), dtype=np.int64)])
    pending = view.take(ranked)
    jobs = view.running.followed_by(pending.pending)
    every = replace(
        view,
        pending=jobs,
        running=view.running.take(_NONE),  # each job is there once
        forecast=view.forecast_running.joined(pending.forecast),
        forecast_running=view.forecast_running.take(_NONE),
    )
    key, came = in_points(ordering(every)), (jobs.job_id, in_ms(jobs.came_s))
    return np.lexsort((*came, -base_priority(jobs), waits, np.where(np.isnan(key), np.inf, key), *before))
