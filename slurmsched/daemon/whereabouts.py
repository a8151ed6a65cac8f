"""Which job ran where, as the cycles saw it."""

from __future__ import annotations

from collections import OrderedDict

from ..cluster.hostlist import expand
from ..cluster.jobs import JobTable

JOBS_MOST = 200_000  #: about a hundred bytes each


class Whereabouts:
    """The node lists of the jobs that were seen started, the latest *most* of them; any thread may ask."""

    def __init__(self, most: int = JOBS_MOST) -> None:
        self._most = most
        self._seen: OrderedDict[int, frozenset[str]] = OrderedDict()

    def saw(self, jobs: JobTable) -> None:
        """Take in where *jobs* run, or ran."""
        for job_id, nodes in zip(jobs.job_id.tolist(), jobs.node_list, strict=True):
            if nodes:
                # A requeued job runs elsewhere the next time, and the record of the first run may still be on its way.
                lists = self._seen.get(job_id, frozenset())
                if nodes not in lists:
                    self._seen[job_id] = lists | {nodes}
                self._seen.move_to_end(job_id)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)

    def ran(self, job_id: int, node: str) -> bool | None:
        """Whether the job was seen on *node*; None where it was never seen at all."""
        lists = self._seen.get(job_id)
        return None if lists is None else any(node in expand(text) for text in lists)
