"""The GPU time that interactive jobs of each user took lately."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from .filling import NOTHING, NewColumns
from .records.outcomes import OutcomeTable
from .state import ClusterState

WINDOW_S = 86_400.0
"""The time for which an interactive run counts after its end, in seconds."""


class InteractiveUse:
    """The interactive runs that ended within ``WINDOW_S``."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int, float], tuple[float, str, float]] = {}  # end, user and GPU-seconds by run

    def learn(self, ended: OutcomeTable) -> None:
        """Add the interactive ones of runs that *ended*; a run that is known already counts once."""
        for row in np.flatnonzero(ended.interactive).tolist():
            run = int(ended.job_id[row]), int(ended.restart[row]), float(np.floor(ended.first_submit_s[row]))
            gpu_s = float(ended.gpus[row] * ended.runtime_s[row])
            self._runs[run] = (float(ended.ended_s[row]), ended.user[row], gpu_s)

    def columns(self, state: ClusterState, now_s: float) -> NewColumns:
        """Return the column ``interactive_used_s`` of pending jobs."""
        self._runs = {run: use for run, use in self._runs.items() if use[0] > now_s - WINDOW_S}
        jobs = state.pending
        rows = np.flatnonzero(jobs.interactive)
        if not self._runs or not len(rows):
            return NOTHING
        by_user: defaultdict[str, float] = defaultdict(float)
        for _, user, gpu_s in self._runs.values():
            by_user[user] += gpu_s
        used_s = np.zeros(len(jobs))
        used_s[rows] = [by_user[user] for user in jobs.user.take(rows)]
        return {"pending": {"interactive_used_s": used_s}}
