"""Views of jobs that train, as scalings see them."""

from __future__ import annotations

import numpy as np

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.training import TrainingJobs, TrainingView


def training_view(node_gpus, *, cpus=None, memory_mib=None, held=None, **columns):
    """Jobs with *columns* on nodes with so many GPUs, at the moment 0 in rounds of a minute."""
    count, nodes = len(columns["gpus"]), len(node_gpus)
    table = {"gpus": node_gpus, "cpus": cpus, "memory_mib": memory_mib, "name": [f"n{one}" for one in range(nodes)]}
    neutral = {"job_id": np.arange(count), "most_gpus": columns["gpus"], "weight": np.ones(count)}
    given = {name: np.zeros(count, np.float64) for name in ("submit_s", "done", "left", "served_gpu_s", "ran_s")} | {
        name: np.zeros(count, np.int64) for name in ("batch", "restarts")
    }
    given["memo"] = np.zeros((count, 0))
    given |= {"application": Labels.of(["a"] * count), "held": np.zeros((count, nodes), np.int64)} | neutral | columns
    if held is not None:
        given["held"] = held
    return TrainingView(
        0.0,
        60.0,
        30.0,
        TrainingJobs(**{name: given[name] for name in TrainingJobs.__dataclass_fields__}),
        table_of(NodeTable, nodes, {"usable": True, "cpus": 1_000_000, "memory_mib": np.inf}, table),
    )
