"""Preemption: stop running jobs with ``ckpt`` for promises that cannot be kept otherwise, and for the order.

The view records stop requests, so that none is lost with the process that sent it. A job saves its work and queues
itself again, or is requeued after its time to save. Best-effort jobs have leases as in Chronus (section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...cluster.actions import Action, AskToStop, Requeue
from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.state import View
from ...cluster.ties import in_ms
from ...policies.contract import PREEMPTIONS
from ...policies.deadlines.reservations import DeadlineRequests, latest_plan
from ...policies.preemption import Yielders
from ..phrasing import spell
from ..rules import DeadlineRules
from .gpu_availability import GpuAvailability
from .promises import Promised
from .stops import Stops


def stop_wishes(view: View, promised: Promised, rules: DeadlineRules, stopping: Stops | None) -> list[Action]:
    """Return actions that make room for promised jobs that could not start in time, at the least loss of work.

    A job that was not asked yet is asked to stop; one that still runs after its time to save is requeued.
    """
    if stopping is None or promised.availability is None:
        return []
    urgent = promised.due[promised.rows]
    if not urgent.any():
        return []
    return stop_actions(view, _rows_for_promises(view, promised, urgent, rules, stopping), stopping, rules.stop_signal)


def stop_actions(view: View, rows: IntArray, stopping: Stops, signal: str) -> list[Action]:
    """Return the actions that stop the running *rows*: requests, and requeues of those whose time to save is over."""
    job_id = view.running.job_id
    requeues: list[Action] = [Requeue(job) for job in job_id[rows[stopping.overdue[rows]]].tolist()]
    stoppable = job_id[rows[stopping.may[rows]]].tolist()
    return [*requeues, *(AskToStop(job, signal) for job in stoppable)]


def _rows_for_promises(
    view: View, promised: Promised, urgent: BoolArray, rules: DeadlineRules, stopping: Stops
) -> IntArray:
    """Return the running rows that stop so that the *urgent* ones of the promised jobs start in time.

    Those with a promise stop for tight ones alone that can be kept, the most urgent of these, and only if that breaks
    none. For fewer GPUs only those stop that no promise needs now.
    """
    assert promised.availability is not None
    able = (stopping.may | stopping.awaited) & promised.availability.holding(promised.rows[urgent])
    others = _choice(view, promised, urgent, rules, stopping).rows(able & ~stopping.promised)
    able &= ~stopping.promised | promised.spare
    order = promised.rows[urgent & (promised.tight & ~promised.late)[promised.rows]]
    order = order[np.argsort(in_ms(promised.laxity_s[order]), kind="stable")]
    while len(order):
        rows = _choice(view, promised, np.isin(promised.rows, order), rules, stopping).rows(able)
        if not promised.breaks(rows, rules, order):
            return np.union1d(rows, others)
        order = order[: len(order) // 2]
    return others


def _choice(view: View, promised: Promised, urgent: BoolArray, rules: DeadlineRules, stopping: Stops) -> YieldingJobs:
    """Return the choice of the running jobs that stop for the *urgent* ones; those with a promise come last."""
    assert promised.availability is not None
    availability, now_s = promised.availability, view.now_s
    waiting, due_s = promised.rows[urgent], promised.due_s[urgent]
    start_s = now_s + max(rules.lead_s, 1.0) + 1.0
    yielding, within_s = availability.stoppable[waiting], availability.needs_s[waiting] + rules.terms.beat_s
    due_s = np.where(yielding, np.minimum(due_s, start_s + within_s), due_s)
    requests = availability.requests(waiting, due_s, now_s)
    requests = replace(requests, due_s=np.maximum(due_s, start_s + requests.needs_s))
    lost_gpu_s = view.running.gpus * (now_s - view.running.started_s)
    lost_gpu_s += np.where(stopping.promised, lost_gpu_s.max(initial=0.0), 0.0)
    return YieldingJobs(view, rules.preemption, stopping, availability, requests, lost_gpu_s)


@dataclass(frozen=True, eq=False)
class YieldingJobs:
    """The choice of running jobs that stop so that *requests* find their GPUs.

    Requests for several GPUs on a node come first, and take whole nodes.
    """

    view: View
    part: str  #: the part of the policy that chooses
    stopping: Stops
    availability: GpuAvailability
    requests: DeadlineRequests
    lost_gpu_s: FloatArray  #: what stopping each running job loses

    def rows(self, able: BoolArray) -> IntArray:
        """Return the rows among *able* running jobs that stop."""
        wide, rows = self.availability.wide(self.requests), np.zeros(0, dtype=np.int64)
        if wide.any():
            rows = self._chosen(self.requests.take(wide), able, self._lost_on_nodes(able), rows)
        return self._chosen(self.requests, able, self.lost_gpu_s, rows)

    def _chosen(
        self, requests: DeadlineRequests, able: BoolArray, lost_gpu_s: FloatArray, before: IntArray
    ) -> IntArray:
        """Return the rows *before* and those among *able* ones that have to stop, too, for *requests*."""
        rows, now_s = np.setdiff1d(np.flatnonzero(able), before), self.view.now_s

        def late(some: IntArray) -> int:
            stops_s = np.where(self.stopping.leaving, now_s, np.inf)
            stops_s[before] = now_s
            stops_s[rows[some]] = now_s
            return int(np.isnan(latest_plan(self.availability.freed(stops_s), requests)[0]).sum())

        if not len(rows) or not late(rows[:0]):
            return before
        yielders = Yielders(self.view.running.job_id[rows], lost_gpu_s[rows], self.stopping.awaited[rows])
        return np.union1d(before, rows[PREEMPTIONS.find(self.part).function(yielders, late)])

    def _lost_on_nodes(self, able: BoolArray) -> FloatArray:
        """Return for each running job the loss of all jobs on its nodes; infinite beside one that stays."""
        hosts = self.view.running.node_list
        lost_gpu_s = np.where(able, self.lost_gpu_s, np.inf)
        lost_gpu_s = np.bincount(hosts.codes, weights=lost_gpu_s, minlength=len(hosts.names)).astype(np.float64)
        return lost_gpu_s[hosts.codes]


def stop_words(view: View, row: int) -> tuple[str, ...]:
    """Return a sentence about a running job that was asked to stop in this run; empty if it was not."""
    asked_s, started_s = float(view.running.stop_requested_s[row]), float(view.running.started_s[row])
    if not asked_s >= started_s:
        return ()
    ago = spell(view.now_s - asked_s)
    if (left := view.running.left_nodes[row]) and view.running.left_s[row] >= asked_s:
        return (f"It was asked {ago} ago to save its work and leave {left}, overloaded then; it goes on elsewhere.",)
    return (f"It was asked {ago} ago to save its work and make room; it goes on later.",)
