"""Hard rules: what may be done to a job, whatever a policy wishes. Each rule is a named function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..cluster.actions import (
    Action,
    AskToStop,
    Hold,
    MovePartition,
    Rank,
    Refusal,
    Release,
    Requeue,
    RequireNodes,
    Resume,
    Share,
    StartShared,
    Suspend,
    Tell,
    Unmark,
    Unshare,
)
from ..cluster.columns import IntArray
from ..cluster.jobs import JobState, JobTable
from ..cluster.state import View
from ..cluster.text.plural import count
from .rules import Rules

Rule = Callable[[Action, JobTable, int, Rules], str | None]
"""Says why an action on this row may not be done, or None. The row is of the pending or the running jobs."""


def power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Nothing happens unless an admin switched the power on."""
    return None if action.power in rules.powers else f"power.{action.power} is off"


def a_holding_power_is_on(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """A begin time of ours comes from a hold or from the delay Slurm adds to our requeues."""
    return None if rules.powers & {"hold", "requeue"} else "power.hold and power.requeue are off"


def owner_did_not_opt_out(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """``slurmsched:off`` keeps us off the job; giving it back is always allowed."""
    return "its owner said slurmsched:off" if jobs.off[row] and not gives_back(action) else None


def nobody_sits_in_front(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """An interactive job (salloc, srun, a portal's) is never held, moved, stopped or requeued."""
    return "the job is interactive" if jobs.interactive[row] else None


def owner_consented(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Requeue=1 is Slurm's default and no consent; ``slurmsched:ckpt`` is."""
    if not jobs.ckpt[row]:
        return "its owner did not say slurmsched:ckpt"
    return None if jobs.requeueable[row] else "it was submitted with --no-requeue"


def not_asked_too_often(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """No job is asked to stop more often within a day than the admin said."""
    most = rules.deadlines.asks_a_day if rules.deadlines is not None else 0
    ask_count = int(jobs.asks[row])
    return (
        f"it was asked to stop {count(ask_count, 'time')} within a day (deadline.asks_a_day)"
        if ask_count >= most
        else None
    )


def job_is_pending(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """What has started is no longer ordered, held or moved."""
    return _in_state(jobs, row, JobState.PENDING)


def job_is_running(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Only what runs can be stopped."""
    return _in_state(jobs, row, JobState.RUNNING)


def job_is_suspended(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """Only what was stopped can go on."""
    return _in_state(jobs, row, JobState.SUSPENDED)


def hold_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """A begin time that a user set is the user's."""
    return None if jobs.held_by_us[row] else "its begin time is not ours"


def token_is_ours(action: Action, jobs: JobTable, row: int, rules: Rules) -> str | None:
    """What we began to change we may end, with that power or without; it is the job's way to GPUs."""
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
    Tell: (power_is_on, owner_did_not_opt_out),
    Suspend: (power_is_on, job_is_running, owner_did_not_opt_out, nobody_sits_in_front),
    Resume: (power_is_on, job_is_suspended),
    Share: (power_is_on, job_is_pending, owner_did_not_opt_out, nobody_sits_in_front),
    StartShared: (token_is_ours, job_is_pending),
    Unmark: (token_is_ours, job_is_pending),
    Unshare: (token_is_ours, job_is_pending),
}
"""What stands over each action; the first rule that says no is the one told."""


def gives_back(action: Action) -> bool:
    """Whether an action only takes our hands off a job."""
    return isinstance(action, Release) or (isinstance(action, Rank) and action.points == 0)


def judge(wishes: Sequence[Action], view: View, rules: Rules) -> tuple[list[Action], list[Refusal]]:
    """Split wishes into what may be done and what a rule stands against; each in the order given."""
    allowed: list[Action] = []
    refusals: list[Refusal] = []
    for wish, place in zip(wishes, _rows(wishes, view), strict=True):
        if place is None:
            refusals.append(Refusal(wish, "job_is_known", "Slurm knows no such job"))
            continue
        for rule in RULES[type(wish)]:
            why = rule(wish, *place, rules)
            if why is not None:
                refusals.append(Refusal(wish, rule.__name__, why))
                break
        else:
            allowed.append(wish)
    return allowed, refusals


def _rows(wishes: Sequence[Action], view: View) -> list[tuple[JobTable, int] | None]:
    """Where each wish's job stands, pending before running."""
    wanted = np.unique(np.array([wish.job_id for wish in wishes], dtype=np.int64))
    places: dict[int, tuple[JobTable, int]] = {}
    for jobs in (view.running, view.pending):
        rows = _rows_of(wanted, jobs)
        places |= {job_id: (jobs, row) for job_id, row in zip(jobs.job_id[rows].tolist(), rows.tolist(), strict=True)}
    return [places.get(wish.job_id) for wish in wishes]


def _rows_of(wanted: IntArray, jobs: JobTable) -> IntArray:
    """The rows of the jobs whose ids are among the *wanted*, which rise."""
    if not len(wanted):
        return np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(wanted, jobs.job_id), len(wanted) - 1)
    rows: IntArray = np.flatnonzero(wanted[at] == jobs.job_id)
    return rows
