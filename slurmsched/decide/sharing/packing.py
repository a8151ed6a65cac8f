"""Packing: advance jobs on their way to shared GPUs, and send others to a running job or to free GPUs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ...cluster.actions import Action, Share, Unmark, Unshare
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.job_kind import kind_of
from ...cluster.jobs import SETTLE_S, JobState, JobTable
from ...cluster.state import View
from ...cluster.text.comment import is_plain
from ...cluster.text.tres import gpus_in, requests_in
from ...policies.contract import SHARINGS
from ...policies.sharing import packable
from ...policies.sharing_candidates import Pair, Sharers
from ...policies.sharing_slots import SlotRequest, Token, next_step, without_token
from ..rules import SharingRules
from .pair_eviction import unsteady
from .queue_wait import left_s, waits
from .shared_nodes import SharedNodes, gpus_of, gpus_of_all, shared_nodes

WINDOW = 500  #: jobs from the top of the order that may share
ROUNDED_S = 5.0  #: largest difference of a begin time from the requested one
CRAMPED = 50  #: jobs of the window for which a second place is searched in one cycle


def packing_wishes(
    view: View, ranked: IntArray, runs: BoolArray, rules: SharingRules, busy: Collection[int], *, joins: bool
) -> list[Action]:
    """Return actions that bring jobs to shared GPUs; *busy* are jobs with another action already.

    *ranked* jobs that would start now anyway (*runs*) are left alone. Without *joins* no job starts to share, and jobs
    on their way arrive or get their own GPUs back.
    """
    if not (view.pending.shares.any() or (joins and rules.makes_pairs)):
        return []
    nodes = shared_nodes(view, rules.partition)
    wishes = _onward(view, nodes, rules, joins)
    if not joins or not rules.makes_pairs or not len(nodes):
        return wishes
    able = ~runs & ~np.isin(view.pending.job_id, list(busy))
    rows, waits_s = _first(view, ranked, able, rules)
    waiting = waiting_sharers(view, rows, rules, nodes)
    hosts = Hosts.of(view, nodes, rules)
    joined = _join(view, rows, waiting, waits_s, hosts, rules)
    rest = np.flatnonzero(packable(waiting, rules.packing()) & ~np.isin(waiting.job_id, [w.job_id for w in joined]))
    return [*wishes, *joined, *_come_first(view, rows[rest], nodes, rules)]


def _first(view: View, ranked: IntArray, able: BoolArray, rules: SharingRules) -> tuple[IntArray, FloatArray]:
    """Return the first *able* jobs that would wait longer than the change takes, and how much longer."""
    longer = (
        (row, wait_s - rules.wait_s)
        for row, wait_s in waits(view, ranked, rules.partition)
        if able[row] and wait_s > rules.wait_s
    )
    candidates = list(islice(longer, WINDOW))
    rows = np.array([row for row, _ in candidates], dtype=np.int64)
    return rows, np.array([wait_s for _, wait_s in candidates], dtype=np.float64)


@dataclass(frozen=True)
class Hosts:
    """The running jobs that a second job may join: each is alone on GPUs that can be shared."""

    rows: IntArray
    jobs: Sharers
    nodes: SharedNodes
    place: IntArray  #: of their node among *nodes*, row by row

    @classmethod
    def of(cls, view: View, nodes: SharedNodes, rules: SharingRules) -> Hosts:
        """Return the hosts in *view*."""
        jobs = view.running
        places = jobs.node_list.map([nodes.at.get(name, -1) for name in jobs.node_list.names], np.int64)
        at = np.flatnonzero(jobs.shares & (jobs.state == JobState.RUNNING) & (places >= 0))
        at = at[nodes.alone(places[at], *gpus_of_all(jobs, at))]
        barred = (jobs.nopack | jobs.off | jobs.interactive | unsteady(jobs, rules))[at]
        return cls(at, _sharers(jobs, at, left_s(view)[at], barred, rules), nodes, places[at])

    def can_hold(self, jobs: JobTable, row: int) -> BoolArray:
        """Select hosts whose nodes have CPUs and memory left for the job in *row* of *jobs*."""
        fits: BoolArray = self.nodes.can_hold(jobs, row)[self.place]
        return fits


def waiting_sharers(view: View, rows: IntArray, rules: SharingRules, nodes: SharedNodes) -> Sharers:
    """Return the pending jobs in *rows* as candidates for sharing."""
    jobs, barred = view.pending, np.zeros(len(rows), dtype=np.bool_)
    for holds, _ in bars(view, rows, rules, nodes):
        barred |= holds
    runtime_s = np.fmin(view.forecast.runtime_s, jobs.time_limit_s)[rows]
    return _sharers(jobs, rows, runtime_s, barred, rules)


Bar = tuple[BoolArray, str]
"""The jobs that a reason bars from sharing, and the reason."""


def bars(view: View, rows: IntArray, rules: SharingRules, nodes: SharedNodes) -> list[Bar]:
    """Return the reasons that bar jobs in *rows* from sharing with any job: per reason a mask and its text."""
    jobs = view.pending.take(rows)
    return [*_consent_bars(jobs, rules), *_request_bars(jobs), *_place_bars(view, jobs, rules, nodes)]


def _mask(column: Labels, holds: Callable[[str], bool]) -> BoolArray:
    """Select the rows whose text *holds*."""
    mask: BoolArray = column.map([holds(text) for text in column.names], np.bool_)
    return mask


def _consent_bars(jobs: JobTable, rules: SharingRules) -> list[Bar]:
    """Return the bars by owners, by comments that cannot be changed, and by what came of earlier changes."""
    return [
        (jobs.nopack | jobs.off, "its owner does not want to share"),
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
    ]


def _sharers(jobs: JobTable, rows: IntArray, ends_s: FloatArray, barred: BoolArray, rules: SharingRules) -> Sharers:
    user, name = jobs.user.take(rows), jobs.name.take(rows)
    # Kinds matter only if some failed, and a long queue has many names.
    kinds = map(kind_of, user, name) if rules.failed else [""] * len(rows)
    return Sharers(
        job_id=jobs.job_id[rows],
        user=user,
        kind=Labels.of(kinds),
        gpus=jobs.gpus[rows],
        nodes=jobs.nodes[rows],
        score=jobs.share_score[rows],
        memory_mib=jobs.gpu_memory_mib[rows],
        speed=np.full(len(rows), np.nan),
        left_s=ends_s,
        measured=jobs.measured[rows],
        unstable=jobs.unstable[rows],
        barred=barred,
    )


def more_than_gpus(request: str) -> bool:
    """Return whether a request names generic resources other than GPUs, which a change to slots would lose."""
    return any(name != "gpu" for name in requests_in(request))


def _onward(view: View, nodes: SharedNodes, rules: SharingRules, joins: bool) -> list[Action]:
    """Return the next step of each job on its way.

    A job goes back if its node takes no jobs, its wait was too long, or it left an unstable pair.
    """
    jobs, until_s = view.pending, view.now_s + rules.wait_s
    late = view.now_s - jobs.eligible_s > rules.patience_s
    wishes: list[Action] = []
    left, settled = _left(jobs, rules, view.now_s)
    waits = _waits(jobs, rules, view.now_s)
    for row in np.flatnonzero(jobs.shares & settled).tolist():
        stuck = late[row] or left[row] or jobs.required_nodes[row] not in nodes.at
        wish = _step(jobs, row, jobs.asked_for[row], rules, until_s, waits=bool(waits[row]), ends=stuck, joins=joins)
        if wish is not None:
            wishes.append(wish)
    return wishes


def settle_shared(jobs: JobTable, asked_for: Mapping[int, str], rules: SharingRules, now_s: float) -> list[Action]:
    """Return actions that end all changes: jobs with slots may start, the others get their own GPUs back.

    Jobs that left an unstable pair get them back too. Our jobs are those whose former request is in *asked_for*.
    """
    ours, (left, settled) = np.isin(jobs.job_id, list(asked_for)), _left(jobs, rules, now_s)
    waits = _waits(jobs, rules, now_s)
    steps = (
        _step(
            jobs,
            row,
            asked_for[int(jobs.job_id[row])],
            rules,
            now_s,
            waits=bool(waits[row]),
            ends=bool(left[row]),
            joins=False,
        )
        for row in np.flatnonzero(ours & settled).tolist()
    )
    return [step for step in steps if step is not None]


def _waits(jobs: JobTable, rules: SharingRules, now_s: float) -> BoolArray:
    """Select jobs that wait for the begin time of their change; a later one comes from the owner or a requeue."""
    waits: BoolArray = (jobs.eligible_s > now_s) & (jobs.eligible_s <= now_s + rules.wait_s + ROUNDED_S)
    return jobs.settled(now_s) & waits


def _left(jobs: JobTable, rules: SharingRules, now_s: float) -> tuple[BoolArray, BoolArray]:
    """Select *jobs* that were in an unstable pair, and jobs whose former run Slurm has finished with."""
    left = unsteady(jobs, rules)
    return left, ~left | jobs.submitted_before(now_s - SETTLE_S)


def _step(
    jobs: JobTable,
    row: int,
    asked_for: str,
    rules: SharingRules,
    until_s: float,
    *,
    waits: bool,
    ends: bool,
    joins: bool,
) -> Action | None:
    """Return the next step of a job on its way, or back if it *ends*; without *joins* no new change begins."""
    comment = jobs.comment[row]
    share = jobs.share_token[row]
    texts = (jobs.partition[row], jobs.required_nodes[row], jobs.per_node[row], comment, share)
    home, _, request = asked_for.partition(" ")
    job = SlotRequest(int(jobs.job_id[row]), *texts, waits, bool(jobs.per_task[row]))
    step = next_step(job, rules.partition, home, until_s)
    token, (gpus, kind) = Token.of(share), gpus_in(request)
    plain = is_plain(comment)
    if isinstance(step, Unmark) and plain:
        return step
    if token is None or ends or isinstance(step, Unshare) or (isinstance(step, Share) and not (joins and plain)):
        elsewhere = ",".join(name for name in jobs.partition[row].split(",") if name != rules.partition) or home
        own = without_token(comment, share) if token and plain else None
        return Unshare(int(jobs.job_id[row]), elsewhere, gpus or len(token.gpus if token else ()), own, until_s, kind)
    return replace(step, gpu_type=kind) if isinstance(step, Share) else step


def _join(
    view: View, rows: IntArray, waiting: Sharers, waits_s: FloatArray, hosts: Hosts, rules: SharingRules
) -> list[Share]:
    """Pair pending jobs with running ones, each where most time is gained."""
    jobs, packing, nodes, pairs = view.pending, rules.packing(), hosts.nodes, SHARINGS.find(rules.rule)
    guests = {job_id: at for at, job_id in enumerate(waiting.job_id.tolist())}
    places = {job_id: at for at, job_id in enumerate(hosts.jobs.job_id.tolist())}
    free, cramped = np.ones(len(hosts.rows), dtype=np.bool_), []
    wishes: list[Share] = []

    def make(pair: Pair) -> bool:
        at, row = places[pair.host], int(rows[guests[pair.guest]])
        place, host = int(hosts.place[at]), int(hosts.rows[at])
        if not nodes.has_room(place, jobs, row):
            return False
        free[at] = False
        nodes.take(place, jobs, row, gpus := gpus_of(view.running, host))
        turns = jobs.user[row] != view.running.user[host]
        wishes.append(_share(view, row, nodes.names[place], Token(gpus, turns=turns), rules))
        return True

    for pair in pairs(waiting, waits_s, hosts.jobs, free, packing):
        if not make(pair):
            cramped.append(guests[pair.guest])
    for at in cramped[:CRAMPED]:  # the best host lacks CPUs or memory: try the next best
        candidates = free & hosts.can_hold(jobs, int(rows[at]))
        one = np.array([at])
        for pair in pairs(waiting.take(one), waits_s[one], hosts.jobs, candidates, packing) if candidates.any() else ():
            make(pair)
    return wishes


def _come_first(view: View, rows: IntArray, nodes: SharedNodes, rules: SharingRules) -> list[Share]:
    """Send jobs to free GPUs of the fullest sharing node that has room, where others may join them."""
    jobs, wishes = view.pending, []
    most = int(nodes.free.max(initial=0))
    for row in rows.tolist():
        gpus = int(jobs.gpus[row])
        if gpus > most:
            continue
        fitting = np.flatnonzero((nodes.free >= gpus) & nodes.can_hold(jobs, row))
        if not len(fitting):
            continue
        place = int(fitting[np.argmin(nodes.free[fitting])])
        chosen = nodes.whole(place, gpus)
        nodes.take(place, jobs, row, chosen)
        most = int(nodes.free.max())
        wishes.append(_share(view, row, nodes.names[place], Token(chosen), rules))
    return wishes


def _share(view: View, row: int, node: str, token: Token, rules: SharingRules) -> Share:
    jobs = view.pending
    until_s = view.now_s + rules.wait_s
    job_id, home, comment = int(jobs.job_id[row]), jobs.partition[row], jobs.comment[row]
    return Share(job_id, home, rules.partition, node, str(token), comment, until_s, jobs.gpu_type[row])
