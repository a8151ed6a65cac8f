"""Right-sizing: waiting jobs ask for the CPUs and the memory that their kind uses, so that more fit on a node. Pure.

A change is one line, and so is its end: between any two lines a job asks for what some node has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...cluster.actions import Action, RestoreSize, Rightsize
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.job_limits import JobLimits
from ...cluster.jobs import JobTable
from ...cluster.may_have import Allowances, MayHave
from ...cluster.node_request import NodeRequest, read_request
from ...cluster.state import View
from ...decide.job_nodes import node_gpus, nodes_with_gpus
from ...decide.not_repeated import RIGHTSIZE, not_repeated
from ...decide.ordering.eligibility import begins_soon
from ...decide.profiling import both
from ...decide.request_sizes import Share, fitting_nodes, listed, share_of, size_refusal, wanted
from ...decide.rules import RightsizingRules, Rules
from ...policies.rightsizing import right_size


def rightsize_wishes(view: View, rules: Rules, standings: IntArray, ranked: IntArray) -> list[Action]:
    """Return the changes of CPUs and memory, those of the next jobs in the order *ranked* first.

    Jobs whose begin time comes soon stand behind these. A job that we sized and that is no longer ours to size gets
    what its owner asked for.
    """
    jobs, ours = view.pending, view.pending.own_request.nonempty()
    if not rules.executor.changes_requests or (rules.rightsizing is None and not ours.any()):
        return []
    may = np.zeros(len(jobs), dtype=np.bool_) if rules.rightsizing is None else sizable(view, rules)
    wishes: list[Action] = [restore(jobs, row) for row in np.flatnonzero(ours & ~may).tolist()]
    if rules.rightsizing is None:
        return wishes
    if not rules.rightsizing.history:  # what an owner said is enough for a first size, and not to lower a known one
        may &= ~ours & ~listed(jobs.account, rules.rightsizing.accounts)
    soon = np.flatnonzero(begins_soon(jobs, standings, view.now_s))
    line = np.concatenate([ranked[: rules.window], soon[: rules.window]])
    others = np.setdiff1d(np.flatnonzero(ours), line)
    return wishes + list(_Sizes(view, rules.rightsizing, np.concatenate([line, others]), may).wishes())


def restore(jobs: JobTable, row: int) -> RestoreSize:
    """Return the change that lets a job ask for what its owner asked for."""
    return RestoreSize(int(jobs.job_id[row]), jobs.node_request[row], jobs.own_request[row])


def sizable(view: View, rules: Rules) -> BoolArray:
    """Select pending jobs whose CPUs and memory may be other ones than their owner's."""
    jobs = view.pending
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    free = (jobs.gpus > 0) & (jobs.het_job_id == 0) & (jobs.restarts == 0)
    free &= ~(
        jobs.off | jobs.interactive | jobs.shares | jobs.exclusive | jobs.per_gpu | jobs.request_changed | promised
    )
    free &= ~not_repeated(view, jobs, RIGHTSIZE)
    free &= ~jobs.reservation.nonempty() & _changeable(jobs.node_request) & (jobs.gpus_each == 0)
    if rules.resizing is not None and rules.resizing.nodes:  # that changes their CPUs and memory with their nodes
        free &= (jobs.nodes <= 1) | (jobs.most_gpus <= jobs.least_gpus)
    if rules.profiling is not None:
        free &= ~both(jobs, rules.profiling)
    return np.asarray(free & wanted(jobs, rules), dtype=np.bool_)


@dataclass(frozen=True)
class _Sizes:
    """The next jobs, and what is free for them."""

    view: View
    rules: RightsizingRules
    rows: IntArray  #: the jobs, in their order
    may: BoolArray  #: by row of a pending job

    def wishes(self) -> Iterator[Action]:
        """Yield the changes; what a job takes where it starts now is not there for those behind it."""
        jobs, gpus = self.view.pending, node_gpus(self.view.pending)
        nodes = nodes_with_gpus(self.view, self.rows)
        for at, row in enumerate(self.rows.tolist()):
            if not self.may[row] and not self._free.gpus.any():
                continue
            count, mine = max(int(jobs.nodes[row]), 1), nodes[at]
            if int(mine.sum()) < count or not gpus[row]:
                continue
            if self.may[row] and (wish := self._wish(row, count, int(gpus[row]), mine)) is not None:
                yield wish
            elif not self.may[row]:
                cpus, memory_mib = int(jobs.cpus[row]) / count, float(jobs.memory_mib[row]) / count
                self._free.take(self._free.room(mine, count, int(gpus[row]), cpus, memory_mib), cpus, memory_mib)

    def _wish(self, row: int, count: int, gpus: int, nodes: BoolArray) -> Action | None:
        """Return the change for one job; None where it is as it should be, or was changed a short while ago."""
        jobs, view = self.view.pending, self.view
        present = read_request(jobs.node_request[row])
        own = read_request(jobs.own_request[row]) or present
        if present is None or own is None:
            return None
        may = self._allowances.everywhere(jobs.partition[row])
        share = share_of(view, may, gpus, nodes)
        most_cpus, most_mib = may.of_nodes(count, nodes)
        least = self._size(row, own, count, share, 0.0, 0.0, may)
        room = self._free.room(nodes, count, gpus, least.node_cpus(count), least.node_memory_mib(count))
        new = least
        if room is not None:
            spare = min(room.spare_cpus, most_cpus), min(room.spare_mib, most_mib)
            most = self._size(row, own, count, share, *spare, may)
            more = most.node_cpus(count) > own.node_cpus(count) or most.node_memory_mib(count) > own.node_memory_mib(
                count
            )
            if not more or jobs.tasks[row] == 1:
                new = most
            self._free.take(room, new.node_cpus(count), new.node_memory_mib(count))
        if fitting_nodes(may, new, count, nodes) < count or size_refusal(self._limits, jobs, row, new):
            return None
        return self._change(row, count, own, present, new)

    def _change(self, row: int, count: int, own: NodeRequest, present: NodeRequest, new: NodeRequest) -> Action | None:
        jobs = self.view.pending
        ours, job = bool(jobs.own_request[row]), int(jobs.job_id[row])
        raised = _exceeds(present, own, count) and not _exceeds(new, own, count)
        if not raised and jobs.sized_s[row] > 0 and self.view.now_s - jobs.sized_s[row] < self.rules.again_s:
            return None
        if _same(new, own, count):
            return restore(jobs, row) if ours else None
        if not raised and not self._matters(present, new, count):
            return None
        return Rightsize(job, str(own), str(present), str(new))

    def _matters(self, present: NodeRequest, new: NodeRequest, count: int) -> bool:
        pairs = (
            (present.node_cpus(count), new.node_cpus(count)),
            (present.node_memory_mib(count), new.node_memory_mib(count)),
        )
        return any(abs(to - was) >= max(self.rules.least_change * was, 1) for was, to in pairs)

    def _size(
        self, row: int, own: NodeRequest, count: int, share: Share, spare_cpus: float, spare_mib: float, may: MayHave
    ) -> NodeRequest:
        """Return what a job shall ask for where so much is spare.

        It asks for the CPUs that Slurm charges for its memory: with fewer, Slurm would change them (22.05).
        """
        jobs, beyond = self.view.pending, 1 + self.rules.margin
        listed = bool(self._listed[row])
        used = [
            float(column[row]) * beyond if listed or best[row] else float("nan")
            for column, best in ((jobs.used_cpus, jobs.cpus_best), (jobs.used_memory_mib, jobs.mem_best_mib))
        ]
        own_cpus, own_mib = own.node_cpus(count), own.node_memory_mib(count)
        cpus = right_size(
            own_cpus, share.cpus, used[0], float(jobs.cpus_least[row]), float(jobs.cpus_best[row]), spare_cpus
        )
        memory_mib = right_size(
            *(own_mib, share.memory_mib, used[1]),
            *(float(jobs.mem_least_mib[row]), float(jobs.mem_best_mib[row]), spare_mib),
        )
        if cpus > own_cpus:  # whole CPUs for each task, within what there is
            each = own_cpus // own.per_task
            cpus = max(own_cpus, cpus // each * each)
        if memory_mib > own_mib:
            memory_mib = max(min(memory_mib, may.cpu_memory_mib * max(cpus, own_cpus)) // 1, own_mib)
        return own.with_size(count, may.charged_cpus(cpus, memory_mib), memory_mib)

    @cached_property
    def _limits(self) -> JobLimits:
        return JobLimits(self.view.limits, self.view.partitions)

    @cached_property
    def _allowances(self) -> Allowances:
        return Allowances(self.view.nodes, self.view.partitions)

    @cached_property
    def _listed(self) -> BoolArray:
        return listed(self.view.pending.account, self.rules.accounts)

    @cached_property
    def _free(self) -> _Free:
        have, up = self.view.nodes, self.view.nodes.usable
        return _Free(
            np.where(up, np.maximum(have.gpus - have.gpus_used, 0), 0),
            np.where(up, np.maximum(have.cpus - have.cpus_used, 0), 0).astype(np.float64),
            np.where(up, np.maximum(have.memory_mib - have.memory_used_mib, 0.0), 0.0),
            have.cpus / np.maximum(have.gpus, 1),
            have.memory_mib / np.maximum(have.gpus, 1),
        )


class _Room(NamedTuple):
    """Nodes where a job can start now, and what each of them has beyond the shares of its other free GPUs."""

    nodes: IntArray
    gpus: int
    spare_cpus: float
    spare_mib: float


@dataclass(frozen=True)
class _Free:
    """What is free on each node; it becomes less with each job that can start."""

    gpus: IntArray
    cpus: FloatArray
    memory_mib: FloatArray
    gpu_cpus: FloatArray  #: of a node, for each of its GPUs
    gpu_mib: FloatArray

    def room(self, nodes: BoolArray, count: int, gpus: int, cpus: float, memory_mib: float) -> _Room | None:
        """Return the *count* of *nodes* with the most to spare for a job that needs so much; None without enough."""
        fits = np.flatnonzero(nodes & (self.gpus >= gpus) & (self.cpus >= cpus) & (self.memory_mib >= memory_mib))
        if len(fits) < count or not gpus:
            return None
        others = self.gpus[fits] - gpus
        spare_cpus = self.cpus[fits] - others * self.gpu_cpus[fits]
        with np.errstate(invalid="ignore"):  # simulated nodes may have memory without end
            spare_mib = np.nan_to_num(self.memory_mib[fits] - others * self.gpu_mib[fits], nan=np.inf, posinf=np.inf)
        best = np.argsort(-spare_cpus, kind="stable")[:count]
        return _Room(fits[best], gpus, float(spare_cpus[best].min()), float(spare_mib[best].min()))

    def take(self, room: _Room | None, cpus: float, memory_mib: float) -> None:
        """Note that a job starts on these nodes."""
        if room is not None:
            self.gpus[room.nodes] -= room.gpus
            self.cpus[room.nodes] -= cpus
            self.memory_mib[room.nodes] -= memory_mib


def _exceeds(request: NodeRequest, own: NodeRequest, count: int) -> bool:
    return request.per_task > own.per_task or request.node_memory_mib(count) > own.node_memory_mib(count)


def _same(one: NodeRequest, other: NodeRequest, count: int) -> bool:
    return one.per_task == other.per_task and one.node_memory_mib(count) == other.node_memory_mib(count)


def _changeable(requests: Labels) -> BoolArray:
    read = map(read_request, requests.names)
    found: BoolArray = requests.map([request is not None and request.changeable for request in read], np.bool_)
    return found
