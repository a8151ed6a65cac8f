"""Usage of deadlines per user and account: recent requests, promises and outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.plan import Plan
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ..rules import DeadlineRules
from .quotas import asked_gpus, held_hours


@dataclass(frozen=True)
class DeadlineUsage:
    """The requests of one user or account in the window of the quotas; a repeated request counts again."""

    who: str
    account: bool  #: it is an account and not a user
    asked: int
    promised: int  #: number of promises, whatever their outcome
    refused: int
    broken: int
    withdrawn: int  #: its owner or an admin changed or cancelled the job
    lost: int  #: Slurm forgot the job
    gpu_hours: float  #: GPU-hours that count against the quota
    most_gpu_hours: float | None  #: None where there is no quota
    gpus: int  #: GPUs of jobs that requested a deadline in the interval of that quota
    most_gpus: int | None
    exempt: bool


def claims(view: View, plan: Plan, rules: DeadlineRules | None) -> tuple[DeadlineUsage, ...]:
    """Return the recent users, then accounts, each by falling GPU-hours; empty if *rules* are None."""
    if rules is None:
        return ()
    table = plan.promises
    table = table.take((table.asked_s > view.now_s - rules.window_s) | table.open)
    users, accounts = _claims(view, table, table.user, False, rules), _claims(view, table, table.account, True, rules)
    return tuple(sorted([*users, *accounts], key=lambda one: (one.account, -one.gpu_hours, one.who)))


def _claims(view: View, table: PromiseTable, names: Labels, account: bool, rules: DeadlineRules) -> list[DeadlineUsage]:
    """Return the usage per distinct name; *names* has one per row of *table*."""
    column = Labels.of(names)

    def each(values: BoolArray | IntArray | FloatArray) -> FloatArray:
        total: FloatArray = np.bincount(column.codes, weights=values, minlength=len(column.names)).astype(np.float64)
        return total

    requests, hours, gpus = (
        each(np.ones(len(table))),
        each(held_hours(view, table, rules)),
        each(asked_gpus(view, table, rules)),
    )
    states = (PromiseState.REFUSED, PromiseState.BROKEN, PromiseState.WITHDRAWN, PromiseState.LOST)
    refused, broken, withdrawn, lost = (each(table.state == state) for state in states)
    most_hours = rules.account_gpu_hours if account else rules.user_gpu_hours
    return [
        DeadlineUsage(
            who=who,
            account=account,
            asked=int(requests[at]),
            promised=int(requests[at] - refused[at]),
            refused=int(refused[at]),
            broken=int(broken[at]),
            withdrawn=int(withdrawn[at]),
            lost=int(lost[at]),
            gpu_hours=float(hours[at]),
            most_gpu_hours=most_hours or None,
            gpus=int(gpus[at]),
            most_gpus=None if account else rules.user_gpus or None,
            exempt=who in rules.exempt,
        )
        for at, who in enumerate(column.names)
        if who and requests[at]
    ]
