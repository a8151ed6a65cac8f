"""Preemption: stop running jobs with ``ckpt`` for promises that cannot be kept otherwise.

The view records stop requests, so that none is lost with the process that sent it. A job saves its work and queues
itself again, or is requeued after its time to save. Best-effort jobs have leases as in Chronus (section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.actions import Action, AskToStop, Requeue
from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobState
from ...cluster.state import View
from ...policies.contract import PREEMPTIONS
from ...policies.deadlines.reservations import latest_plan
from ...policies.preemption import Yielders
from ..ordering.ranking import qos_classes, tiers
from ..phrasing import spell
from ..rules import DeadlineRules, Rules
from .gpu_availability import GpuAvailability
from .promises import Promised


@dataclass(frozen=True, eq=False)
class Stops:
    """The running jobs that can make room, one column value per running job."""

    by_s: FloatArray  #: the end of each if it is asked as soon as allowed; infinite if it never is
    may: BoolArray  #: can be asked now: its lease is over, and the daily limit is not reached
    awaited: BoolArray  #: was asked to stop, lately enough to count
    overdue: BoolArray  #: was asked to stop, and its time to save is over
    leaving: BoolArray  #: is ending already


def stops(view: View, rules: Rules) -> Stops | None:
    """Return the running jobs that can make room for promises; None if the rules allow no stop requests.

    Promised jobs, arrays and parts of heterogeneous jobs are left alone: a signal to a task may reach its whole array.
    So are jobs of partitions that we do not order, and jobs that Slurm would restart before the promised one.
    """
    deadline_rules = rules.deadlines
    if deadline_rules is None or not deadline_rules.yields or "requeue" not in rules.powers:
        return None
    jobs, now_s, only = view.running, view.now_s, rules.only_partitions
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    single = (jobs.array_job_id == 0) & (jobs.het_job_id == 0) & (jobs.gpus > 0) & (jobs.state == JobState.RUNNING)
    inside = [not only or any(name in only for name in names.split(",")) for names in jobs.partition.names]
    ours = jobs.partition.map(inside, np.bool_) & ~_above(view, rules)
    agreed = jobs.ckpt & jobs.requeueable & ~jobs.interactive & ~jobs.off & ~promised & single & ours
    waited_s = now_s - np.where(jobs.asked_s >= jobs.started_s, jobs.asked_s, -np.inf)
    awaited = agreed & (waited_s < max(deadline_rules.lease_s, 2 * deadline_rules.stop_s))
    askable = agreed & ~awaited & (jobs.asks < deadline_rules.asks_a_day)
    from_s = np.maximum(np.fmax(jobs.started_s, jobs.asked_s) + deadline_rules.lease_s, now_s)
    by_s = (
        np.where(awaited, jobs.asked_s, np.where(askable, from_s, np.inf))
        + deadline_rules.stop_s
        + deadline_rules.lead_s
    )
    leaving = jobs.state == JobState.COMPLETING
    return Stops(
        by_s=np.where(leaving, now_s, by_s),
        may=askable & (from_s <= now_s),
        awaited=awaited,
        overdue=awaited & (waited_s >= deadline_rules.stop_s),
        leaving=leaving,
    )


def _above(view: View, rules: Rules) -> BoolArray:
    """Select running jobs of a higher tier, or a higher QOS if QOS counts, than some pending job with a deadline."""
    waiting = np.isfinite(view.pending.deadline_s)
    above = np.zeros(len(view.running), dtype=np.bool_)
    if not waiting.any():
        return above
    above |= tiers(view.running, view.partitions) > tiers(view.pending, view.partitions)[waiting].min()
    if rules.scope != "queue":
        above |= qos_classes(view.running, view.qos) > qos_classes(view.pending, view.qos)[waiting].min()
    return above


def stop_wishes(view: View, promised: Promised, rules: DeadlineRules, stopping: Stops | None) -> list[Action]:
    """Return actions that make room for promised jobs that could not start in time, at the least loss of work.

    A job that was not asked yet is asked to stop; one that still runs after its time to save is requeued.
    """
    if stopping is None or promised.availability is None:
        return []
    early_s = rules.lead_s + rules.hold_s + rules.stop_s
    urgent = promised.laxity_s[promised.rows] <= early_s
    if not urgent.any():
        return []
    rows = _yielding(view, promised.availability, promised.rows[urgent], promised.due_s[urgent], rules, stopping)
    job_id = view.running.job_id
    requeues: list[Action] = [Requeue(job) for job in job_id[rows[stopping.overdue[rows]]].tolist()]
    stoppable = job_id[rows[stopping.may[rows]]].tolist()
    return [*requeues, *(AskToStop(job, rules.stop_signal) for job in stoppable)]


def _yielding(
    view: View,
    availability: GpuAvailability,
    waiting: IntArray,
    due_s: FloatArray,
    rules: DeadlineRules,
    stopping: Stops,
) -> IntArray:
    """Select running rows that stop so that the *waiting* jobs start in time."""
    jobs, now_s = view.running, view.now_s
    soonest_s = now_s + max(rules.lead_s, 1.0) + availability.needs_s[waiting] + 1.0
    requests = availability.requests(waiting, np.maximum(due_s, soonest_s), now_s)
    rows = np.flatnonzero((stopping.may | stopping.awaited) & availability.holding(waiting))

    def late(some: IntArray) -> int:
        stops_s = np.where(stopping.leaving, now_s, np.inf)
        stops_s[rows[some]] = now_s
        return int(np.isnan(latest_plan(availability.freed(stops_s), requests)[0]).sum())

    lost_gpu_s = jobs.gpus[rows] * (now_s - jobs.started_s[rows])
    yielders = Yielders(jobs.job_id[rows], lost_gpu_s, stopping.awaited[rows])
    return rows[PREEMPTIONS.find(rules.preemption).function(yielders, late)]


def stop_words(view: View, row: int) -> tuple[str, ...]:
    """Return a sentence about a running job that was asked to stop in this run; empty if it was not."""
    asked_s, started_s = float(view.running.asked_s[row]), float(view.running.started_s[row])
    if not asked_s >= started_s:
        return ()
    ago = spell(view.now_s - asked_s)
    return (f"It was asked {ago} ago to save its work and make room; it goes on later.",)
