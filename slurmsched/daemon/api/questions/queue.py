"""The question about the pending jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np

from ....cluster.plan import Plan
from ....cluster.reservations import MAINT
from ....explain.eta import doubts_by_job
from ....explain.explain import QueueRow, chosen_rows
from ..privacy import hide_other_users, owns, restrict_to_user
from ..query_arguments import ONLY, SKIP, filters_of, limit
from .contract import Asked, OfCycle, for_users

QUEUE_USUAL = 500


class QueueAnswer(OfCycle):
    """The pending jobs."""

    order_off: str
    pending: int
    limit: int
    queue: Sequence[QueueRow]


def _queue(asked: Asked) -> QueueAnswer:
    view, plan, only = asked.decided.view, asked.plan, asked.asker.only
    shown = chosen_rows(view.pending, filters_of(asked.given))
    if only is not None:
        shown = shown[owns(view.pending, only)[shown]]
    # Ranked jobs first, each in its place; the rest by Slurm's priority.
    rank = plan.jobs.rank[shown]
    order = np.lexsort((-view.pending.priority[shown], np.where(rank < 0, np.iinfo(np.int64).max, rank)))
    first = asked.given["skip"]
    rows = np.sort(shown[order[first : first + asked.given["limit"]]])
    if only is not None:
        view, plan = restrict_to_user(view, plan, rows, only)
        view = hide_other_users(view, only)  # last: hiding costs by the row
    elif len(rows) < len(view.pending):
        view, plan = view.take(rows), Plan(plan.jobs.take(rows), plan.actions, plan.refusals)
    return {
        **asked.head,
        "order_off": asked.order_off,
        "pending": len(shown),
        "limit": asked.given["limit"],
        "queue": _with_doubts(asked, asked.sources.queue(view, plan)),
    }


def _with_doubts(asked: Asked, rows: Sequence[QueueRow]) -> Sequence[QueueRow]:
    """Return *rows* with what the predicted times leave out, where there are any."""
    table = asked.sources.predictions().table
    doubts = {} if table is None else doubts_by_job(table)
    return [replace(row, doubts=doubts.get(row.job_id, ())) for row in rows] if doubts else rows


class Window(TypedDict):
    """A span of time in which a reservation keeps nodes."""

    name: str
    start_s: float
    end_s: float
    maintenance: bool
    nodes: str


class Windows(OfCycle):
    """Reservations to come and present ones."""

    windows: Sequence[Window]


WINDOWS_MOST = 200


def _windows(asked: Asked) -> Windows:
    """Return maintenance to all, and other reservations as far as names of users stay hidden where jobs are."""
    table = asked.decided.view.reservations
    maintenance = table.has(MAINT)
    shown = (table.end_s > asked.decided.now_s) & (maintenance | (asked.asker.only is None)) & table.nodes.nonempty()
    rows = np.flatnonzero(shown)[:WINDOWS_MOST].tolist()
    return {
        **asked.head,
        "windows": [
            {
                "name": table.name[row],
                "start_s": float(table.start_s[row]),
                "end_s": float(table.end_s[row]),
                "maintenance": bool(maintenance[row]),
                "nodes": table.nodes[row],
            }
            for row in rows
        ],
    }


QUESTIONS = (
    for_users(
        "queue", "the pending jobs", _queue, QueueAnswer, (limit(QUEUE_USUAL), SKIP, *ONLY), command="queue", slow=True
    ),
    for_users("windows", "reservations of nodes, maintenance above all", _windows, Windows),
)
