"""Packing: advance jobs on their way to shared GPUs, and send others to a running job or to free GPUs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ...cluster.actions import Action, Share, Unmark, Unshare
from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import SETTLE_S, JobTable
from ...cluster.state import View
from ...cluster.text.comment import is_plain
from ...cluster.text.tres import gpus_in, slots_in
from ...decide.blocked import counts_for_a_limit, never_starts
from ...decide.rules import SharingRules
from ...decide.sharing.pair_eviction import unsteady
from ...decide.sharing.pairing import Hosts, Join, paired
from ...decide.sharing.shared_nodes import SharedNodes, shared_nodes
from ...policies.sharing_slots import SlotRequest, Token, next_step, without_token

_SLOTS_COUNT_AS = ("gres", "billing", "unknown")
"""The resources of Slurm's limits of groups and users of which slots, or their partition, may take more than GPUs."""

ROUNDED_S = 5.0  #: largest difference of a begin time from the requested one


def packing_wishes(
    view: View, ranked: IntArray, runs: BoolArray, rules: SharingRules, busy: Collection[int], *, joins: bool
) -> list[Action]:
    """Return actions that bring jobs to shared GPUs; *busy* are jobs with another action already.

    *ranked* jobs that would start now anyway (*runs*) are left alone. Without *joins* no job starts to share, and jobs
    on their way arrive or get their own GPUs back.
    """
    if not (view.pending.shares.any() or (joins and rules.makes_pairs)):
        return []
    nodes = shared_nodes(view, rules)
    wishes = _onward(view, nodes, rules, joins)
    if not joins or not rules.makes_pairs or not len(nodes):
        return wishes
    able = ~runs & ~np.isin(view.pending.job_id, list(busy))
    pairing = paired(view, ranked, able, Hosts.on_slots(view, nodes, rules), rules)
    joined = [_beside(view, join, nodes, rules) for join in pairing.joins]
    return [*wishes, *joined, *_come_first(view, pairing.rest(rules), nodes, rules)]


def _onward(view: View, nodes: SharedNodes, rules: SharingRules, joins: bool) -> list[Action]:
    """Return the next step of each job on its way.

    A job goes back if its node takes no jobs, Slurm does not start it there, its wait was too long, or it left an
    unstable pair.
    """
    jobs, until_s = view.pending, view.now_s + rules.wait_s
    late = view.now_s - jobs.eligible_s > rules.patience_s
    wishes: list[Action] = []
    left, settled = _left(jobs, rules, view.now_s)
    waits = _waits(jobs, rules, view.now_s)
    blocked = _blocked(jobs, jobs.shares, rules, view.now_s)
    for row in np.flatnonzero(jobs.shares & settled).tolist():
        stuck = late[row] or left[row] or jobs.required_nodes[row] not in nodes.at or blocked[row]
        wish = _step(
            jobs, row, jobs.own_whole_gpus[row], rules, until_s, waits=bool(waits[row]), ends=stuck, joins=joins
        )
        if wish is not None:
            wishes.append(wish)
    return wishes


def settle_shared(jobs: JobTable, asked_for: Mapping[int, str], rules: SharingRules, now_s: float) -> list[Action]:
    """Return actions that end all changes: jobs with slots may start, the others get their own GPUs back.

    Jobs that left an unstable pair get them back too, and those that Slurm does not start with slots. Our jobs are
    those whose former request is in *asked_for*.
    """
    ours, (left, settled) = np.isin(jobs.job_id, list(asked_for)), _left(jobs, rules, now_s)
    waits = _waits(jobs, rules, now_s)
    blocked = _blocked(jobs, ours, rules, now_s)
    steps = (
        _step(
            jobs,
            row,
            asked_for[int(jobs.job_id[row])],
            rules,
            now_s,
            waits=bool(waits[row]),
            ends=bool(left[row] or blocked[row]),
            joins=False,
        )
        for row in np.flatnonzero(ours & settled).tolist()
    )
    return [step for step in steps if step is not None]


def _blocked(jobs: JobTable, ours: BoolArray, rules: SharingRules, now_s: float) -> BoolArray:
    """Select those of *ours* that Slurm does not start with their slots: never, or because these count for a limit.

    Before its begin time, and on the way to its slots, Slurm's reason may be an earlier one.
    """
    blocked = np.zeros(len(jobs), dtype=np.bool_)
    for row in np.flatnonzero(ours & ~(jobs.eligible_s > now_s)).tolist():
        arrived = jobs.partition[row] == rules.partition and bool(slots_in(jobs.per_node[row]))
        blocked[row] = arrived and (never_starts(jobs, row) or counts_for_a_limit(jobs, row, *_SLOTS_COUNT_AS))
    return blocked


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


def _beside(view: View, join: Join, nodes: SharedNodes, rules: SharingRules) -> Share:
    """Return the action that sends a job to slots of GPUs of its host."""
    turns = view.pending.user[join.row] != view.running.user[join.host]
    token = Token(join.gpus, turns=turns)
    return _share(view, join.row, view.running.node_list[join.host], token, rules)


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
