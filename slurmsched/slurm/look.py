"""One look at the cluster: what was read of jobs, priority factors and nodes, as one state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..cluster.jobs import JobState
from ..cluster.nodes import QosTable
from ..cluster.state import ClusterState
from . import sinfo, sprio, squeue
from .records import Columns
from .verbs import BASIC_BAND


def state_of(jobs_seen: Columns, nodes_seen: Columns, factors: Columns | None, qos: QosTable) -> ClusterState:
    """Jobs under squeue's names, nodes under sinfo's, factors under sprio's, None with priority/basic."""
    jobs = squeue.read_jobs(jobs_seen)
    pending = jobs.take(jobs.state == JobState.PENDING)
    refused = jobs_seen.refused + nodes_seen.refused
    if factors is not None:
        pending = sprio.with_factors(pending, factors)
        refused += factors.refused
    else:
        pending = replace(pending, site_points=np.maximum(pending.priority - BASIC_BAND, 0))
    running = (jobs.state >= JobState.CONFIGURING) & (jobs.state <= JobState.COMPLETING)
    ended = (jobs.state >= JobState.COMPLETED) & (jobs.state <= JobState.REQUEUED)
    return ClusterState(
        pending=pending,
        running=jobs.take(running),
        ended=jobs.take(ended),
        nodes=sinfo.read_nodes(nodes_seen),
        partitions=sinfo.read_partitions(nodes_seen),
        qos=qos,
        refused_lines=refused,
    )
