"""Two full nodes of four GPUs whose running jobs have said ckpt and will go on for days: who stops for others there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from decide.views import NOW_S, nodes, running_jobs, view

from slurmsched.cluster.actions import AskToStop, Requeue
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View

HOUR_S = 3600.0
DAYS_S = 1e6

UNWILLING: tuple[dict[str, Any], ...] = (
    {"ckpt": [False, False]},
    {"requeueable": [False, False]},
    {"interactive": [True, True]},
    {"off": [True, True]},
    {"array_job_id": [901, 902]},
    {"state": [JobState.SUSPENDED] * 2},
)
"""Columns of two running jobs of which neither may be stopped."""


def full(*gpus: int, **columns: Any) -> JobTable:
    """Jobs that hold all GPUs of two nodes, each has run for about an hour."""
    count = len(gpus)
    known = {
        "gpus": gpus,
        "ckpt": np.ones(count, dtype=bool),
        "node_list": ["n1", "n2"][:count] if count <= 2 else ["n1"] * (count - 1) + ["n2"],
        "time_limit_s": np.full(count, DAYS_S),
        "started_s": NOW_S - HOUR_S + 60.0 * np.arange(count),
    }
    return running_jobs(count, **(known | columns))


def beside(running: JobTable, pending: JobTable, expected_s: Sequence[float]) -> View:
    """*pending* jobs that are expected to run for *expected_s* on the nodes that *running* ones hold for days."""
    what = view(pending, expected_s, running=running, room=nodes((4, 4), (4, 4)))
    days = np.full(len(running), DAYS_S)
    return replace(what, forecast_running=replace(what.forecast_running, runtime_s=days, low_s=days, high_s=days))


def asked(plan: Plan) -> list[int]:
    """The jobs that are asked to stop."""
    return [wish.job_id for wish in plan.actions if isinstance(wish, AskToStop)]


def requeued(plan: Plan) -> list[int]:
    """The jobs that are requeued."""
    return [wish.job_id for wish in plan.actions if isinstance(wish, Requeue)]
