"""The ranges of nodes that jobs ask for, as ``--nodes=1-2``: Slurm shows them while a job waits for its first run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .columns import Labels
from .filling import NOTHING, Knowing, NewColumns
from .jobs import JobTable
from .state import ClusterState


class NodeRanges(Knowing):
    """The ranges of jobs that were seen to wait with one; in memory.

    A running job shows the nodes that it has, and on 22.05 so does one that waits to run again. Of a job that started
    before anybody saw it, the range is known on later releases as soon as it waits again.
    """

    def __init__(self) -> None:
        self._ranges: dict[int, str] = {}

    def columns(self, state: ClusterState) -> NewColumns:
        """Return the ranges of all jobs, also of those that do not show theirs now; note those that *state* shows."""
        waiting = state.pending
        shown = waiting.node_range.nonempty()
        if not self._ranges and not shown.any():
            return NOTHING
        others = {*waiting.job_id[waiting.restarts > 0].tolist(), *state.running.job_id.tolist()}
        kept = {job: nodes for job, nodes in self._ranges.items() if job in others}
        self._ranges = kept | {
            int(waiting.job_id[row]): waiting.node_range[row] for row in np.flatnonzero(shown).tolist()
        }
        return {"pending": self._remembered(waiting), "running": self._remembered(state.running)}

    def _remembered(self, jobs: JobTable) -> Mapping[str, Labels]:
        texts = [self._ranges.get(job, "") for job in jobs.job_id.tolist()]
        return {"node_range": Labels.of(texts)} if any(texts) else {}
