"""Which jobs share GPUs from now on: those on their way go on, others join a job or come first to a GPU. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..cluster.actions import Action, Share, StartShared, Unshare
from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.comment import read
from ..cluster.jobs import JobState, JobTable
from ..cluster.nodes import PartitionTable
from ..cluster.state import ClusterState, View
from ..cluster.names import kind_of
from ..policies.sharing import OFF, Pair, Sharers, packable, pairs
from ..policies.slots import Asked, Token, next_step, without_token
from ..slurm.verbs import PLAIN_COMMENT
from .rules import SharingRules
from .shared import SharedNode, gpus_of, shared_nodes, token_of
from .waits import left_s, own_waits_s

WINDOW = 500  #: jobs from the top of the order that may share


def packing_wishes(
    view: View, ranked: IntArray, runs: BoolArray, rules: SharingRules, busy: Collection[int]
) -> list[Action]:
    """What brings jobs to GPUs that they share; *busy* are jobs of which something else is wished already.

    Of the *ranked* jobs those that would start now anyway (*runs*) are left where they are.
    """
    nodes = shared_nodes(view, rules.partition)
    wishes = [*_onward(view, nodes, rules)]
    if rules.capacity == OFF or not nodes:
        return wishes
    free = ranked[~runs[ranked] & ~np.isin(view.pending.job_id[ranked], list(busy))]
    waits_s = own_waits_s(view, ranked, rules.partition) - rules.wait_s  # the change itself takes as long
    rows = free[waits_s[free] > 0.0][:WINDOW]
    waiting = waiting_sharers(view, rows, rules, nodes)
    hosts = Hosts.of(view, nodes)
    joined = _join(view, rows, waiting, waits_s[rows], hosts, rules)
    rest = np.flatnonzero(packable(waiting, rules.packing()) & ~np.isin(waiting.job_id, [w.job_id for w in joined]))
    return [*wishes, *joined, *_come_first(view, rows[rest], nodes, rules)]


@dataclass(frozen=True)
class Hosts:
    """Running jobs that a second one may join: each alone on GPUs that can be shared."""

    rows: IntArray
    jobs: Sharers
    places: tuple[SharedNode, ...]  #: row by row

    @classmethod
    def of(cls, view: View, nodes: dict[str, SharedNode]) -> Hosts:
        """Those of *view*."""
        jobs = view.running
        rows = [
            row
            for row in np.flatnonzero(jobs.shares & (jobs.state == JobState.RUNNING)).tolist()
            if (node := nodes.get(jobs.node_list[row]))
            and (gpus := gpus_of(jobs, row))
            and all(gpu < len(node.taken) and node.taken[gpu] == 1 for gpu in gpus)
        ]
        at = np.array(rows, dtype=np.int64)
        barred = np.array([_declined(jobs, row) for row in rows], dtype=np.bool_) | jobs.interactive[at]
        places = tuple(nodes[jobs.node_list[row]] for row in rows)
        return cls(at, _sharers(jobs, at, left_s(view)[at], barred), places)


def waiting_sharers(view: View, rows: IntArray, rules: SharingRules, nodes: dict[str, SharedNode]) -> Sharers:
    """The pending jobs in *rows* as they might share."""
    jobs, barred = view.pending, np.zeros(len(rows), dtype=np.bool_)
    for holds, _ in bars(view, rows, rules, nodes):
        barred |= holds
    runtime_s = np.fmin(view.forecast.runtime_s, jobs.time_limit_s)[rows]
    return _sharers(jobs, rows, runtime_s, barred)


def bars(view: View, rows: IntArray, rules: SharingRules, nodes: dict[str, SharedNode]) -> list[tuple[BoolArray, str]]:
    """What keeps the pending jobs in *rows* from sharing with whomever: which of them, and in words."""
    jobs = view.pending.take(rows)
    limit_s = view.partitions.max_time_s[
        np.array([name == rules.partition for name in view.partitions.name], dtype=bool)
    ]
    types, there = {node.gpu_type for node in nodes.values()}, [node.partitions for node in nodes.values()]

    def of(column: Labels, holds: list[bool]) -> BoolArray:
        found: BoolArray = column.map(holds, np.bool_)
        return found

    comment = Labels.of(jobs.comment)
    said = [read(text)[0] for text in comment.names]
    named = {"required_nodes": "nodes", "features": "features", "reservation": "a reservation"}
    return [
        (of(comment, [wish.nopack or wish.off for wish in said]) | jobs.off, "its owner does not want to share"),
        (of(comment, [wish.share is not None for wish in said]), "its comment has a share token that is not ours"),
        (
            of(comment, [not PLAIN_COMMENT.fullmatch(text) for text in comment.names]),
            "its comment has blanks or quotes, and could not be written back as it is",
        ),
        (jobs.interactive, "it is interactive"),
        (jobs.exclusive, "it asks for whole nodes"),
        ((jobs.array_job_id > 0) | (jobs.tasks > 1), "it is an array, whose tasks would all get the same GPUs"),
        (jobs.het_job_id > 0, "it is part of a heterogeneous job"),
        (jobs.per_task, "it asks for GPUs per task or per socket"),
        (np.isfinite(jobs.deadline_s), "it has a deadline"),
        *(
            (of(getattr(jobs, name), [bool(text) for text in getattr(jobs, name).names]), f"it asks for {what}")
            for name, what in named.items()
        ),
        (
            of(jobs.gpu_type, [bool(text) and text not in types for text in jobs.gpu_type.names]),
            "it asks for GPUs of a type that are not shared",
        ),
        (
            jobs.time_limit_s > limit_s.min(initial=np.inf),
            f"its time limit is longer than partition {rules.partition} has",
        ),
        (
            # Half-way it asks for no GPUs at all, and must not find its node in a partition of its own.
            of(
                jobs.partition,
                [any(not part.isdisjoint(text.split(",")) for part in there) for text in jobs.partition.names],
            ),
            "its own partition has nodes on which GPUs are shared",
        ),
    ]


def _sharers(jobs: JobTable, rows: IntArray, ends_s: FloatArray, barred: BoolArray) -> Sharers:
    some = jobs.take(rows)
    kinds = [kind_of(user, name) for user, name in zip(some.user, some.name, strict=True)]
    return Sharers(
        job_id=some.job_id,
        user=some.user,
        kind=Labels.of(kinds),
        gpus=some.gpus,
        nodes=some.nodes,
        score=some.share_score,
        memory_mib=some.gpu_memory_mib,
        speed=np.full(len(some), np.nan),
        left_s=ends_s,
        measured=some.measured,
        unstable=some.unstable,
        barred=barred,
    )


def _declined(jobs: JobTable, row: int) -> bool:
    wishes = read(jobs.comment[row])[0]
    return wishes.nopack or wishes.off


def _onward(view: View, nodes: dict[str, SharedNode], rules: SharingRules) -> list[Action]:
    """The next step of each job on its way; back where its node takes no jobs any more."""
    jobs, until_s, home = view.pending, view.now_s + rules.wait_s, home_of(view.partitions, rules)
    wishes: list[Action] = []
    for row in np.flatnonzero(jobs.shares).tolist():
        asked = _asked(jobs, row)
        if token_of(jobs, row) is not None and asked.required_nodes not in nodes:
            wishes.append(_back(asked, home, rules, until_s))
        elif (step := next_step(asked, rules.partition, home, until_s)) is not None:
            wishes.append(step)
    return wishes


def settle_shared(state: ClusterState, ours: Collection[int], rules: SharingRules, now_s: float) -> list[Action]:
    """What leaves no job of *ours* half-way: those with slots may start, the others have their own GPUs again."""
    jobs = state.pending
    wishes: list[Action] = []
    for row in np.flatnonzero(np.isin(jobs.job_id, list(ours))).tolist():
        asked = _asked(jobs, row)
        match next_step(asked, rules.partition, home_of(state.partitions, rules), now_s):
            case Share():
                wishes.append(_back(asked, home_of(state.partitions, rules), rules, now_s))
            case StartShared() | Unshare() as step:
                wishes.append(step)
    return wishes


def home_of(partitions: PartitionTable, rules: SharingRules) -> str:
    """Where jobs wait that are in no partition but the sharing one."""
    return rules.home or next((name for name in partitions.name if name != rules.partition), "")


def _asked(jobs: JobTable, row: int) -> Asked:
    texts = (jobs.partition[row], jobs.required_nodes[row], jobs.per_node[row], jobs.comment[row])
    return Asked(int(jobs.job_id[row]), *texts)


def _back(job: Asked, home: str, rules: SharingRules, until_s: float) -> Unshare:
    """What gives a job with our token its own GPUs back."""
    share = read(job.comment)[0].share or ""
    token = Token.of(share)
    elsewhere = ",".join(name for name in job.partition.split(",") if name != rules.partition) or home
    gpus = len(token.gpus) if token else 0
    return Unshare(job.job_id, elsewhere, gpus, without_token(job.comment, share), until_s)


def _join(
    view: View, rows: IntArray, waiting: Sharers, waits_s: FloatArray, hosts: Hosts, rules: SharingRules
) -> list[Share]:
    """Jobs that join a running one, each where most time is gained."""
    jobs, packing = view.pending, rules.packing()
    guests = {job_id: at for at, job_id in enumerate(waiting.job_id.tolist())}
    places = {job_id: at for at, job_id in enumerate(hosts.jobs.job_id.tolist())}
    free, cramped = np.ones(len(hosts.rows), dtype=np.bool_), []
    wishes: list[Share] = []

    def make(pair: Pair) -> bool:
        at, row = places[pair.host], int(rows[guests[pair.guest]])
        node, host = hosts.places[at], int(hosts.rows[at])
        if not node.has_room(jobs, row):
            return False
        free[at] = False
        node.take(jobs, row, gpus := gpus_of(view.running, host))
        wishes.append(_share(view, row, node, Token(gpus, turns=jobs.user[row] != view.running.user[host]), rules))
        return True

    for pair in pairs(waiting, waits_s, hosts.jobs, free, packing):
        if not make(pair):
            cramped.append(guests[pair.guest])
    for at in cramped:  # where it would gain most its CPUs or memory are not left: the next best
        room = free & np.array([node.has_room(jobs, int(rows[at])) for node in hosts.places], dtype=np.bool_)
        one = np.array([at])
        for pair in pairs(waiting.take(one), waits_s[one], hosts.jobs, room, packing):
            make(pair)
    return wishes


def _come_first(view: View, rows: IntArray, nodes: dict[str, SharedNode], rules: SharingRules) -> list[Share]:
    """Jobs that go to free GPUs of a sharing node, where others may join them: the fullest node that has room."""
    jobs, wishes = view.pending, []
    for row in rows.tolist():
        gpus = int(jobs.gpus[row])
        fitting = [node for node in nodes.values() if len(node.whole()) >= gpus and node.has_room(jobs, row)]
        if not fitting:
            continue
        node = min(fitting, key=lambda each: (len(each.whole()), each.name))
        chosen = tuple(node.whole()[:gpus])
        node.take(jobs, row, chosen)
        wishes.append(_share(view, row, node, Token(chosen), rules))
    return wishes


def _share(view: View, row: int, node: SharedNode, token: Token, rules: SharingRules) -> Share:
    jobs = view.pending
    until_s = view.now_s + rules.wait_s
    return Share(int(jobs.job_id[row]), jobs.partition[row], node.name, str(token), jobs.comment[row], until_s)
