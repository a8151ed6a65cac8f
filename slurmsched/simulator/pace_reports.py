"""What simulated jobs report of their pace: how much the load of their nodes slows them down."""

from __future__ import annotations

import numpy as np

from ..cluster.records.progress import NO_PROGRESS, ProgressTable
from ..cluster.state import ClusterState
from ..cluster.text.hostlist import expand
from ..policies.migration import slowed


def pace_reports(state: ClusterState) -> ProgressTable:
    """Return the reports of all running jobs, as if each had run on calm nodes before; none where no node is loaded."""
    nodes, jobs = state.nodes, state.running
    load = np.nan_to_num(nodes.cpu_load, nan=0.0).tolist()
    factors = [slowed(busy, max(has, 1)) for busy, has in zip(load, nodes.cpus.tolist(), strict=True)]
    if max(factors, default=1.0) == 1.0:
        return NO_PROGRESS
    by_node = dict(zip(nodes.name, factors, strict=True))
    slowdown = [max((by_node[name] for name in expand(text)), default=1.0) for text in jobs.node_list]
    unknown, nobody = np.full(len(jobs), np.nan), np.zeros(len(jobs), dtype=np.bool_)
    return ProgressTable(
        job_id=jobs.job_id,
        iteration=np.ones(len(jobs), dtype=np.int64),
        **dict.fromkeys(("accuracy", "loss_fall", "late_fall"), unknown),
        may_end=nobody,
        settled=nobody,
        slowdown=np.array(slowdown, dtype=np.float64),
    )
