"""What restarts cost jobs that can run on several numbers of GPUs."""

from __future__ import annotations

from statistics import median

import numpy as np

from .columns import FloatArray
from .filling import NOTHING, Knowing, NewColumns
from .job_kind import kind_of
from .kind_speeds import LAST, latest
from .state import ClusterState

LONGEST_S = 3_600.0
"""The longest time from a stop request to the next start that counts: after a longer one others had come first."""


class RestartCosts(Knowing):
    """The time from a stop request to the next start of jobs with ``ckpt``, by kind; in memory."""

    def __init__(self) -> None:
        self._costs: dict[str, dict[tuple[int, int], float]] = {}

    def columns(self, state: ClusterState) -> NewColumns:
        """Return what restarts cost jobs that run on different numbers of GPUs; note those that *state* shows."""
        jobs = state.running
        again = jobs.ckpt & (jobs.restarts > 0) & (jobs.stop_requested_s < jobs.started_s)
        for row in np.flatnonzero(again & (jobs.started_s - jobs.stop_requested_s <= LONGEST_S)).tolist():
            costs = latest(self._costs, kind_of(jobs.user[row], jobs.name[row]), dict)
            costs[int(jobs.job_id[row]), int(jobs.restarts[row])] = float(
                jobs.started_s[row] - jobs.stop_requested_s[row]
            )
            while len(costs) > LAST:
                del costs[next(iter(costs))]
        sizes = np.flatnonzero(jobs.most_gpus > 0)
        if not self._costs or not len(sizes):
            return NOTHING
        every_s = median([cost for costs in self._costs.values() for cost in costs.values()])
        cost_s: FloatArray = np.zeros(len(jobs))
        for row in sizes.tolist():
            own = self._costs.get(kind_of(jobs.user[row], jobs.name[row]))
            cost_s[row] = median(own.values()) if own else every_s
        return {"running": {"restart_cost_s": cost_s}}
