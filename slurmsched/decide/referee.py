"""Hard rules: the limits on actions, whatever a policy requests. Each rule is a named function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..cluster.actions import (
    Action,
    AskToStop,
    Hold,
    MovePartition,
    Preempt,
    Rank,
    Refusal,
    Release,
    Requeue,
    RequireNodes,
    Resume,
    SetAdminComment,
    Share,
    Start,
    StartShared,
    Suspend,
    Unmark,
    Unshare,
)
from ..cluster.columns import IntArray
from ..cluster.jobs import JobState, JobTable
from ..cluster.state import View
from ..cluster.text.plural import count
from .rules import Rules

Rule = Callable[[Action, JobTable, int, Rules], str | None]
"""A function that returns the reason to refuse an action, or None. The row is one of the given job table."""


def power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse any action whose power the admin has not switched on."""
    return None if action.power in rules.powers else f"power.{action.power} is off"


def a_holding_power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse unless a power is on that sets begin times: a hold, or a requeue, which Slurm delays."""
    return None if rules.powers & {"hold", "requeue"} else "power.hold and power.requeue are off"


def owner_did_not_opt_out(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse actions on a job with ``slurmsched:off``, except those that give it back."""
    return "its owner said slurmsched:off" if jobs.off[row] and not gives_back(action) else None


def nobody_sits_in_front(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to hold, move, stop or requeue an interactive job (salloc, srun, a portal's)."""
    return "the job is interactive" if jobs.interactive[row] else None


def owner_consented(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse without ``slurmsched:ckpt``: Requeue=1 is Slurm's default and no consent."""
    if not jobs.ckpt[row]:
        return "its owner did not say slurmsched:ckpt"
    return None if jobs.requeueable[row] else "it was submitted with --no-requeue"


def not_asked_too_often(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse stop requests to a job beyond the daily limit (``deadline.asks_a_day``)."""
    most = rules.deadlines.asks_a_day if rules.deadlines is not None else 0
    ask_count = int(jobs.asks[row])
    return (
        f"it was asked to stop {count(ask_count, 'time')} within a day (deadline.asks_a_day)"
        if ask_count >= most
        else None
    )


def job_is_pending(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to order, hold or move a job that has started."""
    return _in_state(jobs, row, JobState.PENDING)


def job_is_running(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to stop a job that is not running."""
    return _in_state(jobs, row, JobState.RUNNING)


def job_is_suspended(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to resume a job that is not suspended."""
    return _in_state(jobs, row, JobState.SUSPENDED)


def hold_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change a begin time that a user set."""
    return None if jobs.held_by_us[row] else "its begin time is not ours"


def token_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Refuse to change GPU slots that we did not make; our own changes may be finished without power.share."""
    return None if jobs.shares[row] else "we did not make slots of its GPUs"


def _in_state(jobs: JobTable, row: int, wanted: JobState) -> str | None:
    state = int(jobs.state[row])
    return None if state == wanted else f"the job is {JobState(state).name.lower()}, not {wanted.name.lower()}"


RULES: dict[type[Action], tuple[Rule, ...]] = {
    Rank: (power_is_on, job_is_pending, owner_did_not_opt_out),
    Hold: (power_is_on, job_is_pending, owner_did_not_opt_out, nobody_sits_in_front),
    Release: (a_holding_power_is_on, job_is_pending, hold_is_ours),
    MovePartition: (power_is_on, job_is_pending, owner_did_not_opt_out, nobody_sits_in_front),
    RequireNodes: (power_is_on, job_is_pending, owner_did_not_opt_out, nobody_sits_in_front),
    Requeue: (power_is_on, job_is_running, owner_did_not_opt_out, nobody_sits_in_front, owner_consented),
    AskToStop: (
        power_is_on,
        job_is_running,
        owner_did_not_opt_out,
        nobody_sits_in_front,
        owner_consented,
        not_asked_too_often,
    ),
    SetAdminComment: (power_is_on, owner_did_not_opt_out),
    Suspend: (power_is_on, job_is_running, owner_did_not_opt_out, nobody_sits_in_front),
    Resume: (power_is_on, job_is_suspended),
    Share: (power_is_on, job_is_pending, owner_did_not_opt_out, nobody_sits_in_front),
    StartShared: (token_is_ours, job_is_pending),
    Unmark: (token_is_ours, job_is_pending),
    Unshare: (token_is_ours, job_is_pending),
    Start: (power_is_on, job_is_pending),
    Preempt: (power_is_on, job_is_running),
}
"""The rules of each action; the first one that refuses gives the reason."""


UNKNOWN_JOB = "job_is_known"
"""The stored spelling of the rule over every action: Slurm knows its job."""

SPELLINGS: dict[Rule, str] = {
    power_is_on: "power_is_on",
    a_holding_power_is_on: "a_holding_power_is_on",
    owner_did_not_opt_out: "owner_did_not_opt_out",
    nobody_sits_in_front: "nobody_sits_in_front",
    owner_consented: "owner_consented",
    not_asked_too_often: "not_asked_too_often",
    job_is_pending: "job_is_pending",
    job_is_running: "job_is_running",
    job_is_suspended: "job_is_suspended",
    hold_is_ours: "hold_is_ours",
    token_is_ours: "token_is_ours",
}
"""The stored spelling of each rule: in records, metrics and JSON. A new function name changes none."""


def gives_back(action: Action) -> bool:
    """Return whether an action only gives a job back to Slurm: a Release, or a Rank of 0 points."""
    return isinstance(action, Release) or (isinstance(action, Rank) and action.points == 0)


def judge(wishes: Sequence[Action], view: View, rules: Rules) -> tuple[list[Action], list[Refusal]]:
    """Split wishes into allowed actions and refusals; both keep the given order."""
    allowed: list[Action] = []
    refusals: list[Refusal] = []
    for wish, place in zip(wishes, _rows(wishes, view), strict=True):
        if place is None:
            refusals.append(Refusal(wish, UNKNOWN_JOB, "Slurm knows no such job"))
            continue
        for rule in RULES[type(wish)]:
            why = rule(wish, *place, rules)
            if why is not None:
                refusals.append(Refusal(wish, SPELLINGS[rule], why))
                break
        else:
            allowed.append(wish)
    return allowed, refusals


def _rows(wishes: Sequence[Action], view: View) -> list[tuple[JobTable, int] | None]:
    """Return the table and row of each wish's job, None if it is in neither; pending wins over running."""
    wanted = np.unique(np.array([wish.job_id for wish in wishes], dtype=np.int64))
    places: dict[int, tuple[JobTable, int]] = {}
    for jobs in (view.running, view.pending):
        rows = _rows_of(wanted, jobs)
        places |= {job_id: (jobs, row) for job_id, row in zip(jobs.job_id[rows].tolist(), rows.tolist(), strict=True)}
    return [places.get(wish.job_id) for wish in wishes]


def _rows_of(wanted: IntArray, jobs: JobTable) -> IntArray:
    """Return the rows of jobs whose ids are in *wanted*, a sorted array."""
    if not len(wanted):
        return np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(wanted, jobs.job_id), len(wanted) - 1)
    rows: IntArray = np.flatnonzero(wanted[at] == jobs.job_id)
    return rows
