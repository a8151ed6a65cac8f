"""What of jobs is ours: the columns of jobs that our open intents fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..columns import Labels
from ..jobs import JobTable
from ..state import ClusterState
from . import ACTIONS
from .base import HALF, Action, OwnIntents


def own_columns(
    state: ClusterState, own: OwnIntents, now_s: float, share_refusals: Mapping[str, Labels]
) -> dict[str, dict[str, Any]]:
    """Return the columns of our requests; *share_refusals* are Slurm's words, for pending and running jobs."""
    pending = _of_waiting(state.pending, own, now_s)
    running: dict[str, Any] = {}
    for kind in ACTIONS.values():
        running |= kind.columns(own, state.running, now_s)
    return {
        "pending": {**pending, "share_refusal": share_refusals["pending"]},
        "running": {**running, "share_refusal": share_refusals["running"]},
    }


def undone(own: OwnIntents, pending: JobTable) -> list[Action]:
    """Return the ends of our changes of *pending* jobs that still ask for just what we wrote.

    Points, holds, answers and shared GPUs go back by what Slurm shows, and are not among them.
    """
    return [action for kind in ACTIONS.values() for action in kind.undone(own, pending)]


def undone_of_running(own: OwnIntents, running: JobTable) -> list[Action]:
    """Return the ends of our changes of *running* jobs that are in force."""
    return [action for kind in ACTIONS.values() for action in kind.undone_of_running(own, running)]


def _of_waiting(pending: JobTable, own: OwnIntents, now_s: float) -> dict[str, Any]:
    """Return the columns of pending jobs; changes that Slurm took in part are joined in one column."""
    columns: dict[str, Any] = {}
    names, codes = [""], np.zeros(len(pending), dtype=np.int64)
    for kind in ACTIONS.values():
        found = dict(kind.columns_of_waiting(own, pending, now_s))
        if (half := found.pop(HALF, None)) is not None:
            codes = codes + half * len(names)
            names += ["+".join(filter(None, (name, kind.power))) for name in names]
        columns |= found
    return columns | {HALF: Labels(codes, tuple(names))}
