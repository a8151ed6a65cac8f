"""Synthetic views for timing: the shapes of a large queue, not anybody's workload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmsched.cluster.actions import SetAdminComment
from slurmsched.cluster.columns import FloatArray, IntArray, Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.promises import PromiseState, PromiseTable, promise_table
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
    """The same queue once Slurm shows the points, promises and AdminComments that *plan* asked for."""
    points = plan.jobs.points.copy()
    base = before.pending.priority - before.pending.site_points
    texts = {wish.job_id: wish.text for wish in plan.actions if isinstance(wish, SetAdminComment)}
    running, pending = (_answered(jobs, texts) for jobs in (before.running, before.pending))
    pending = replace(pending, site_points=points, priority=base + points)
    return replace(before, pending=pending, running=running, promises=plan.promises)


def _answered(jobs: JobTable, texts: dict[int, str]) -> JobTable:
    comments = (texts.get(job, old) for job, old in zip(jobs.job_id.tolist(), jobs.sent_comment, strict=True))
    return replace(jobs, sent_comment=Labels.of(comments))


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


def promised_view(pending: int = 2_048, promised: int = 500, nodes: int = 60, seed: int = 0) -> View:
    """Return a busy site: *nodes* full nodes of 8 GPUs, and *pending* jobs of which *promised* have an open promise.

    Jobs have many widths, and some have ``ckpt``. Deadlines lie within four days. Some running jobs have a promise too.
    """
    random = np.random.default_rng(seed)
    running, running_s = _running(nodes, random)
    gpus = random.choice([1, 2, 3, 4, 6, 8, 16, 32], pending, p=[0.4, 0.15, 0.05, 0.2, 0.05, 0.1, 0.04, 0.01])
    runtime_s = np.ceil(random.lognormal(8.5, 1.2, pending))
    limit_s = np.ceil(runtime_s * random.uniform(1.5, 10.0, pending))
    forecast = _whole_seconds(runtime_s)
    since_s = NOW_S - random.exponential(20_000, pending)
    due_s = np.full(pending, np.inf)
    rows = np.sort(random.choice(pending, promised, replace=False))
    needs_s = np.minimum(forecast.high_s, limit_s)[rows]
    due_s[rows] = NOW_S + np.maximum(1.2 * needs_s + 10_000.0, random.uniform(0.0, 4 * 86_400.0, promised))
    jobs = job_table(
        pending,
        job_id=np.arange(1, pending + 1),
        name=[f"train_{number % 500}" for number in range(pending)],
        user=[f"user{number}" for number in random.integers(0, 60, pending).tolist()],
        account=[f"account{number}" for number in random.integers(0, 10, pending).tolist()],
        qos=["normal"] * pending,
        partition=[("gpu", "short")[number] for number in random.choice([0, 0, 0, 1], pending).tolist()],
        reason=["Priority"] * pending,
        gpus=gpus,
        nodes=np.maximum(1, -(-gpus // 8)),
        time_limit_s=limit_s,
        priority=random.integers(1, 1000, pending),
        eligible_s=since_s,
        submitted_s=since_s,
        first_submit_s=since_s,
        ckpt=random.random(pending) < 0.3,
        deadline_s=due_s,
    )
    some = np.flatnonzero(running.deadline_s < np.inf)
    tables = [(running, some, running_s[some]), (jobs, rows, needs_s)]
    return View(
        NOW_S,
        jobs,
        running,
        replace(
            _nodes(nodes, random),
            partitions=Labels.of(["gpu,short" if number % 3 == 0 else "gpu" for number in range(nodes)]),
            gpus_used=np.full(nodes, 8),
        ),
        PartitionTable(
            Labels.of(["gpu", "short"]), np.ones(2, np.int64), np.ones(2, np.bool_), np.full(2, np.inf), Labels.of("nn")
        ),
        QosTable(Labels.of(["normal"]), np.array([10])),
        forecast,
        _whole_seconds(running_s),
        _open_promises(tables),
    )


def _running(nodes: int, random: np.random.Generator) -> tuple[JobTable, FloatArray]:
    """Return jobs that fill *nodes* nodes of 8 GPUs, and their forecast runtimes in seconds."""
    gpus, places = [], []
    for node in range(nodes):
        left = 8
        while left:
            gpus.append(min(left, int(random.choice([1, 2, 4, 8]))))
            places.append(f"n{node}")
            left -= gpus[-1]
    count = len(gpus)
    runtime_s = np.ceil(random.lognormal(9.5, 1.0, count))
    started_s = NOW_S - np.floor(random.uniform(0.0, 0.9, count) * runtime_s)
    deadline_s = np.where(random.random(count) < 0.2, started_s + 4.0 * runtime_s, np.inf)
    jobs = job_table(
        count,
        job_id=np.arange(100_001, 100_001 + count),
        user=[f"user{number}" for number in random.integers(0, 60, count).tolist()],
        partition=["gpu"] * count,
        state=np.full(count, JobState.RUNNING),
        gpus=gpus,
        node_list=places,
        time_limit_s=5.0 * runtime_s,
        submitted_s=started_s - 600.0,
        first_submit_s=started_s - 600.0,
        eligible_s=started_s - 600.0,
        started_s=started_s,
        ckpt=random.random(count) < 0.3,
        deadline_s=deadline_s,
    )
    return jobs, runtime_s


def _whole_seconds(runtime_s: FloatArray) -> Forecast:
    texts = Labels.of(["synthetic"] * len(runtime_s))
    return Forecast(runtime_s, runtime_s / 2, runtime_s * 2, texts).in_whole_seconds()


def _open_promises(tables: list[tuple[JobTable, IntArray, FloatArray]]) -> PromiseTable:
    """Return open promises to end by the deadline; *tables* are jobs, the promised rows, and their planned runtimes."""
    columns = [
        (jobs.job_id[rows], jobs.first_submit_s[rows], jobs.gpus[rows], jobs.deadline_s[rows], needs_s)
        for jobs, rows, needs_s in tables
    ]
    job_id, first_submit_s, gpus, deadline_s, needs_s = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return promise_table(
        len(job_id),
        job_id=job_id,
        first_submit_s=first_submit_s,
        asked_s=np.maximum(first_submit_s, NOW_S - 86_400.0),
        user=[name for jobs, rows, _ in tables for name in jobs.user.take(rows)],
        gpus=gpus,
        deadline_s=deadline_s,
        needs_s=needs_s,
        state=np.full(len(job_id), PromiseState.OPEN),
        promised_s=deadline_s,
        worth=np.ones(len(job_id)),
    )
