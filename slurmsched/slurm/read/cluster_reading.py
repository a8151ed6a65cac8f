"""Combine the records of jobs, priority factors and nodes into one cluster state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...cluster.jobs import JobState
from ...cluster.nodes import QosTable
from ...cluster.state import ClusterState
from ..write.verbs import BASIC_BAND
from . import sinfo, sprio, squeue
from .node_specs import NodeSpec, with_specs
from .partitions import PartitionLimits, with_limits
from .records import RecordColumns, reading
from .whole_nodes import with_gpus_of_nodes

NO_LIMITS: Mapping[str, PartitionLimits] = {}
"""The limits of partitions where they were not read."""

NO_SPECS: Mapping[str, NodeSpec] = {}
"""What nodes keep for themselves where that was not read."""


def state_of(
    jobs_seen: RecordColumns,
    nodes_seen: RecordColumns,
    factors: RecordColumns | None,
    qos: QosTable,
    limits: Mapping[str, PartitionLimits] = NO_LIMITS,
    why_down: RecordColumns | None = None,
    specs: Mapping[str, NodeSpec] = NO_SPECS,
) -> ClusterState:
    """Build the state from columns by the names of squeue, sinfo and sprio; *factors* is None with priority/basic.

    *limits* are those of partitions, *why_down* sinfo's columns about nodes that take no jobs, *specs* what nodes keep
    for themselves, where they were read.
    """
    with reading("squeue"):
        jobs = squeue.read_jobs(jobs_seen)
    pending = jobs.take(jobs.state == JobState.PENDING)
    if factors is not None:
        with reading("sprio"):
            pending = sprio.with_factors(pending, factors)
    else:
        pending = pending.changed(site_points=np.maximum(pending.priority - BASIC_BAND, 0))
    running = (jobs.state >= JobState.CONFIGURING) & (jobs.state <= JobState.COMPLETING)
    ended = (jobs.state >= JobState.COMPLETED) & (jobs.state <= JobState.REQUEUED)
    with reading("sinfo"):
        nodes = with_specs(sinfo.with_reasons(sinfo.read_nodes(nodes_seen), why_down), specs)
        partitions = with_limits(sinfo.read_partitions(nodes_seen), limits, nodes)
    return ClusterState(
        pending=pending,
        running=with_gpus_of_nodes(jobs.take(running), nodes),
        ended=jobs.take(ended),
        nodes=nodes,
        partitions=partitions,
        qos=qos,
        melted=np.setdiff1d(np.array(jobs_seen["JobID"], dtype=np.int64), jobs.job_id),
    )
