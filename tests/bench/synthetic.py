"""Synthetic views for timing: the shapes of a large queue, not anybody's workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View

NOW_S = 1_000_000.0


def view(pending: int, nodes: int = 1000, seed: int = 0) -> View:
    """*pending* jobs of 300 users in 4 partitions and 3 QOS before *nodes* nodes of 8 GPUs, half of them taken."""
    random = np.random.default_rng(seed)
    since_s = NOW_S - random.exponential(50_000, pending)
    jobs = job_table(
        pending,
        job_id=np.arange(1, pending + 1),
        name=[f"train_{number % 500}" for number in range(pending)],
        user=[f"user{number}" for number in random.integers(0, 300, pending).tolist()],
        account=[f"account{number}" for number in random.integers(0, 20, pending).tolist()],
        qos=[("low", "normal", "high")[number] for number in random.integers(0, 3, pending).tolist()],
        partition=[f"gpu{number}" for number in random.integers(0, 4, pending).tolist()],
        reason=[("Priority", "Resources", "Dependency")[number] for number in random.choice([0, 0, 0, 1, 2], pending)],
        gpus=random.choice([1, 1, 1, 2, 4, 8, 16], pending),
        priority=random.integers(1, 1000, pending),
        eligible_s=since_s,
        submitted_s=since_s,
        first_submit_s=since_s,
    )
    runtime_s = random.lognormal(7, 2, pending)
    forecast = Forecast(runtime_s, runtime_s / 3, runtime_s * 3, Labels.of(["synthetic"] * pending))
    return View(
        NOW_S,
        jobs,
        job_table(0),
        _nodes(nodes, random),
        PartitionTable(
            Labels.of(f"gpu{number}" for number in range(4)),
            np.array([1, 1, 2, 3]),
            np.ones(4, dtype=bool),
            np.full(4, np.inf),
            Labels.of(["n"] * 4),
        ),
        QosTable(Labels.of(["low", "normal", "high"]), np.array([10, 50, 100])),
        forecast,
        forecast.take(slice(0, 0)),
    )


def after(before: View, plan: Plan) -> View:
    """The same queue once Slurm shows the points that *plan* asked for."""
    pending = before.pending
    points = plan.jobs.points.copy()
    base = pending.priority - pending.site_points
    return replace(before, pending=replace(pending, site_points=points, priority=base + points))


def _nodes(count: int, random: np.random.Generator) -> NodeTable:
    empty, zeros = Labels.of([""] * count), np.zeros(count, dtype=np.int64)
    return NodeTable(
        name=Labels.of(f"n{number}" for number in range(count)),
        partitions=Labels.of(["gpu0,gpu1,gpu2,gpu3"] * count),
        state=Labels.of(["mixed"] * count),
        usable=np.ones(count, dtype=bool),
        cpus=zeros + 64,
        cpus_used=zeros.copy(),
        memory_mib=np.full(count, 512_000.0),
        memory_used_mib=np.zeros(count),
        gpus=zeros + 8,
        gpus_used=random.integers(0, 9, count),
        gpu_type=empty,
        features=empty,
    )
