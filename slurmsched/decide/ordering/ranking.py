"""Ranking: a total order by keys that respects the site's own policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.nodes import PartitionTable, QosTable
from ...cluster.ties import in_ms


def waited_s(jobs: JobTable, now_s: float) -> FloatArray:
    """Return the queueing time so far: the time that a job was eligible and pending, before all of its runs.

    Time under a dependency, a hold or a user's begin time does not count (Slurm then has no eligible time, or a future
    one, or no priority); time under a begin time of ours does. A requeue must not cost a job its waiting time, and a
    run adds none.
    """
    since_s = _since_s(jobs)
    this_s = np.maximum(now_s - np.where(np.isnan(since_s), now_s, since_s), 0.0)
    return np.asarray(np.maximum(this_s + jobs.waited_s, 0.0))


def queueing_s(jobs: JobTable, now_s: float) -> FloatArray:
    """Return ``waited_s``, NaN for a job that does not queue now: under a hold, a dependency or a user's begin time."""
    return np.where(_since_s(jobs) <= now_s, waited_s(jobs, now_s), np.nan)


def _since_s(jobs: JobTable) -> FloatArray:
    """Return when each job became eligible, without begin times of ours; infinite for one that is held."""
    return np.where(np.isnan(jobs.waiting_since_s), jobs.eligible_s, jobs.waiting_since_s)


def qos_classes(jobs: JobTable, qos: QosTable) -> IntArray:
    """Return the priority of each job's QOS, the highest of a list (``--qos=high,low``); 0 if it has none."""
    priority = dict(zip(qos.name, qos.priority.tolist(), strict=True))
    return jobs.qos.map([max(priority.get(name, 0) for name in names.split(",")) for names in jobs.qos.names], np.int64)


def classes(jobs: JobTable, partitions: PartitionTable, qos: QosTable, *, across_qos: bool) -> IntArray:
    """Return the class of each job, in which our order goes: its partition tier, and its QOS unless *across_qos*.

    Classes of several tables can be compared.
    """
    tier = partitions.highest_tiers(jobs.partition)
    return tier if across_qos else tier * (int(qos.priority.max(initial=0)) + 1) + qos_classes(jobs, qos)


def base_priority(jobs: JobTable) -> IntArray:
    """Return Slurm's own priority without our points."""
    return jobs.priority - jobs.site_points


def order(
    key: FloatArray,
    starving: BoolArray,
    waited: FloatArray,
    classes: IntArray,
    base: IntArray,
    first_submit_s: FloatArray,
    job_id: IntArray,
) -> IntArray:
    """Return the rows sorted from the first to run to the last.

    Higher classes come first; within a class starving jobs by waiting time, then the others by key; ties keep Slurm's
    own order: higher base priority, then the first come. A NaN key counts as the largest.
    """
    keys: list[IntArray | FloatArray | BoolArray] = [job_id, in_ms(first_submit_s), -base]
    keys.append(np.where(np.isnan(key), np.inf, key))
    if starving.any():
        keys[-1] = np.where(starving, -waited, keys[-1])
        keys.append(~starving)
    keys.append(-classes)
    words = np.concatenate([_words(key) for key in keys])
    return np.lexsort(words) if len(words) else np.arange(len(job_id))


def _words(key: IntArray | FloatArray | BoolArray) -> NDArray[np.uint16]:
    """Split *key*, which has no NaN, into rows of 16-bit words with the same order, the most significant last.

    Numpy radix-sorts 16-bit numbers, which takes a third of the time for a long queue. There are only as many rows as
    tell the keys apart: none where all are equal.
    """
    if key.dtype == np.float64:
        bits = (key + 0).view(np.int64)  # -0.0 is 0.0 then
        bits = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)  # negative floats sort in reverse by their bits
    else:
        bits = key.astype(np.int64)
    if not len(bits):
        return np.zeros((0, 0), dtype=np.uint16)
    lowest, highest = int(bits.min()), int(bits.max())
    if highest - lowest < 1 << 16:
        return (bits - lowest).astype(np.uint16)[np.newaxis][: int(highest > lowest)]
    above = bits.view(np.uint64) - np.uint64(lowest % (1 << 64))
    used = int(np.bitwise_or.reduce(above))
    unused = (used & -used).bit_length() - 1
    many = -(-(used >> unused).bit_length() // 16)
    return np.ascontiguousarray((above >> unused).astype("<u8").view("<u2").reshape(-1, 4).T[:many])
