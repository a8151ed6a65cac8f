"""Stops: the running jobs that can make room for other jobs, and the times by which they can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, among
from ...cluster.jobs import JobState, JobTable
from ...cluster.state import View
from ...policies.deadlines.lease_schedule import can_be_stopped
from ..ordering.ranking import qos_classes
from ..rules import DeadlineRules, LeaseRules, MigrationRules, ResizingRules, Rules

Terms = DeadlineRules | LeaseRules | ResizingRules


@dataclass(frozen=True, eq=False)
class Stops:
    """The running jobs that can make room, one column value per running job."""

    by_s: FloatArray  #: the end of each if it is asked as soon as allowed; infinite if it never is
    may: BoolArray  #: can be asked now: its lease is over, and the daily limit is not reached
    awaited: BoolArray  #: was asked to stop, lately enough to count
    overdue: BoolArray  #: was asked to stop, and its time to save is over
    leaving: BoolArray  #: is ending already
    promised: BoolArray  #: has an open promise
    pending: BoolArray  #: pending jobs that can make room once they run

    @property
    def placed(self) -> BoolArray:
        """The jobs with a promise that plans place anew, since they can be stopped."""
        return np.asarray(self.promised & np.isfinite(self.by_s) & ~self.leaving)


def stops(view: View, rules: Rules) -> Stops | None:
    """Return the running jobs that can make room for promises; None if the rules allow no stop requests.

    Arrays and parts of heterogeneous jobs are left alone: a signal to a task may reach its whole array. So are jobs of
    partitions that we do not order, and jobs that Slurm would restart before the promised one. A lease of a promised
    job is longer than that of others.
    """
    terms = rules.deadlines
    if terms is None or not terms.yields or "requeue" not in rules.powers:
        return None
    return _stops(view, rules, terms, terms.promised_lease_s, _above(view, rules))


def stops_for_order(view: View, rules: Rules) -> Stops | None:
    """Return the running jobs that can make room for jobs earlier in the order; None if the rules allow none.

    Those with a promise never do.
    """
    if rules.lease is None or not rules.powers >= {"order", "requeue"}:
        return None
    return _stops(view, rules, rules.lease, np.inf, np.zeros(len(view.running), dtype=np.bool_))


def may_leave(view: View, rules: MigrationRules, within: Rules) -> BoolArray:
    """Select the running jobs that may be asked to leave their nodes: as for other stops, and once in a while."""
    jobs = view.running
    promised = among(jobs.job_id, view.promises.job_id[view.promises.open])
    alone = ~jobs.shares & (jobs.beside == 0) & (jobs.guest_gpus == 0)
    last_s = np.fmax(jobs.stop_requested_s, np.where(jobs.left_s > 0, jobs.left_s, -np.inf))
    rested = view.now_s - last_s >= rules.every_s
    open_to_us = (jobs.gpus > 0) & (jobs.state == JobState.RUNNING) & (jobs.stop_requests < within.asks_a_day)
    return np.asarray(_agreed(jobs, within) & open_to_us & alone & rested & ~promised)


def stops_for_sizes(view: View, rules: Rules) -> Stops | None:
    """Return the running jobs that can come back with another number of GPUs; None if the rules allow none.

    Those with a promise never do.
    """
    if rules.resizing is None or not rules.powers >= {"resize", "requeue"}:
        return None
    return _stops(view, rules, rules.resizing, np.inf, np.zeros(len(view.running), dtype=np.bool_))


def awaited_s(terms: Terms) -> float:
    """Return the time for which a request to stop counts."""
    return max(terms.lease_s, 2 * terms.stop_s)


def _stops(view: View, rules: Rules, terms: Terms, promised_lease_s: float, above: BoolArray) -> Stops:
    """Return the running jobs that can make room by *terms*, without those *above* the jobs that need it."""
    jobs, now_s = view.running, view.now_s
    promised = among(jobs.job_id, view.promises.job_id[view.promises.open])
    agreed = _agreed(jobs, rules) & (jobs.gpus > 0) & (jobs.state == JobState.RUNNING) & ~above
    waited_s = now_s - np.where(jobs.stop_requested_s >= jobs.started_s, jobs.stop_requested_s, -np.inf)
    awaited = agreed & (waited_s < awaited_s(terms))
    askable = agreed & ~awaited & (jobs.stop_requests < terms.asks_a_day)
    lease_s = np.where(promised, promised_lease_s, terms.lease_s)
    from_s = np.maximum(np.fmax(jobs.started_s, jobs.stop_requested_s) + lease_s, now_s)
    by_s = np.where(awaited, jobs.stop_requested_s, np.where(askable, from_s, np.inf)) + terms.stop_s + terms.lead_s
    leaving = jobs.state == JobState.COMPLETING
    return Stops(
        by_s=np.where(leaving, now_s, by_s),
        may=askable & (from_s <= now_s),
        awaited=awaited,
        overdue=awaited & (waited_s >= terms.stop_s),
        leaving=leaving,
        promised=promised,
        pending=_agreed(view.pending, rules) & (view.pending.stop_requests < terms.asks_a_day),
    )


def _agreed(jobs: JobTable, rules: Rules) -> BoolArray:
    """Select single jobs in partitions that we order whose owners agreed to stops, and below the limit on requeues."""
    only = rules.only_partitions
    single = (jobs.array_job_id == 0) & (jobs.het_job_id == 0)
    inside = [not only or any(name in only for name in names.split(",")) for names in jobs.partition.names]
    free = can_be_stopped(jobs) & rules.may_requeue(jobs) & ~jobs.off & single
    return np.asarray(free & jobs.partition.map(inside, np.bool_))


def _above(view: View, rules: Rules) -> BoolArray:
    """Select running jobs of a higher tier, or a higher QOS if QOS counts, than some pending job with a deadline."""
    waiting = np.isfinite(view.pending.deadline_s)
    above = np.zeros(len(view.running), dtype=np.bool_)
    if not waiting.any():
        return above
    above |= view.partitions.highest_tiers(view.running.partition) > view.tiers[waiting].min()
    if rules.scope != "queue":
        above |= qos_classes(view.running, view.qos) > qos_classes(view.pending, view.qos)[waiting].min()
    return above
