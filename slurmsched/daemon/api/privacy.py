"""The part of a view that a user may see where Slurm keeps jobs private."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...cluster.actions import job_of
from ...cluster.columns import BoolArray, Labels, Rows, Table
from ...cluster.forecast import Forecast
from ...cluster.jobs import DERIVED, JobTable, job_table
from ...cluster.plan import Plan
from ...cluster.state import View
from ...decide.phrasing import HIDDEN

T = TypeVar("T", bound=Table)

TELLING = ("name", "user", "account", "comment", "dependency", "reservation")
"""The columns of a job that reveal its owner or its purpose."""
_SILENT = job_table(1)  # each value stands for all rows


def owns(jobs: JobTable, asker: str) -> BoolArray:
    """Return the mask of the rows of *jobs* that belong to *asker*."""
    return jobs.user.map([name == asker for name in jobs.user.names], np.bool_)


def hide_other_users(view: View, asker: str) -> View:
    """Return *view* with the texts of other users' jobs hidden; jobs ahead remain countable, row by row."""
    pending, running = owns(view.pending, asker), owns(view.running, asker)
    return replace(
        view,
        pending=_hide_jobs(view.pending, ~pending),
        running=_hide_jobs(view.running, ~running),
        forecast=_hide_source(view.forecast, ~pending),
        forecast_running=_hide_source(view.forecast_running, ~running),
    )


def restrict_to_user(view: View, plan: Plan, rows: Rows, asker: str) -> tuple[View, Plan]:
    """Return *view* and *plan* with only the pending *rows* and *asker*'s own running jobs."""
    running = owns(view.running, asker)
    ids = set(view.pending.job_id[rows].tolist()) | set(view.running.job_id[running].tolist())
    narrowed = replace(
        view.take(rows), running=view.running.take(running), forecast_running=view.forecast_running.take(running)
    )
    return narrowed, Plan(
        plan.jobs.take(rows),
        tuple(action for action in plan.actions if job_of(action) in ids),
        tuple(refusal for refusal in plan.refusals if job_of(refusal.action) in ids),
    )


def _hide_source(forecast: Forecast, rows: BoolArray) -> Forecast:
    return _hide(forecast, rows, ("source",))


def _hide_jobs(jobs: JobTable, rows: BoolArray) -> JobTable:
    """Return *jobs* with the texts of *rows* hidden, and the columns of their comments as of empty ones."""
    derived = {name: _chosen(rows, getattr(_SILENT, name), getattr(jobs, name)) for name in DERIVED}
    return replace(_hide(jobs, rows, TELLING), **derived)


def _chosen(rows: BoolArray, column: Any, other: Any) -> Any:
    """Return *column* in *rows*, elsewhere *other*."""
    if not isinstance(column, Labels):
        return np.where(rows, column, other)
    return Labels(np.where(rows, column.codes, other.codes + len(column.names)), (*column.names, *other.names))


def _hide(table: T, rows: BoolArray, columns: tuple[str, ...]) -> T:
    return replace(table, **{name: _veiled(getattr(table, name), rows) for name in columns})


def _veiled(column: Labels, rows: BoolArray) -> Labels:
    """Return *column* with the texts of *rows* hidden; that there is none is no secret, and decides who competes."""
    hidden = rows & column.map([bool(name) for name in column.names], np.bool_)
    return Labels(np.where(hidden, len(column.names), column.codes), (*column.names, HIDDEN))
