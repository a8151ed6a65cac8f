"""From keys to a total order that respects the site's own policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.nodes import PartitionTable, QosTable


def waited_s(jobs: JobTable, now_s: float) -> FloatArray:
    """Queueing time so far: since eligible, or since the first submit for a job that was requeued.

    Time under a dependency or a user's begin time is not queueing (Slurm has no eligible time then, or one to come);
    time under a begin time of ours is. A requeue must not send a job back in time.
    """
    eligible_s = np.where(np.isnan(jobs.waiting_since_s), jobs.eligible_s, jobs.waiting_since_s)
    since = np.where(jobs.restarts > 0, jobs.first_submit_s, eligible_s)
    return np.asarray(np.maximum(now_s - np.where(np.isnan(since), now_s, since), 0.0))


def tiers(jobs: JobTable, partitions: PartitionTable) -> IntArray:
    """The highest PriorityTier among the partitions a job asked for (slurm.conf(5)); 1 where unknown."""
    tier = dict(zip(partitions.name, partitions.tier.tolist(), strict=True))
    return jobs.partition.map(
        [max(tier.get(name, 1) for name in names.split(",")) for names in jobs.partition.names], np.int64
    )


def qos_classes(jobs: JobTable, qos: QosTable) -> IntArray:
    """The priority of each job's QOS; 0 where there is none."""
    priority = dict(zip(qos.name, qos.priority.tolist(), strict=True))
    return jobs.qos.map([priority.get(name, 0) for name in jobs.qos.names], np.int64)


def base_priority(jobs: JobTable) -> IntArray:
    """Slurm's own priority without our points."""
    return jobs.priority - jobs.site_points


def order(
    key: FloatArray, starving: BoolArray, waited: FloatArray, classes: IntArray, base: IntArray, job_id: IntArray
) -> IntArray:
    """Rows from the one that should run soonest to the last.

    Higher classes first; within a class starving jobs by time waited, then the others by key; what is equal stays in
    Slurm's own order: higher base priority, then lower job id. A key that is not a number counts as the largest.
    """
    keys: list[IntArray | FloatArray | BoolArray] = [job_id]
    if len(base) and base.min() != base.max():
        keys.append(-base)
    keys.append(np.where(np.isnan(key), np.inf, key))
    if starving.any():
        keys[-1] = np.where(starving, -waited, keys[-1])
        keys.append(~starving)
    if len(classes) and classes.min() != classes.max():
        keys.append(-classes)
    return np.lexsort(np.concatenate([_words(key) for key in keys]))


def _words(key: IntArray | FloatArray | BoolArray) -> NDArray[np.uint16]:
    """Rows that sort as *key* does, which holds no NaN, the weightiest last.

    Numpy sorts numbers of 16 bits by counting: a long queue takes a third of the time.
    """
    bits = (key + 0).view(np.int64)  # -0.0 is 0.0 then
    if key.dtype == np.float64:
        bits = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)  # those of negative numbers fall
    words = np.ascontiguousarray((bits ^ np.iinfo(np.int64).min).astype("<i8").view("<u2").reshape(-1, 4).T)
    differs = (words != words[:, :1]).any(axis=1)
    differs[0] = True  # one at least, where all are equal
    chosen: NDArray[np.uint16] = words[differs]
    return chosen
