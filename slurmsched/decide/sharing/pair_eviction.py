"""Eviction: stop one job of a pair with an unstable GPU load (Lucid section 3.3). Pure.

A report of a node is about two runs. So it expires as soon as one of them is over, for any reason, even if it is read
again.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...cluster.actions import Action, AskToStop, Requeue
from ...cluster.columns import BoolArray, rows_with
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.faults import Instability
from ...cluster.state import View
from ..phrasing import spell
from ..rules import DeadlineRules, Rules, SharingRules
from .shared_nodes import gpus_of

SAME_S = 60.0  #: largest difference of the clocks of a node and the controller


def unsteady(jobs: JobTable, rules: SharingRules) -> BoolArray:
    """Select *jobs* that were in an unstable pair, in this run or an earlier one."""
    unstable = np.zeros(len(jobs), dtype=np.bool_)
    bounds: dict[int, list[tuple[int, int]]] = {}
    for instability in rules.unstable:
        for job_id, restart in _runs(instability):
            bounds.setdefault(job_id, []).append((restart, instability.end_s))
    for row in rows_with(jobs.job_id, bounds):
        # Ids restart on a new controller: an observation from before the submission is about another job.
        since_s = jobs.first_submit_s[row] - SAME_S
        words = bounds[int(jobs.job_id[row])]
        unstable[row] = any(jobs.restarts[row] >= restart and since_s <= end_s for restart, end_s in words)
    return unstable


def eviction_wishes(view: View, rules: Rules, busy: Collection[int]) -> list[Action]:
    """Return actions that stop one job of each unstable pair that still runs, if the job may be stopped.

    *busy* are jobs with another action already.
    """
    if rules.sharing is None or not _may_evict(rules):
        return []
    leaving = [_leaving(view, rows_of_pair(view, instability), rules) for instability in rules.sharing.unstable]
    rows = dict.fromkeys(row for row in leaving if row is not None and view.running.job_id[row] not in busy)
    wishes = [_stop(view, row, rules.deadlines) for row in rows]
    return [wish for wish in wishes if wish is not None]


def eviction_words(view: View, job_id: int, rules: Rules) -> tuple[str, ...]:
    """Return sentences about the unstable pair of a job; empty if it was in none."""
    sharing, row = rules.sharing, view.pending.row_of(job_id)
    if sharing is None:
        return ()
    if row is not None:
        mine = view.pending.take(np.array([row]))
        instability = next((one for one in sharing.unstable if job_id in (one.job_id, *one.partners)), None)
        return (_after_words(instability, job_id),) if instability is not None and unsteady(mine, sharing)[0] else ()
    for one in sharing.unstable:
        rows = rows_of_pair(view, one)
        if job_id in view.running.job_id[rows]:
            return (f"The load of the GPUs that it shares is unstable: {one.why}. {_fate_words(view, rows, rules)}",)
    return ()


def _runs(instability: Instability) -> list[tuple[int, int]]:
    """Return the id and the restart count of each job of an instability."""
    return [
        (instability.job_id, instability.restart),
        *zip(instability.partners, instability.partner_restarts, strict=True),
    ]


def rows_of_pair(view: View, instability: Instability) -> list[int]:
    """Return the running rows of an unstable pair, the latest start first; empty if one of its runs is over."""
    jobs = view.running
    rows: list[int] = []
    for job_id, restart in _runs(instability):
        candidates = np.flatnonzero(
            (jobs.job_id == job_id) & (jobs.restarts == restart) & (jobs.state == JobState.RUNNING)
        )
        shared_rows = [
            row for row in candidates.tolist() if jobs.shares[row] and jobs.started_s[row] <= instability.end_s + SAME_S
        ]
        if not shared_rows:
            return []
        rows += shared_rows
    first = set(gpus_of(jobs, rows[0]))
    together = all(
        jobs.node_list[row] == jobs.node_list[rows[0]] and first & set(gpus_of(jobs, row)) for row in rows[1:]
    )
    return sorted(rows, key=lambda row: (-jobs.started_s[row], -jobs.job_id[row])) if together else []


def _may_evict(rules: Rules) -> bool:
    return rules.sharing is not None and rules.sharing.evict and {"share", "requeue"} <= rules.powers


def _leaving(view: View, rows: list[int], rules: Rules) -> int | None:
    """Return the first of *rows* that may be requeued and has no promise; None if there is none."""
    jobs, promised = view.running, view.promises.job_id[view.promises.open]
    agreed = jobs.ckpt & jobs.requeueable & ~jobs.interactive & ~jobs.off & rules.may_requeue(jobs)
    single = (jobs.array_job_id == 0) & (jobs.het_job_id == 0)
    return next((row for row in rows if agreed[row] and single[row] and jobs.job_id[row] not in promised), None)


def _stop(view: View, row: int, rules: DeadlineRules | None) -> Action | None:
    """Return the stop of a running job: a stop request if enabled, then a requeue; None while it saves its work."""
    jobs, job_id = view.running, int(view.running.job_id[row])
    if rules is None or not rules.yields:
        return Requeue(job_id)
    waited_s = (
        view.now_s - float(jobs.stop_requested_s[row]) if jobs.stop_requested_s[row] >= jobs.started_s[row] else np.inf
    )
    if waited_s < rules.stop_s:
        return None
    had_time = waited_s < max(rules.lease_s, 2 * rules.stop_s)
    return (
        Requeue(job_id)
        if had_time or jobs.stop_requests[row] >= rules.asks_a_day
        else AskToStop(job_id, rules.stop_signal)
    )


def _after_words(instability: Instability, job_id: int) -> str:
    others = ", ".join(str(other) for other, _ in _runs(instability) if other != job_id)
    load = f"Its load beside job {others} on the same GPUs was unstable ({instability.why})"
    return f"{load}: it has GPUs of its own from now on."


def _fate_words(view: View, rows: list[int], rules: Rules) -> str:
    jobs = view.running
    if not _may_evict(rules):
        needed = "share.evict" if rules.sharing is not None and not rules.sharing.evict else "power.requeue"
        return f"No job is stopped: {needed} is off."
    row = _leaving(view, rows, rules)
    if row is None:
        return "No job is stopped: each lacks the token slurmsched:ckpt, may not be requeued, or has a promise."
    may_stop = _stop(view, row, rules.deadlines) is None
    how = f"was asked {spell(view.now_s - float(jobs.stop_requested_s[row]))} ago to stop" if may_stop else "is stopped"
    return f"Job {jobs.job_id[row]} {how}, and goes on alone."
