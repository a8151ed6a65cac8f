"""The allowance of each user for interactive jobs that pass the line of load control. Pure.

That a job is interactive is what its owner says by salloc or srun, so it is worth a bounded amount of GPU time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.state import View
from .rules import Rules

HOUR_S = 3600.0


@dataclass(frozen=True, eq=False)
class InteractiveQueue:
    """The pending interactive jobs by submission, and what each asks of the allowance of its user, in GPU-seconds."""

    rows: IntArray  #: pending rows
    used_s: FloatArray  #: what counts before each: within a day, running, and let pass before it
    asked_s: FloatArray  #: its GPUs for the whole of its time limit; infinite where it may get more than it asks for
    most_s: float

    @property
    def passes(self) -> BoolArray:
        """A mask of those within the allowance."""
        return np.asarray(self.used_s + self.asked_s <= self.most_s)


def interactive_queue(view: View, rules: Rules) -> InteractiveQueue:
    """Count what interactive jobs have had, have and ask for against the allowances of their users.

    A running one counts with its whole time limit, and one that ended with the time that it took. A pending job that
    does not fit counts for nothing: a shorter one may come in before it.
    """
    jobs, running = view.pending, view.running
    hours = np.inf if rules.admission is None else rules.admission.interactive_gpu_hours
    most_s = float(np.round(hours * HOUR_S))
    rows = np.flatnonzero(jobs.interactive & (jobs.gpus > 0))
    rows = rows[np.lexsort((jobs.job_id[rows], jobs.first_submit_s[rows]))]
    asked_s = np.where((jobs.exclusive | (jobs.most_nodes > jobs.nodes))[rows], np.inf, _reserved_s(jobs, rows))
    runs = np.flatnonzero(running.interactive & (running.gpus > 0)) if len(rows) else rows
    reserved: defaultdict[str, float] = defaultdict(float)
    for user, used in zip(running.user.take(runs), _reserved_s(running, runs).tolist(), strict=True):
        reserved[user] += used
    used_s = jobs.interactive_used_s[rows].astype(np.float64)
    for place, user in enumerate(jobs.user.take(rows)):
        used_s[place] += reserved[user]
        if used_s[place] + asked_s[place] <= most_s:
            reserved[user] += asked_s[place]
    return InteractiveQueue(rows, used_s, asked_s, most_s)


def passes_line(view: View, rules: Rules) -> BoolArray:
    """Select the pending interactive jobs that no line keeps out."""
    queue = interactive_queue(view, rules)
    passes = np.zeros(len(view.pending), dtype=np.bool_)
    passes[queue.rows[queue.passes]] = True
    return passes


def _reserved_s(jobs: JobTable, rows: IntArray) -> FloatArray:
    return np.asarray(jobs.gpus[rows] * jobs.time_limit_s[rows])
