"""Combine the records of jobs, priority factors and nodes into one cluster state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.jobs import JobState
from ...cluster.nodes import QosTable
from ...cluster.state import ClusterState
from ..write.verbs import BASIC_BAND
from . import sinfo, sprio, squeue
from .records import RecordColumns, reading


def state_of(
    jobs_seen: RecordColumns, nodes_seen: RecordColumns, factors: RecordColumns | None, qos: QosTable
) -> ClusterState:
    """Build the state from columns by the names of squeue, sinfo and sprio; *factors* is None with priority/basic."""
    with reading("squeue"):
        jobs = squeue.read_jobs(jobs_seen)
    pending = jobs.take(jobs.state == JobState.PENDING)
    if factors is not None:
        with reading("sprio"):
            pending = sprio.with_factors(pending, factors)
    else:
        pending = replace(pending, site_points=np.maximum(pending.priority - BASIC_BAND, 0))
    running = (jobs.state >= JobState.CONFIGURING) & (jobs.state <= JobState.COMPLETING)
    ended = (jobs.state >= JobState.COMPLETED) & (jobs.state <= JobState.REQUEUED)
    with reading("sinfo"):
        nodes, partitions = sinfo.read_nodes(nodes_seen), sinfo.read_partitions(nodes_seen)
    return ClusterState(
        pending=pending,
        running=jobs.take(running),
        ended=jobs.take(ended),
        nodes=nodes,
        partitions=partitions,
        qos=qos,
        melted=np.setdiff1d(np.array(jobs_seen["JobID"], dtype=np.int64), jobs.job_id),
    )
