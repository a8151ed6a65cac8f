"""Weighted fair queueing of rigid jobs: order them by when the GPU share of their class reaches them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.jobs import JobTable
from ...cluster.state import View
from ...cluster.ties import in_points
from ..contract import ordering
from .wfq import Wfq, place
from .wfq_line import line_of, rules_from

STEPS = (3_600.0, 36_000.0, 360_000.0, math.inf)
"""Default GPU-seconds between the classes of ``wfq``: one, ten and a hundred GPU-hours."""

_RAW = in_points(np.exp(-0.5 * np.arange(len(STEPS))))
DEFAULT = Wfq(STEPS, tuple((_RAW / _RAW.sum()).tolist()), 0.0)


@dataclass(frozen=True)
class Queueing:
    """The key of ``wfq`` under *rules*."""

    rules: Wfq

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        return reached(view, self.rules)


def _tuned(settings: Mapping[str, str]) -> Queueing:
    return Queueing(rules_from(settings, DEFAULT))


@ordering("wfq", changes="with_time", tuned=_tuned, defaults=line_of(DEFAULT))
def wfq(view: View) -> FloatArray:
    """Weighted fair queueing by classes of GPU time, first come first served in each (PCS)."""
    return reached(view, DEFAULT)


def reached(view: View, rules: Wfq) -> FloatArray:
    """Return for each pending job the GPUs that its class needs to run it, over the weight of the class.

    Those are the GPUs of the class's running jobs, of its earlier pending jobs, and its own: the virtual finish time of
    a job if each GPU counts as one packet. The class with the least GPUs for its weight is next. Sizes are GPUs times
    forecast runtime, so a job whose forecast grows past a threshold moves to the next class, ordered there by its own
    first submission. NaN without a forecast.
    """
    pending, weights = view.pending, np.array(rules.weights)
    size = _size(pending, view.forecast.rank_s)
    group = rules.classes(size)
    held = rules.classes(_size(view.running, view.forecast_running.rank_s))
    busy = np.bincount(held, weights=view.running.gpus, minlength=len(weights))
    mine = np.maximum(pending.gpus, 1)
    needed = np.zeros(len(pending))
    known = np.isfinite(size)
    key = np.where(known, place(pending.came_s, np.where(known, size, 0.0), rules.overtake), np.inf)
    served = np.lexsort((pending.job_id, pending.came_s, key if rules.overtake else pending.came_s))
    for number in range(len(weights)):
        rows = served[group[served] == number]
        before = np.cumsum(mine[rows] * pending.tasks[rows]) - mine[rows] * pending.tasks[rows]
        needed[rows] = (busy[number] + before + mine[rows]) / weights[number]
    return np.where(np.isnan(view.forecast.runtime_s), np.nan, needed)


def _size(jobs: JobTable, runtime_s: FloatArray) -> FloatArray:
    """Return GPU-seconds by forecast; infinite without one."""
    return np.nan_to_num(runtime_s * np.maximum(jobs.gpus, 1), nan=np.inf)
