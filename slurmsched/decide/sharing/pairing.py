"""Pairing: select the pending jobs that may share GPUs, and the running ones that they join. Pure.

What it decides is carried out in two ways: by slots on Slurm (``packing``), and by a start beside the other job where
decide() starts jobs itself (``run_set``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol, Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.job_kind import kind_of
from ...cluster.job_limits import JobLimits
from ...cluster.jobs import JobState, JobTable
from ...cluster.limits import LEAST
from ...cluster.state import View
from ...cluster.text.comment import is_plain
from ...cluster.text.tres import requests_in
from ...policies.contract import SHARINGS
from ...policies.sharing import packable, why_not
from ...policies.sharing_candidates import PackingLimits, Pair, Sharers
from ..rules import SharingRules
from .consent import consent_bars, is_barred
from .pair_eviction import unsteady
from .queue_wait import waits
from .shared_nodes import SharedNodes, gpus_of, gpus_of_all, pairs_on

WINDOW = 500  #: jobs from the top of the order that may share
CRAMPED = 50  #: jobs of the window for which a second place is searched in one cycle


class Room(Protocol):
    """The CPUs and memory left on nodes, by place; methods get pending jobs as rows of a table."""

    def can_hold(self, jobs: JobTable, row: int) -> BoolArray:
        """Select the places where a job could join another one."""
        ...

    def has_room(self, place: int, jobs: JobTable, row: int) -> bool:
        """Return whether a job could join another one at *place*."""
        ...

    def take(self, place: int, jobs: JobTable, row: int, gpus: Sequence[int]) -> None:
        """Count a job at *place*, on a slot of each of *gpus* if GPUs have slots."""
        ...


class Join(NamedTuple):
    """A pending job and the running one that it joins, by row, on all or some of its GPUs."""

    row: int
    host: int
    gpus: tuple[int, ...]  #: their numbers; empty where jobs share whole GPUs


@dataclass(frozen=True)
class Pairing:
    """The pending jobs that were considered, in order, and those of them that join running ones."""

    rows: IntArray
    waiting: Sharers
    joins: tuple[Join, ...]

    def rest(self, rules: SharingRules) -> IntArray:
        """Return the rows that could share with some job, and join none now."""
        able = packable(self.waiting, rules.packing())
        return self.rows[able & ~np.isin(self.rows, [join.row for join in self.joins])]


def paired(view: View, ranked: IntArray, able: BoolArray, hosts: Hosts, rules: SharingRules) -> Pairing:
    """Let *able* pending jobs join *hosts*, each where the rule of sharing gains most; *ranked* has all, in order."""
    rows, waits_s = _first(view, ranked, able, rules)
    waiting = waiting_sharers(view, rows, rules, hosts.slots)
    packing = rules.packing(demand(view, ranked))
    return Pairing(rows, waiting, tuple(_joins(view, rows, waiting, waits_s, hosts, rules, packing)))


def demand(view: View, ranked: IntArray) -> float:
    """Return the number of *ranked* jobs that wait for GPUs per GPU of the cluster."""
    gpus = int(view.nodes.gpus[view.nodes.usable].sum())
    return float(np.count_nonzero(view.pending.gpus[ranked])) / max(1, gpus)


def _first(view: View, ranked: IntArray, able: BoolArray, rules: SharingRules) -> tuple[IntArray, FloatArray]:
    """Return the first *able* jobs that would wait as long as the change takes, and how much longer."""
    longer = (
        (row, wait_s - rules.wait_s)
        for row, wait_s in waits(view, ranked, rules.partition)
        if able[row] and wait_s >= rules.wait_s
    )
    candidates = list(islice(longer, WINDOW))
    rows = np.array([row for row, _ in candidates], dtype=np.int64)
    return rows, np.array([wait_s for _, wait_s in candidates], dtype=np.float64)


@dataclass(frozen=True)
class Hosts:
    """The running jobs that a second job may join: each has GPUs that can be shared, and is alone on some of them."""

    rows: IntArray
    jobs: Sharers
    room: Room
    place: IntArray  #: of their node in *room*, row by row
    slots: SharedNodes | None = None  #: the nodes whose GPUs have slots; None where jobs share whole GPUs

    @classmethod
    def on_slots(cls, view: View, nodes: SharedNodes, rules: SharingRules) -> Self:
        """Return the hosts that have slots of GPUs of *nodes*."""
        jobs = view.running
        places = jobs.node_list.map([nodes.at.get(name, -1) for name in jobs.node_list.names], np.int64)
        there = np.flatnonzero(jobs.shares & (jobs.state == JobState.RUNNING) & (places >= 0))
        on_gpus = (places[there], *gpus_of_all(jobs, there))
        open_gpus, speed = nodes.open_counts(*on_gpus), _speeds(jobs.gpu_util[there], *pairs_on(*on_gpus), rules)
        is_open = open_gpus > 0
        at = there[is_open]
        barred = (is_barred(jobs, rules) | jobs.interactive | unsteady(jobs, rules))[at]
        sharers = sharers_of(jobs, at, view.remaining.median_s[at], barred, rules)
        sharers = replace(sharers, open_gpus=open_gpus[is_open], speed=_kept_speed(speed[is_open], sharers))
        return cls(at, sharers, nodes, places[at], nodes)

    @classmethod
    def on_whole_gpus(cls, view: View, room: Room, rules: SharingRules) -> Self:
        """Return the hosts that have all their GPUs on one node of the view; places in *room* are rows of its nodes."""
        jobs, number = view.running, {name: at for at, name in enumerate(view.nodes.name)}
        places = jobs.node_list.map([number.get(name, -1) for name in jobs.node_list.names], np.int64)
        alone = (jobs.beside == 0) & (jobs.guest_gpus < (jobs.gpus if rules.wide else 1))
        at = np.flatnonzero(alone & (jobs.state == JobState.RUNNING) & (places >= 0))
        barred = _any_of(own_bars(jobs.take(at), rules), len(at))
        sharers = sharers_of(jobs, at, view.remaining.median_s[at], barred, rules)
        speed = _speeds(jobs.gpu_util, *guests_and_hosts(jobs), rules)
        return cls(at, replace(sharers, speed=_kept_speed(speed[at], sharers)), room, places[at])

    def can_hold(self, jobs: JobTable, row: int) -> BoolArray:
        """Select hosts whose nodes have CPUs and memory left for the job in *row* of *jobs*."""
        fits: BoolArray = self.room.can_hold(jobs, row)[self.place]
        return fits

    def gpus_for(self, at: int, host_gpus: Sequence[int], gpus: int) -> tuple[int, ...]:
        """Return *gpus* of the GPUs of a host on which it is alone, by links; empty where GPUs have no slots."""
        if self.slots is None:
            return ()
        place = int(self.place[at])
        return self.slots.best(place, self.slots.open_gpus(place, host_gpus), gpus)


def guests_and_hosts(jobs: JobTable) -> tuple[IntArray, IntArray]:
    """Return the rows of guests, and of the job beside which each runs."""
    guests = np.flatnonzero(jobs.beside)
    row_of = {job_id: row for row, job_id in enumerate(jobs.job_id.tolist())} if len(guests) else {}
    return guests, np.array([row_of[job_id] for job_id in jobs.beside[guests].tolist()], dtype=np.int64)


def _speeds(gpu_util: FloatArray, one: IntArray, other: IntArray, rules: SharingRules) -> FloatArray:
    """Return the speed of each job beside those on its GPUs: the lowest; 1 alone. The indices are those of pairs."""
    speed = np.ones(len(gpu_util))
    beside = rules.packing().pair_speed(gpu_util[one] + gpu_util[other])
    for jobs in (one, other):
        np.minimum.at(speed, jobs, beside)
    return speed


def _kept_speed(speed: FloatArray, jobs: Sharers) -> FloatArray:
    """Return the speeds of *jobs* by the curve as far as their kinds keep them; 1 alone."""
    return np.where(speed < 1.0, speed * jobs.kept, speed)


def waiting_sharers(view: View, rows: IntArray, rules: SharingRules, slots: SharedNodes | None) -> Sharers:
    """Return the pending jobs in *rows* as candidates for sharing."""
    barred = _any_of(bars(view, rows, rules, slots), len(rows))
    runtime_s = np.fmin(view.forecast.runtime_s, view.pending.time_limit_s)[rows]
    return sharers_of(view.pending, rows, runtime_s, barred, rules)


Bar = tuple[BoolArray, str]
"""The jobs that a reason bars from sharing, and the reason."""


def bars(view: View, rows: IntArray, rules: SharingRules, slots: SharedNodes | None) -> list[Bar]:
    """Return the reasons that bar jobs in *rows* from sharing with any job: per reason a mask and its text."""
    jobs = view.pending.take(rows)
    return [*own_bars(jobs, rules), *(_place_bars(view, jobs, rules, slots) if slots is not None else ())]


def own_bars(jobs: JobTable, rules: SharingRules) -> list[Bar]:
    """Return the reasons that bar *jobs* from sharing wherever they run."""
    return [*_consent_bars(jobs, rules), *_request_bars(jobs)]


def _any_of(some: Sequence[Bar], count: int) -> BoolArray:
    barred = np.zeros(count, dtype=np.bool_)
    for holds, _ in some:
        barred |= holds
    return barred


def _mask(column: Labels, holds: Callable[[str], bool]) -> BoolArray:
    """Select the rows whose text *holds*."""
    mask: BoolArray = column.map([holds(text) for text in column.names], np.bool_)
    return mask


def _consent_bars(jobs: JobTable, rules: SharingRules) -> list[Bar]:
    """Return the bars by owners, by comments that cannot be changed, and by what came of earlier changes."""
    return [
        *consent_bars(jobs, rules),
        (_mask(jobs.share_token, bool), "its comment has a share token that is not ours"),
        (
            _mask(Labels.of(jobs.comment), lambda text: not is_plain(text)),
            "its comment has blanks or quotes, and could not be written back as it is",
        ),
        (unsteady(jobs, rules), "its load beside another job was unstable"),
        (_mask(jobs.share_refusal, bool), "Slurm refused it"),
    ]


def _request_bars(jobs: JobTable) -> list[Bar]:
    """Return the bars by requests for more than some GPUs of one node, and by promises."""
    return [
        (jobs.interactive, "it is interactive"),
        (jobs.exclusive, "it asks for whole nodes"),
        ((jobs.array_job_id > 0) | (jobs.tasks > 1), "it is an array, whose tasks would all get the same GPUs"),
        (jobs.het_job_id > 0, "it is part of a heterogeneous job"),
        (jobs.per_task, "it asks for generic resources per task or per socket"),
        (jobs.per_gpu, "it asks for CPUs or memory per GPU, or its partition does (DefCpuPerGPU, DefMemPerGPU)"),
        (_mask(jobs.per_node, more_than_gpus), "it asks for more than GPUs of its node"),
        (_mask(jobs.per_node, lambda text: len(requests_in(text)) > 1), "it asks for GPUs in several ways"),
        (jobs.given_back, "it was on its way to shared GPUs, did not start, and had its own GPUs back"),
        (np.isfinite(jobs.deadline_s), "it has a deadline"),
    ]


def _place_bars(view: View, jobs: JobTable, rules: SharingRules, nodes: SharedNodes) -> list[Bar]:
    """Return the bars by requests for nodes, GPUs or time that the shared nodes do not have."""
    limit_s = view.partitions.max_time_s[
        np.array([name == rules.partition for name in view.partitions.name], dtype=bool)
    ]
    types, there = set(nodes.gpu_types), set(nodes.partitions)
    return [
        (_mask(jobs.required_nodes, bool), "it asks for nodes"),
        (_mask(jobs.excluded_nodes, bool), "it excludes nodes"),
        (_mask(jobs.features, bool), "it asks for features"),
        (_mask(jobs.reservation, bool), "it asks for a reservation"),
        (
            _mask(jobs.gpu_type, lambda text: bool(text) and text not in types),
            "it asks for GPUs of a type that are not shared",
        ),
        (
            jobs.time_limit_s > limit_s.min(initial=np.inf),
            f"its time limit is longer than partition {rules.partition} has",
        ),
        (
            # Half-way it requests no GPUs at all, and must not start on that node through its own partition.
            _mask(jobs.partition, lambda text: any(not part.isdisjoint(text.split(",")) for part in there)),
            "its own partition has nodes on which GPUs are shared",
        ),
        (_owe_gpus(view, jobs), "a limit requires GPUs of it, and slots are none"),
    ]


def _owe_gpus(view: View, jobs: JobTable) -> BoolArray:
    """Select *jobs* of which a limit requires GPUs: with slots in their place they would never start."""
    limits = JobLimits(view.limits, view.partitions)
    if LEAST not in view.limits.counts.names:
        return np.zeros(len(jobs), dtype=np.bool_)
    return np.array([bool(limits.requires_gpus(jobs, row)) for row in range(len(jobs))], dtype=np.bool_)


def sharers_of(jobs: JobTable, rows: IntArray, ends_s: FloatArray, barred: BoolArray, rules: SharingRules) -> Sharers:
    """Return the jobs in *rows* as candidates for sharing; each ends in *ends_s* alone on its GPUs."""
    user, name = jobs.user.take(rows), jobs.name.take(rows)
    # Kinds matter only if something is known of some, and a long queue has many names.
    kinds = Labels.of(map(kind_of, user, name) if rules.failed or rules.kept else [""] * len(rows))
    kept = dict(rules.kept)
    return Sharers(
        job_id=jobs.job_id[rows],
        user=user,
        kind=kinds,
        gpus=jobs.gpus[rows],
        open_gpus=(jobs.gpus - jobs.guest_gpus)[rows],
        nodes=np.maximum(jobs.nodes[rows], 1),  # 0 leaves the number to whoever places the job
        score=jobs.share_score[rows],
        memory_mib=jobs.gpu_memory_mib[rows],
        gpu_util=jobs.gpu_util[rows],
        kept=kinds.map([kept.get(kind, 1.0) for kind in kinds.names], np.float64),
        speed=np.ones(len(rows)),
        left_s=ends_s,
        measured=jobs.measured[rows],
        unstable=jobs.unstable[rows],
        barred=barred,
    )


def more_than_gpus(request: str) -> bool:
    """Return whether a request names generic resources other than GPUs, which a change to slots would lose."""
    return any(name != "gpu" for name in requests_in(request))


def _joins(
    view: View,
    rows: IntArray,
    waiting: Sharers,
    waits_s: FloatArray,
    hosts: Hosts,
    rules: SharingRules,
    packing: PackingLimits,
) -> Iterator[Join]:
    """Yield the pairs of pending jobs and hosts; the nodes of the hosts have less room afterwards."""
    jobs, running, room, pairs = view.pending, hosts.jobs, hosts.room, SHARINGS.find(rules.rule)
    guests = {job_id: at for at, job_id in enumerate(waiting.job_id.tolist())}
    places = {job_id: at for at, job_id in enumerate(running.job_id.tolist())}
    free, cramped = np.ones(len(hosts.rows), dtype=np.bool_), []

    def made(pair: Pair) -> Join | None:
        nonlocal running
        at, row = places[pair.host], int(rows[guests[pair.guest]])
        place, host = int(hosts.place[at]), int(hosts.rows[at])
        # A plug-in's pairs keep the limits too: consent, users, memory, scores.
        if why_not(waiting, guests[pair.guest], running, at, packing) or not room.has_room(place, jobs, row):
            return None
        running = running.with_guest(at, waiting, guests[pair.guest], packing)
        free[at] = packing.wide and running.open_gpus[at] > 0
        join = Join(row, host, hosts.gpus_for(at, gpus_of(view.running, host), int(jobs.gpus[row])))
        room.take(place, jobs, row, join.gpus)
        return join

    for pair in pairs(waiting, waits_s, running, free, packing):
        if join := made(pair):
            yield join
        else:
            cramped.append(guests[pair.guest])
    for at in cramped[:CRAMPED]:  # the best host lacks CPUs or memory: try the next best
        candidates = free & hosts.can_hold(jobs, int(rows[at]))
        one = np.array([at])
        for pair in pairs(waiting.take(one), waits_s[one], running, candidates, packing) if candidates.any() else ():
            if join := made(pair):
                yield join
