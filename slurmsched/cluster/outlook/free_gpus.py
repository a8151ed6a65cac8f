"""Free GPUs: which GPUs running jobs hold, and when those of each node come free. One rule for all who ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..columns import FloatArray, IntArray
from ..jobs import JobTable
from ..nodes import NodeTable
from ..text.hostlist import expanded
from .remaining import UNKNOWN_S


class HeldGpus(NamedTuple):
    """The part of each running job on each of its nodes, by job."""

    job: IntArray  #: its row
    node: IntArray  #: the row of the node
    gpus: IntArray  #: GPUs of the job there


@dataclass(frozen=True, eq=False)
class FreeGpus:
    """The GPUs of nodes, with the running jobs that hold them.

    * A GPU of two jobs comes free with the later one.
    * A GPU in use by no job that is shown comes free with the last of the jobs that are; where none is, after
      UNKNOWN_S.
    * A node that takes no new jobs (down, drained) gives none; one that power saving switched off, once it is up;
      one that is reserved for others, after that.
    """

    running: JobTable
    nodes: NodeTable
    ready_s: FloatArray  #: the seconds until each node is powered up, and not reserved for others any more

    @cached_property
    def held(self) -> HeldGpus:
        """Which GPUs each running job holds; evenly on its nodes where Slurm does not say it."""
        jobs, places = self.running, {name: place for place, name in enumerate(self.nodes.name)}
        hosts = [[places.get(name, -1) for name in expanded(text)] for text in jobs.node_list.names]
        count = jobs.node_list.map([len(mine) for mine in hosts], np.int64)
        job = np.repeat(np.arange(len(jobs)), count)
        node = np.array([place for code in jobs.node_list.codes.tolist() for place in hosts[code]], dtype=np.int64)
        part = np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
        gpus = jobs.gpus[job] // count[job] + (part < jobs.gpus[job] % count[job])
        if any(jobs.node_gpus.names):
            said = [text.split(",") if text else [] for text in jobs.node_gpus.names]
            own = [said[code][at : at + 1] for code, at in zip(jobs.node_gpus.codes[job], part, strict=True)]
            gpus = np.array([int(one[0]) if one else even for one, even in zip(own, gpus, strict=True)], dtype=np.int64)
        there = node >= 0
        return HeldGpus(job[there], node[there], gpus[there])

    @cached_property
    def total(self) -> IntArray:
        """The GPUs of each node that new jobs may have, sooner or later."""
        return np.asarray(np.where(self.nodes.usable, self.nodes.gpus, 0), dtype=np.int64)

    @cached_property
    def now(self) -> IntArray:
        """The GPUs of each node that Slurm can give to a job now; it powers up nodes for it, if need be."""
        return np.where(self.ready_s > self.nodes.ready_s, 0, self._unused)

    @cached_property
    def _unused(self) -> IntArray:
        return np.asarray(np.maximum(self.total - self.nodes.gpus_used, 0), dtype=np.int64)

    def by_node(self, ends_s: FloatArray, now_s: float = 0.0) -> FloatArray:
        """Return when each GPU of each node is free, [node, GPU], rising; infinite for those that a node has not.

        Running jobs end at *ends_s*; GPUs that are free have *now_s*, on nodes that power up the end of that.
        """
        total, unused = self.total, self._unused
        free_s = np.full((len(total), int(total.max(initial=0))), np.inf)
        at = np.arange(free_s.shape[1])
        free_s = np.where(at < unused[:, None], now_s + self.ready_s[:, None], free_s)
        job, node, gpus = self._alone
        gpu_node, gpu_s = np.repeat(node, gpus), np.repeat(self._shared_ends_s(ends_s)[job], gpus)
        order = np.lexsort((-gpu_s, gpu_node))
        gpu_node, gpu_s = gpu_node[order], gpu_s[order]
        rank = np.arange(len(gpu_node)) - np.searchsorted(gpu_node, gpu_node)
        kept = rank < (total - unused)[gpu_node]
        gpu_node, gpu_s, rank = gpu_node[kept], gpu_s[kept], rank[kept]
        hidden = total - unused - np.bincount(gpu_node, minlength=len(total))
        free_s[gpu_node, (total - hidden)[gpu_node] - 1 - rank] = gpu_s
        last_s = ends_s[self.running.gpus > 0].max(initial=-np.inf)
        unknown = (at >= (total - hidden)[:, None]) & (at < total[:, None])
        free_s[unknown] = max(last_s, now_s) if last_s > -np.inf else now_s + UNKNOWN_S
        return np.sort(np.maximum(free_s, now_s + self.ready_s[:, None]), axis=1) if self.ready_s.any() else free_s

    def _shared_ends_s(self, ends_s: FloatArray) -> FloatArray:
        """Return when the GPUs of each job come free, by the later one of two jobs that share them."""
        jobs = self.running
        guests = np.flatnonzero(jobs.beside)
        if not len(guests):
            return ends_s
        ends_s, by_id = ends_s.copy(), np.argsort(jobs.job_id, kind="stable")
        hosts = by_id[np.minimum(np.searchsorted(jobs.job_id[by_id], jobs.beside[guests]), len(jobs) - 1)]
        there = jobs.job_id[hosts] == jobs.beside[guests]
        ends_s[guests] = np.where(there, np.maximum(ends_s[guests], ends_s[hosts]), ends_s[guests])
        return ends_s

    @property
    def _alone(self) -> HeldGpus:
        """Which GPUs each running job holds, those of a host and its guest counted with the guest."""
        job, node, gpus = self.held
        guest_gpus = self.running.guest_gpus[job]
        if not guest_gpus.any():
            return self.held
        lent, taken = np.zeros(len(gpus), dtype=np.int64), dict(enumerate(self.running.guest_gpus.tolist()))
        for part in np.flatnonzero(guest_gpus).tolist():
            lent[part] = min(taken[int(job[part])], int(gpus[part]))
            taken[int(job[part])] -= int(lent[part])
        return HeldGpus(job, node, gpus - lent)
