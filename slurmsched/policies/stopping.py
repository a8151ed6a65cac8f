"""Stopping: the running jobs that may end before their time, since their training has what its owner asked for. Pure.

Loss-based termination follows Blox (EuroSys'24, section 5.3); the rules for a loss and a
curve that have settled are ours.
"""

from __future__ import annotations

import numpy as np

from ..cluster.columns import BoolArray, Labels
from ..cluster.state import View
from .contract import stopping


@stopping("never", powers=())
def never(view: View) -> BoolArray:
    """No job is stopped."""
    return np.zeros(len(view.running), dtype=np.bool_)


@stopping("owner-rule")
def owner_rule(view: View) -> BoolArray:
    """Jobs stop where their owner's rule says: at an accuracy, or when loss or accuracy hardly improve any more."""
    jobs, progress = view.running, view.progress
    accuracy, loss_fall = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
    settled = np.zeros(len(jobs), dtype=np.bool_)
    order = np.argsort(progress.job_id, kind="stable")
    ids = progress.job_id[order]
    at = np.minimum(np.searchsorted(ids, jobs.job_id), max(len(ids) - 1, 0))
    known = ids[at] == jobs.job_id if len(ids) else np.zeros(len(jobs), dtype=np.bool_)
    rows = order[at[known]]
    accuracy[known], loss_fall[known], settled[known] = (
        progress.accuracy[rows],
        progress.loss_fall[rows],
        progress.settled[rows],
    )
    reached = _is(jobs.stop, "acc") & (accuracy >= jobs.stop_level)
    level = _is(jobs.stop, "loss") & (loss_fall <= jobs.stop_level)
    return np.asarray((reached | level | (_is(jobs.stop, "opt") & settled)) & ~jobs.off)


def _is(column: Labels, text: str) -> BoolArray:
    return column.map([name == text for name in column.names], np.bool_)
