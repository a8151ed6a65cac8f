"""The nodes each job ran on, from successive observations."""

from __future__ import annotations

import math
from collections import OrderedDict

from ..cluster.jobs import JobState, JobTable
from ..cluster.text.hostlist import expand

JOBS_MOST = 200_000  #: about a hundred bytes each
GONE_S = 3600.0  #: a job that is not listed so long after its end never will be, however clocks differ


class JobPlacements:
    """The node lists of observed running jobs, the latest *most* of them; safe to call from any thread."""

    def __init__(self, most: int = JOBS_MOST) -> None:
        self._most = most
        self._nodes_of: OrderedDict[int, tuple[frozenset[str], bool]] = OrderedDict()  # lists, complete?
        self._looked_s = -math.inf

    def note_scan(self, now_s: float) -> None:
        """Note that all jobs that Slurm listed at *now_s* were observed."""
        self._looked_s = now_s

    def observe(self, jobs: JobTable) -> None:
        """Record the nodes that *jobs* run or ran on."""
        for job_id, state, nodes in zip(jobs.job_id.tolist(), jobs.state.tolist(), jobs.node_list, strict=True):
            if nodes:
                # A requeued job runs elsewhere the next time, and the record of the first run may still be on its way.
                lists, whole = self._nodes_of.get(job_id, (frozenset(), False))
                # Of a job that completes Slurm names the nodes that are not done with it; once it ended, all again.
                now_whole = state != JobState.COMPLETING
                if nodes not in lists or now_whole > whole:
                    self._nodes_of[job_id] = lists | {nodes}, whole or now_whole
                self._nodes_of.move_to_end(job_id)
        while len(self._nodes_of) > self._most:
            self._nodes_of.popitem(last=False)

    def ran(self, job_id: int, node: str) -> bool | None:
        """Report whether the job ran on *node*; None for an unobserved job, or while its node list is incomplete."""
        lists, whole = self._nodes_of.get(job_id, (frozenset(), False))
        if any(node in expand(text) for text in lists):
            return True
        return False if whole else None

    def gone(self, job_id: int, end_s: float) -> bool:
        """Report whether the job was never observed and, having ended at *end_s*, is no longer listed by Slurm."""
        return job_id not in self._nodes_of and end_s < self._looked_s - GONE_S
