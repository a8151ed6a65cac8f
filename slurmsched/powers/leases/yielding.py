"""Leases: running jobs with ``ckpt`` that had theirs yield to pending jobs that come before them in the order. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.actions import Action
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.exclusions import sent_to
from ...cluster.outlook.remaining import ROUNDING_S
from ...cluster.run_types import run_types
from ...cluster.state import View
from ...cluster.ties import in_ms
from ...decide.deadlines.gpu_availability import GpuAvailability
from ...decide.deadlines.preemption import YieldingJobs, stop_actions
from ...decide.deadlines.stops import Stops, awaited_s, stops_for_order
from ...decide.node_pools import NodePools
from ...decide.ordering.ranking import classes
from ...decide.rules import LeaseRules, Rules
from ...decide.run_set import order_with_running
from ...policies.contract import Ordering
from ...policies.deadlines.stop_costs import stop_costs_s

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
    view = _with_types_sent_to(_with_present_runs(view))
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
    choice = YieldingJobs(view, terms.part, stopping, availability, requests, turn.loss)
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
    asked_s, leased_s = jobs.stop_requested_s[stopping.awaited], stopping.by_s[known] - terms.stop_s - terms.lead_s
    forecast_s, cost_s = view.now_s + view.remaining.median_s, stop_costs_s(jobs, terms, terms.stop_s)
    ends_s = GpuAvailability(view.take(_NONE), MARGIN, terms.lead_s).ends_s if able.any() else np.zeros(0)
    times_s = np.concatenate(
        [
            leased_s,
            asked_s + terms.stop_s,
            asked_s + awaited_s(terms),
            forecast_s[known] + ROUNDING_S,
            (forecast_s - cost_s)[known],
            (view.now_s + cost_s - view.ran_s)[known],
            (jobs.started_s + jobs.time_limit_s - cost_s)[known],
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
    kind = _type_of(view, rows)
    inside = _with_a_place(view, jobs.partition, kind, gpus, order)
    turns = order[(order >= count) & inside[order]][:MOST]
    last = np.full(int(kind.max(initial=-1)) + 2, -1)  # of each type; the last one is that of jobs for any type
    np.maximum.at(last, kind[turns], place[turns])
    behind = place[:count] > np.where(kind[:count] >= 0, np.maximum(last[kind[:count]], last[-1]), last.max())
    return _Turn(rows[turns - count], able & behind, (len(order) - place[:count]).astype(np.float64))


def _with_a_place(view: View, partition: Labels, kind: IntArray, gpus: IntArray, order: IntArray) -> BoolArray:
    """Select the jobs that have a place if GPUs of each pool are given out in this *order*, whatever does not fit last.

    A job of a *kind*, a type of GPU, has one among the GPUs of that type, one of kind -1 among all that are left.
    """
    nodes, pools, inside = view.nodes, NodePools(view.nodes), np.zeros(len(gpus), dtype=np.bool_)
    pool, types = pools.of(partition), _types(view)
    number = nodes.gpu_type.map([types.index(name) if name in types else -1 for name in nodes.gpu_type.names], np.int64)
    for one in np.unique(pool[pool >= 0]).tolist():
        mine, here = order[pool[order] == one], (pools.of_nodes == one) & nodes.usable
        for each in np.unique(kind[mine][kind[mine] >= 0]).tolist():
            typed = mine[kind[mine] == each]
            inside[typed] = _fitting(gpus[typed], int(nodes.gpus[here & (number == each)].sum()))
        counted = np.where((kind[mine] < 0) | inside[mine], gpus[mine], 0)
        any_type = kind[mine] < 0
        inside[mine[any_type]] = _fitting(counted, int(nodes.gpus[here].sum()))[any_type]
    return inside


def _fitting(gpus: IntArray, has: int) -> BoolArray:
    """Select the first jobs that fit together on so many GPUs."""
    return np.asarray(np.logical_and.accumulate(np.cumsum(gpus) <= has), np.bool_)


def _types(view: View) -> tuple[str, ...]:
    """Return the types of GPUs of the nodes; none where they are of one."""
    names = sorted(set(view.nodes.gpu_type.take(view.nodes.gpus > 0)))
    return tuple(names) if len(names) > 1 else ()


def _type_of(view: View, rows: IntArray) -> IntArray:
    """Return the number of the type of GPU of the running jobs, then of pending *rows*; -1 where it is not one."""
    number = {name: place for place, name in enumerate(_types(view))}
    running = (
        [number.get(name, -1) for name in run_types(view.running, view.nodes)] if number else [-1] * len(view.running)
    )
    waiting = view.pending.gpu_type
    pending = waiting.map([number.get(name, -1) for name in waiting.names], np.int64)[rows]
    return np.concatenate([np.array(running, dtype=np.int64), pending])


def _with_types_sent_to(view: View) -> View:
    """Return the view with the types that jobs were sent to as those that they ask for, since no other is open."""
    jobs = view.pending
    sent = jobs.steered.map([bool(sent_to(name)) for name in jobs.steered.names], np.bool_) & ~jobs.gpu_type.nonempty()
    if not sent.any():
        return view
    both = jobs.gpu_type.joined(jobs.steered)
    codes = np.where(sent, both.codes[len(jobs) :], both.codes[: len(jobs)])
    return view.changed(pending=jobs.changed(gpu_type=Labels(codes, both.names)))


def _with_present_runs(view: View) -> View:
    """Return the view with the time that running jobs ran so far; Slurm shows that of earlier runs alone."""
    return view.changed(running=view.running.changed(ran_s=view.ran_s))


def _able(view: View, stopping: Stops, terms: LeaseRules) -> BoolArray:
    """Select running jobs that may yield now, or were asked to: they still need longer than a stop costs."""
    worth = in_ms(view.remaining.median_s) > in_ms(stop_costs_s(view.running, terms, terms.stop_s))
    return np.asarray((stopping.awaited | (stopping.may & worth)) & ~stopping.promised)
