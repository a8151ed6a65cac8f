"""Explanations of sharing: possible partners of a job, or the reason for none, from a view, its plan and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...cluster.actions import Share, Unmark, Unshare
from ...cluster.job_kind import kind_of
from ...cluster.jobs import JobTable
from ...cluster.plan import Plan
from ...cluster.state import View
from ...cluster.text.plural import count
from ...cluster.text.tres import requests_in
from ...decide.phrasing import spell
from ...decide.rules import Rules, SharingRules
from ...decide.sharing.pair_eviction import eviction_words
from ...decide.sharing.pairing import Hosts, bars, demand, waiting_sharers
from ...decide.sharing.queue_wait import own_waits_s
from ...decide.sharing.shared_nodes import SharedNodes, gpus_of, shared_nodes, token_of
from ...policies.contract import SHARINGS
from ...policies.sharing import allowed, gains_s, why_not
from ...policies.sharing_candidates import OFF, PackingLimits
from ...policies.sharing_slots import Token

SHOWN = 3  #: running jobs for which the reason against pairing is given


def company_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about a job, those with which it shares or might, and its pair where that is unstable."""
    if rules.sharing is not None and "share" in rules.powers:
        yield from sharing_words(view, plan, rules.sharing, job_id)
        yield from eviction_words(view, job_id, rules)


def sharing_words(view: View, plan: Plan, rules: SharingRules, job_id: int) -> tuple[str, ...]:
    """Return sentences about a job and sharing; empty for a job without GPUs."""
    row = view.pending.row_of(job_id)
    if row is not None and view.pending.gpus[row] > 0:
        return (_pending_words(view, plan, rules, row),)
    at = view.running.row_of(job_id)
    return () if at is None else _running_words(view, at, rules)


def _running_words(view: View, row: int, rules: SharingRules) -> tuple[str, ...]:
    jobs = view.running
    mine = set(gpus_of(jobs, row))
    if not mine:
        return ()
    if set(requests_in(request := jobs.per_node[row])) - {"slot"}:
        return (f"It requests {request}, more than its slots: it may have GPUs that other jobs share.",)
    beside = [
        other
        for other in np.flatnonzero(jobs.node_list.codes == jobs.node_list.codes[row]).tolist()
        if other != row and mine & set(gpus_of(jobs, other))
    ]
    names = ", ".join(str(jobs.job_id[other]) for other in beside)
    company = f"with job {names}" if beside else "and is alone on them now"
    return (
        f"It has {_gpus(tuple(sorted(mine)))} of {jobs.node_list[row]} as a job that shares, {company}.",
        *(
            _expected(
                int(jobs.job_id[other]),
                float(jobs.gpu_util[row] + jobs.gpu_util[other]),
                tuple(_kept(jobs, at, rules) for at in (row, other)),
                rules.packing(),
            )
            for other in beside
        ),
    )


def _kept(jobs: JobTable, row: int, rules: SharingRules) -> float:
    return dict(rules.kept).get(kind_of(jobs.user[row], jobs.name[row]), 1.0)


def _expected(partner: int, util_sum: float, kept: Sequence[float], packing: PackingLimits) -> str:
    """Return a sentence about the speeds of two jobs of which kinds *kept* so much of the curve, and their source."""
    speed = float(packing.pair_speed(np.array([util_sum]))[0])
    use = "unmeasured use" if np.isnan(util_sum) else f"{util_sum:.0%} of a GPU in use by both"
    mine, other = (speed * part for part in kept)
    if mine == other == speed:
        return f"Beside job {partner} each is expected to keep {speed:.2f} of its speed (speed curve, {use})."
    words = f"Beside job {partner} it is expected to keep {mine:.2f} of its speed, and that job {other:.2f}"
    return f"{words} (speed curve: {speed:.2f}, {use}; measured of their kinds: {kept[0]:g} and {kept[1]:g} of that)."


def _pending_words(view: View, plan: Plan, rules: SharingRules, row: int) -> str:
    jobs, nodes = view.pending, shared_nodes(view, rules)
    here = (
        each for each in plan.actions if isinstance(each, Share | Unmark | Unshare) and each.job_id == jobs.job_id[row]
    )
    wish = next(here, None)
    refusal = (
        f" Slurm refused a change of its GPUs: {refused_with}." if (refused_with := jobs.share_refusal[row]) else ""
    )
    if isinstance(wish, Unshare):
        return (
            "It has GPUs of its own back: what it asks for is not what it was to share, or it waited for too long."
            f"{refusal}"
        )
    if isinstance(wish, Unmark):
        return f"It keeps GPUs of its own for now: a change to shared ones did not come so far.{refusal}"
    if (token := token_of(jobs, row)) is not None:
        return f"It waits for {_gpus(token.gpus)} of {jobs.required_nodes[row] or 'a node'}, to share them.{refusal}"
    if refusal:
        return f"It shares no GPUs for now.{refusal}"
    if isinstance(wish, Share) and (token := Token.of(wish.token)) is not None:
        return f"It goes to {_gpus(token.gpus)} of {wish.node}, to share them{_beside(view, wish.node, token)}."
    if not SHARINGS.find(rules.rule).pairs_jobs:
        return f"No jobs share GPUs: policy.sharing is {rules.rule}."
    if rules.capacity == OFF:
        return "No jobs share GPUs now: enough GPUs are free."
    if not len(nodes):
        return f"It shares no GPUs: no node of partition {rules.partition} takes jobs."
    rows = np.array([row], dtype=np.int64)
    barred = [words for holds, words in bars(view, rows, rules, nodes) if holds[0]]
    if barred:
        return f"It shares no GPUs: {barred[0]}."
    return _about_hosts(view, plan, rules, row, nodes)


def _about_hosts(view: View, plan: Plan, rules: SharingRules, row: int, nodes: SharedNodes) -> str:
    """Return a sentence about running jobs that a job, itself not barred, might join, or the reasons against."""
    rows = np.array([row], dtype=np.int64)
    ranked = np.flatnonzero(plan.jobs.rank >= 0)
    ranked = ranked[np.argsort(plan.jobs.rank[ranked], kind="stable")]
    packing = rules.packing(demand(view, ranked))
    one, hosts = waiting_sharers(view, rows, rules, nodes), Hosts.on_slots(view, nodes, rules)
    own = next(
        (
            words
            for holds, words in (
                (bool(one.measured[0]), "neither it nor a job of its kind was ever measured"),
                (not one.unstable[0], "its use of GPUs is unstable"),
                (one.nodes[0] == 1, "only jobs with GPUs of one node share"),
                (one.score[0] <= packing.capacity, f"its share score {one.score[0]} is more than {packing.capacity}"),
                (one.memory_mib[0] < packing.memory_mib, "it leaves no GPU memory to others"),
            )
            if not holds
        ),
        "",
    )
    if own:
        return f"It shares no GPUs: {own}."
    partners = np.flatnonzero(allowed(one, hosts.jobs, packing)[0])
    if len(partners):
        waits_s = own_waits_s(view, ranked, rules.partition)[rows]
        gain_s = gains_s(one, waits_s - rules.wait_s, hosts.jobs, packing)[0][partners]
        best = int(partners[np.argmax(gain_s)])
        names = ", ".join(str(job_id) for job_id in hosts.jobs.job_id[partners][:SHOWN].tolist())
        if not gain_s.max() > 0.0:
            own_wait = f"its own GPUs are about {spell(float(waits_s[0]))} away"
            return f"It may share with job {names}, but that gains no time: {own_wait}."
        if not hosts.can_hold(view.pending, row)[best]:
            return f"It may share with job {names}, but CPUs or memory of their nodes do not suffice."
        util_sum, partner = float(one.gpu_util[0] + hosts.jobs.gpu_util[best]), int(hosts.jobs.job_id[best])
        kept = float(one.kept[0]), float(hosts.jobs.kept[best])
        return f"It may share with job {names}. {_expected(partner, util_sum, kept, packing)}"
    against = [
        f"job {hosts.jobs.job_id[at]}: {why_not(one, 0, hosts.jobs, at, packing)}"
        for at in range(min(len(hosts.rows), SHOWN))
    ]
    return f"It may share, but not with any running job: {'; '.join(against) or 'none of them is alone on a GPU'}."


def _beside(view: View, node: str, token: Token) -> str:
    jobs = view.running
    partners = [
        str(jobs.job_id[row])
        for row in np.flatnonzero(
            jobs.node_list.map([name == node for name in jobs.node_list.names], np.bool_)
        ).tolist()
        if set(gpus_of(jobs, row)) & set(token.gpus)
    ]
    return f" with job {', '.join(partners)}" if partners else "; it comes first"


def _gpus(gpus: tuple[int, ...]) -> str:
    return f"{count(len(gpus), 'GPU')} ({'+'.join(map(str, gpus))})"
