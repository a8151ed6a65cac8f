"""Leases: running jobs with ``ckpt`` that had theirs yield to pending jobs that come before them in the order. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.actions import Action
from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.state import View
from ...policies.contract import Ordering
from ..node_pools import NodePools
from ..ordering.ranking import classes
from ..rules import LeaseRules, Rules
from ..run_set import order_with_running
from .gpu_availability import GpuAvailability
from .preemption import YieldingJobs, stop_actions
from .stops import Stops, awaited_s, stop_cost_s, stops_for_order

MOST = 64
"""Number of jobs from the top of the order for which room is made in one decision."""

_NONE: IntArray = np.zeros(0, dtype=np.int64)

MARGIN = 0.5
"""Running jobs are assumed to end by the median of their forecast."""


def lease_wishes(
    view: View, ordering: Ordering, rules: Rules, ranked: IntArray, starving: BoolArray, busy: Collection[int]
) -> list[Action]:
    """Return the actions that make room for the first of the *ranked* pending jobs, by stops of jobs behind them.

    In Slurm's own order there are none: it does not rank running jobs. Jobs in *busy* have another action already.
    """
    terms, stopping = rules.lease, stops_for_order(view, rules)
    if terms is None or stopping is None or ordering.native or not len(ranked):
        return []
    view = _with_present_runs(view)
    able = _able(view, stopping, terms) & ~np.isin(view.running.job_id, list(busy))
    if not able.any():
        return []
    turn = _turn(view, ordering, rules, ranked, starving, stopping, able)
    if not len(turn.claims) or not turn.behind.any():
        return []
    availability = GpuAvailability(view, MARGIN, terms.lead_s)
    availability.open(turn.claims)
    start_s = view.now_s + max(terms.lead_s, 1.0) + 1.0
    requests = availability.requests(turn.claims, np.full(len(turn.claims), np.inf), start_s)
    requests = replace(requests, due_s=start_s + requests.needs_s)
    nobody = np.zeros(len(view.running), dtype=np.bool_)
    choice = YieldingJobs(view, terms.part, stopping, availability, requests, turn.loss, nobody)
    rows = choice.rows(turn.behind & availability.holding(turn.claims))
    return stop_actions(view, rows, stopping, terms.stop_signal)


def next_lease_change_s(view: View, ordering: Ordering, rules: Rules) -> float:
    """Return the time from which ``lease_wishes`` may differ by time alone; now for one that may differ at once.

    Without a change of keys that is where leases end, stops are over, or running jobs pass what is forecast of them.
    """
    terms, stopping = rules.lease, stops_for_order(view, rules)
    if terms is None or stopping is None or ordering.native or not len(view.pending):
        return np.inf
    jobs, now_s, lead_s = view.running, view.now_s, max(terms.lead_s, 1.0)
    able = _able(_with_present_runs(view), stopping, terms)
    if able.any() and ordering.changes != "never":
        return now_s
    known = np.isfinite(stopping.by_s) & ~stopping.leaving & ~stopping.promised
    asked_s, leased_s = jobs.asked_s[stopping.awaited], stopping.by_s[known] - terms.stop_s - terms.lead_s
    ranked_s = (jobs.started_s + view.forecast_running.rank_s)[known]
    ends_s = GpuAvailability(view.take(_NONE), MARGIN, terms.lead_s).ends_s if able.any() else np.zeros(0)
    times_s = np.concatenate(
        [
            leased_s,
            asked_s + terms.stop_s,
            asked_s + awaited_s(terms),
            ranked_s,
            ranked_s - stop_cost_s(jobs, terms)[known],
            ends_s,
            ends_s - lead_s - 1.0,
        ]
    )
    return float(np.min(times_s[times_s > now_s], initial=np.inf))


@dataclass(frozen=True, eq=False)
class _Turn:
    """Pending jobs whose turn it is, and the running jobs that are behind all of them."""

    claims: IntArray  #: pending rows
    behind: BoolArray  #: running jobs that may be stopped
    loss: FloatArray  #: of each running job, the smaller the farther back it is in the order


def _turn(
    view: View,
    ordering: Ordering,
    rules: Rules,
    ranked: IntArray,
    starving: BoolArray,
    stopping: Stops,
    able: BoolArray,
) -> _Turn:
    """Fill the GPUs of each pool in the order, up to the first job for which there are too few.

    Jobs that go on in any case come first: those that may not be stopped, or had no whole lease.
    """
    running, count = view.running, len(view.running)
    promised = np.isin(view.pending.job_id, view.promises.job_id[view.promises.open])
    rows = ranked[(view.pending.gpus[ranked] > 0) & ~promised[ranked]]
    jobs = running.joined(view.pending.take(rows))
    first = np.concatenate([~able, np.zeros(len(rows), dtype=np.bool_)])
    level = classes(jobs, view.partitions, view.qos, across_qos=rules.scope == "queue")
    starved = np.concatenate([np.zeros(count, dtype=np.bool_), starving[rows]])
    order = order_with_running(view, rows, ordering, (~starved, -level, ~first))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    gpus = np.where(np.append(stopping.leaving, np.zeros(len(rows), dtype=np.bool_)), 0, jobs.gpus)
    pools = NodePools(view.nodes)
    pool, inside = pools.of(jobs.partition), np.zeros(len(jobs), dtype=np.bool_)
    for number in np.unique(pool[pool >= 0]).tolist():
        mine = order[pool[order] == number]
        has = int(view.nodes.gpus[(pools.of_nodes == number) & view.nodes.usable].sum())
        inside[mine] = np.logical_and.accumulate(np.cumsum(gpus[mine]) <= has)
    turns = order[(order >= count) & inside[order]][:MOST]
    last = place[turns].max(initial=-1)
    return _Turn(rows[turns - count], able & (place[:count] > last), (len(order) - place[:count]).astype(np.float64))


def _with_present_runs(view: View) -> View:
    """Return the view with the time that running jobs ran so far; Slurm shows that of earlier runs alone."""
    running = view.running
    this_s = np.maximum(view.now_s - np.nan_to_num(running.started_s, nan=view.now_s), 0.0)
    return replace(view, running=replace(running, ran_s=np.maximum(running.ran_s, this_s)))


def _able(view: View, stopping: Stops, terms: LeaseRules) -> BoolArray:
    """Select running jobs that may yield now, or were asked to: they would hold their GPUs for longer than that costs.

    A job that has outlasted its forecast may run for any time.
    """
    left_s = view.forecast_running.rank_s - view.running.ran_s
    left_s = np.where(left_s > 0, left_s, np.inf)
    worth = left_s > stop_cost_s(view.running, terms)
    return np.asarray((stopping.awaited | (stopping.may & worth)) & ~stopping.promised)
