"""Whether limits of QOS and associations let a job ask for something else. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .jobs import JobTable
from .limits import LEAST, OF_ONE_JOB, SUBMIT, UNCOUNTED, LimitTable, SharedLimit, ways_of, why_unread
from .nodes import PartitionTable

_WORDS = {"gpu": "GPUs", "cpu": "CPUs", "mem": "MiB", "node": "nodes"}


@dataclass(frozen=True, eq=False)
class JobLimits:
    """Limits of QOS, partitions' QOS and associations, asked about one job after the other.

    For those that several jobs use up, the job is alone: with more than all may have together it would never start.
    Slurm holds no job to limits of CPUs, memory and nodes that an operator changed (22.05); we keep them all the same.
    """

    limits: LimitTable
    partitions: PartitionTable
    _known: dict[tuple[str, ...], list[SharedLimit]] = field(default_factory=dict)

    @cached_property
    def unread(self) -> str:
        """Why limits could not be read; empty if they were, or if there are none to be read."""
        return why_unread(self.limits)

    def refusal(
        self, jobs: JobTable, row: int, *, gpus: int = -1, nodes: int = -1, cpus: int = -1, memory_mib: float = -1.0
    ) -> str:
        """Return why a job may not ask for this in place of what it asks for now; empty if it may."""
        if not len(self.limits):
            return ""
        given = {"gpus": gpus, "nodes": nodes, "cpus": cpus, "memory_mib": memory_mib}
        changes = {name: np.array([value]) for name, value in given.items() if value >= 0}
        before = jobs.take(np.array([row]))
        after = before.changed(**changes)
        return next(filter(None, (_refusal(limit, before, after) for limit in self._of(jobs, row))), "")

    def requires_gpus(self, jobs: JobTable, row: int) -> str:
        """Return which limit requires GPUs of a job, which may not ask for slots in their place; empty for none."""
        if not len(self.limits):
            return ""
        before = jobs.take(np.array([row]))
        after = before.changed(gpus=np.zeros(1, dtype=np.int64))
        required = (limit for limit in self._of(jobs, row) if limit.counts == LEAST)
        return next(filter(None, (_refusal(limit, before, after) for limit in required)), "")

    def gpu_bounds(self, jobs: JobTable, row: int, least: int, most: int, each: int) -> tuple[int, int]:
        """Return the fewest and the most GPUs, between *least* and *most*, that a job may ask for.

        With *each* GPUs on a node, it asks for nodes, with their CPUs and memory; otherwise it stays on one node.
        """
        now, step = int(jobs.gpus[row]), max(each, 1)
        fewest, largest = now, now
        while fewest - step >= least and not self._with_gpus(jobs, row, fewest - step, each):
            fewest -= step
        while largest + step <= most and not self._with_gpus(jobs, row, largest + step, each):
            largest += step
        return fewest, largest

    def _with_gpus(self, jobs: JobTable, row: int, gpus: int, each: int) -> str:
        return self.refusal(jobs, row, **amounts_with(jobs, row, gpus, each))

    def _of(self, jobs: JobTable, row: int) -> list[SharedLimit]:
        columns = (jobs.user, jobs.account, jobs.qos, jobs.partition)
        key = tuple(column[row] for column in columns)
        if key not in self._known:
            ways = ways_of(self.limits, self.partitions, jobs, row, uncounted=True)
            found = dict.fromkeys(limit for way in ways for limit in way)
            self._known[key] = [limit for limit in found if limit.resource not in ("jobs", "wall", "licence", SUBMIT)]
        return self._known[key]


def amounts_with(jobs: JobTable, row: int, gpus: int, each: int) -> dict[str, int]:
    """Return what a job asks for with another number of *gpus*: with *each* on a node, more nodes like its own."""
    if not each:
        return {"gpus": gpus}
    nodes, own = gpus // each, max(int(jobs.nodes[row]), 1)
    memory_mib = float(np.nan_to_num(jobs.memory_mib[row])) * nodes / own
    return {"gpus": gpus, "nodes": nodes, "cpus": int(jobs.cpus[row]) * nodes // own, "memory_mib": round(memory_mib)}


def _refusal(limit: SharedLimit, before: JobTable, after: JobTable) -> str:
    """Return how a change goes against one limit; what was so before is no reason."""
    if limit.resource in UNCOUNTED and limit.counts in OF_ONE_JOB:
        return f"{limit.whose} {limit.name} limits its {limit.resource}, of which we do not know how much it takes"
    if limit.resource in UNCOUNTED:
        return ""
    was, now = (limit.asked(jobs, 0) for jobs in (before, after))
    if not limit.is_beyond(now) or (now >= was if limit.counts == LEAST else now <= was):
        return ""
    words = _WORDS.get(limit.resource.partition(":")[0], limit.resource)
    verb = "requires" if limit.counts == LEAST else "allows"
    return f"{limit.whose} {limit.name} {verb} {limit.most:g} {words}"
