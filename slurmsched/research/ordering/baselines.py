"""Baselines: the orders of other systems for rigid jobs, AFS and Themis."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...policies.contract import ordering
from ...policies.ordering.attained_service import srsf


@ordering("afs-l", changes="while_running", turns=True)
def afs_l(view: View) -> FloatArray:
    """Most speed gained per GPU first (AFS-L, Hwang et al., NSDI'21); with the GPUs of each job fixed it is `srsf`.

    A job that starts gains 1 over its remaining time, for all of its GPUs at once.
    """
    return srsf(view)


@ordering("themis", changes="with_time", turns=True)
def themis(view: View) -> FloatArray:
    """Farthest behind its fair finish first, by forecast (Themis, Mahajan et al., NSDI'20).

    The key is the time from submission to end if the job ran from now on, over its time on an equal share of the GPUs
    among all present jobs. A job on fewer GPUs is assumed to be slower in proportion.
    """
    pending, runtime_s = view.pending, view.forecast.rank_s
    there = int(pending.tasks.sum()) + len(view.running)
    share = max(float(view.nodes.gpus.sum()), 1.0) / max(there, 1)
    waited, ran = (view.now_s - pending.came_s) / runtime_s, pending.ran_s / runtime_s
    return -(waited + np.maximum(1.0 - ran, 0.0)) / np.maximum(pending.gpus / share, 1.0)
