"""Preemption: stop running jobs with ``ckpt`` for promises that cannot be kept otherwise.

The view records stop requests, so that none is lost with the process that sent it. A job saves its work and queues
itself again, or is requeued after its time to save. Best-effort jobs have leases as in Chronus (section 3).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.actions import Action, AskToStop, Requeue
from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.state import View
from ...policies.contract import PREEMPTIONS
from ...policies.deadlines.reservations import DeadlineRequests, latest_plan
from ...policies.preemption import Yielders
from ..phrasing import spell
from ..rules import DeadlineRules
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
    rows = _Yielding(view, promised, urgent, rules, stopping).rows()
    job_id = view.running.job_id
    requeues: list[Action] = [Requeue(job) for job in job_id[rows[stopping.overdue[rows]]].tolist()]
    stoppable = job_id[rows[stopping.may[rows]]].tolist()
    return [*requeues, *(AskToStop(job, rules.stop_signal) for job in stoppable)]


class _Yielding:
    """The choice of running jobs that stop so that the *urgent* ones of the promised jobs start in time.

    Jobs with several GPUs on a node come first, and take whole nodes: of the promised jobs there, those yield too that
    have time to start elsewhere. For the other jobs only those yield that no promise needs now.
    """

    def __init__(
        self, view: View, promised: Promised, urgent: BoolArray, rules: DeadlineRules, stopping: Stops
    ) -> None:
        assert promised.availability is not None
        self._view, self._rules, self._stopping = view, rules, stopping
        self._availability, now_s = promised.availability, view.now_s
        waiting, due_s = promised.rows[urgent], promised.due_s[urgent]
        start_s = now_s + max(rules.lead_s, 1.0) + 1.0
        leased, within_s = (
            self._availability.stoppable[waiting],
            self._availability.needs_s[waiting] + rules.terms.beat_s,
        )
        due_s = np.where(leased, np.minimum(due_s, start_s + within_s), due_s)
        requests = self._availability.requests(waiting, due_s, now_s)
        self._requests = replace(requests, due_s=np.maximum(due_s, start_s + requests.needs_s))
        self._promised, self._lost_gpu_s = promised, view.running.gpus * (now_s - view.running.started_s)
        self._can = (stopping.may | stopping.awaited) & self._availability.holding(waiting)

    def rows(self) -> IntArray:
        """Return the running rows that stop; none with a promise if that would break a promise."""
        rows = self._rows(self._can & (~self._stopping.promised | self._promised.spare))
        if not self._promised.breaks(rows, self._rules):
            return rows
        return self._rows(self._can & ~self._stopping.promised)

    def _rows(self, able: BoolArray) -> IntArray:
        wide, rows = self._availability.wide(self._requests), np.zeros(0, dtype=np.int64)
        if wide.any():
            rows = self._chosen(self._requests.take(wide), able, self._lost_on_nodes(able), rows)
        return self._chosen(self._requests, able & ~self._promised.needed, self._lost_gpu_s, rows)

    def _chosen(
        self, requests: DeadlineRequests, able: BoolArray, lost_gpu_s: FloatArray, before: IntArray
    ) -> IntArray:
        """Return the rows *before* and those among *able* ones that have to stop, too, for *requests*."""
        rows, now_s = np.setdiff1d(np.flatnonzero(able), before), self._view.now_s

        def late(some: IntArray) -> int:
            stops_s = np.where(self._stopping.leaving, now_s, np.inf)
            stops_s[before] = now_s
            stops_s[rows[some]] = now_s
            return int(np.isnan(latest_plan(self._availability.freed(stops_s), requests)[0]).sum())

        if not len(rows) or not late(rows[:0]):
            return before
        yielders = Yielders(self._view.running.job_id[rows], lost_gpu_s[rows], self._stopping.awaited[rows])
        return np.union1d(before, rows[PREEMPTIONS.find(self._rules.preemption).function(yielders, late)])

    def _lost_on_nodes(self, able: BoolArray) -> FloatArray:
        """Return for each running job the loss of all jobs on its nodes; infinite beside one that stays."""
        hosts = self._view.running.node_list
        lost_gpu_s = np.where(able, self._lost_gpu_s, np.inf)
        lost_gpu_s = np.bincount(hosts.codes, weights=lost_gpu_s, minlength=len(hosts.names)).astype(np.float64)
        return lost_gpu_s[hosts.codes]


def stop_words(view: View, row: int) -> tuple[str, ...]:
    """Return a sentence about a running job that was asked to stop in this run; empty if it was not."""
    asked_s, started_s = float(view.running.asked_s[row]), float(view.running.started_s[row])
    if not asked_s >= started_s:
        return ()
    ago = spell(view.now_s - asked_s)
    return (f"It was asked {ago} ago to save its work and make room; it goes on later.",)
