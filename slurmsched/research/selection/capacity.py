"""The selection of YARN's capacity scheduler: a fixed part of the GPUs for jobs with a deadline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.state import View
from ...errors import ConfigError
from ...policies.contract import SELECTIONS, Selection
from ...policies.selection.built_in import start_in_order
from ...policies.selection.free_nodes import FreeNodes

SHARE = 0.5  #: of the GPUs, for jobs with a deadline


@dataclass(frozen=True)
class Capacity:
    """Two queues: of the GPUs, jobs with a deadline have a *share*, and the others the rest."""

    share: float = SHARE

    def __call__(self, view: View, order: IntArray, nodes: FreeNodes) -> None:
        """Start the jobs of each queue in turn, as far as its part goes; all in one queue where there are no parts."""
        jobs = view.running.joined(view.pending)
        due = np.isfinite(jobs.deadline_s)
        runs = np.arange(len(jobs)) < len(view.running)
        parts = self._parts(jobs.gpus, due, np.concatenate([np.flatnonzero(runs), order]), int(view.nodes.gpus.sum()))
        if parts is None:
            start_in_order(order, nodes, strict=True)
            return
        for queue, part in zip((due, ~due), parts, strict=True):
            rows, free = order[queue[order]], part - int(jobs.gpus[queue & runs].sum())
            start_in_order(rows[np.cumsum(jobs.gpus[rows]) <= free], nodes, strict=True)

    def _parts(self, gpus: IntArray, due: BoolArray, present: IntArray, total: int) -> tuple[int, int] | None:
        """Return the GPUs of both queues; None where their widest *present* jobs do not fit beside each other.

        A queue has room for its widest job at least: it would wait for ever otherwise.
        """
        wide, other = (int(gpus[present[kind[present]]].max(initial=0)) for kind in (due, ~due))
        if wide + other > total:
            return None
        part = max(wide, min(round(self.share * total), total - other))
        return part, total - part


def _tuned(settings: Mapping[str, str]) -> Capacity:
    """Return the selection of ``share=0.4``; ConfigError unless it is a number from 0 to 1."""
    try:
        share = float(settings.get("share", ""))
    except ValueError:
        share = math.nan
    if set(settings) != {"share"} or not 0 <= share <= 1:
        raise ConfigError("yarn-cs: accepted is share=X from 0 to 1: of the GPUs, that of jobs with a deadline")
    return Capacity(share)


SELECTIONS.add(
    Selection(
        "yarn-cs",
        Capacity(),
        "Jobs with a deadline have a fixed share of the GPUs, the others the rest; nothing passes a job of its queue.",
        tuned=_tuned,
        defaults=f"share={SHARE:g}",
        bare="share",
        powers=frozenset({"start"}),
    )
)
