"""Small views of a cluster, and a generator of odd ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...cluster.columns import IntArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobState, JobTable, job_table
from ...cluster.nodes import NodeTable, PartitionTable, QosTable
from ...cluster.state import View

NOW_S = 1_000_000.0
TIERS = {"gpu": 1, "fast": 5, "closed": 1}
QOS = {"low": 10, "normal": 50, "high": 100}
HOSTILE = ("alice", "bob", "[red]x[/red]", "'; drop", "a|b\n", "\udcff", "\x1b[31m")
"""Names of users, some with text that no program may interpret."""

REASONS = (
    *("Priority", "Resources", "None", "", "JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime", "Reservation"),
    *("AssocGrpGRES", "QOSMaxGRESPerUser", "Licenses", "PartitionDown", "ReqNodeNotAvail", "BadConstraints", "Neu"),
)
_PARTITIONS = ("gpu", "fast", "gpu,fast", "closed", "gpu,closed", "elsewhere")
_WAITED_S = (0.0, 60.0, 3600.0, 500_000.0, 700_000.0, 900_000.0)
_RUNTIMES_S = (60.0, 600.0, float("nan"), float("inf"))


def jobs(count: int, **columns: Any) -> JobTable:
    """Return ordinary jobs 1, 2, ... that have waited a minute, with *columns* in place of theirs."""
    ordinary: dict[str, Any] = {
        "job_id": np.arange(1, count + 1),
        "name": ["train"] * count,
        "user": ["alice"] * count,
        "account": ["astro"] * count,
        "qos": ["normal"] * count,
        "partition": ["gpu"] * count,
        "reason": ["Priority"] * count,
        "gpus": np.ones(count),
        "priority": np.full(count, 1000),
        "submitted_s": np.full(count, NOW_S - 60),
        "first_submit_s": np.full(count, NOW_S - 60),
        "eligible_s": np.full(count, NOW_S - 60),
    }
    return job_table(count, **(ordinary | columns))


def running_jobs(count: int, **columns: Any) -> JobTable:
    """Return jobs 901, 902, ... that started ten minutes ago, with *columns* in place of theirs."""
    ordinary: dict[str, Any] = {
        "job_id": np.arange(901, 901 + count),
        "state": np.full(count, JobState.RUNNING),
        "reason": ["None"] * count,
        "node_list": ["n1"] * count,
        "started_s": np.full(count, NOW_S - 600),
    }
    return jobs(count, **(ordinary | columns))


def nodes(gpus: Sequence[int] = (4, 4), used: Sequence[int] | None = None, usable: bool = True) -> NodeTable:
    """Return nodes n1, n2, ... with so many GPUs each, of which *used* are in use."""
    size = len(gpus)
    zeros, texts = np.zeros(size, dtype=np.int64), Labels.of([""] * size)
    return NodeTable(
        name=Labels.of(f"n{number}" for number in range(1, size + 1)),
        partitions=Labels.of(["gpu"] * size),
        state=Labels.of(["idle"] * size),
        usable=np.full(size, usable),
        cpus=zeros + 8,
        cpus_used=zeros.copy(),
        memory_mib=np.full(size, 16_000.0),
        memory_used_mib=np.zeros(size),
        gpus=np.array(gpus, dtype=np.int64),
        gpus_used=zeros.copy() if used is None else np.array(used, dtype=np.int64),
        gpu_type=texts,
        features=texts,
    )


def partitions() -> PartitionTable:
    """Return the partitions of TIERS; ``closed`` takes no jobs."""
    size = len(TIERS)
    return PartitionTable(
        Labels.of(TIERS),
        np.array(list(TIERS.values()), dtype=np.int64),
        np.array([name != "closed" for name in TIERS]),
        np.full(size, np.inf),
        Labels.of(["n[1-2]"] * size),
    )


def qos() -> QosTable:
    """Return the priorities of QOS."""
    return QosTable(Labels.of(QOS), np.array(list(QOS.values()), dtype=np.int64))


def forecast(runtimes_s: Sequence[float]) -> Forecast:
    """Return forecasts with these medians."""
    runtime_s = np.array(runtimes_s, dtype=np.float64)
    source = Labels.of(["median of 7 runs"] * len(runtime_s))
    return Forecast(runtime_s, runtime_s / 2, runtime_s * 2, source)


def view(
    pending: JobTable,
    runtimes_s: Sequence[float] | None = None,
    *,
    running: JobTable | None = None,
    room: NodeTable | None = None,
) -> View:
    """Return a view of *pending* with forecasts, by default ten minutes each, on two nodes of four GPUs."""
    running = jobs(0) if running is None else running
    return View(
        NOW_S,
        pending,
        running,
        nodes() if room is None else room,
        partitions(),
        qos(),
        forecast([600.0] * len(pending) if runtimes_s is None else runtimes_s),
        forecast([600.0] * len(running)),
    )


def random_view(random: np.random.Generator, count: int) -> View:
    """Return a queue of *count* jobs of every kind.

    There are starving and young jobs, our points or none, every reason, arrays, holds and unknown forecasts.
    """

    def each(values: Sequence[Any]) -> list[Any]:
        return [values[at] for at in random.integers(0, len(values), count)]

    def rare() -> IntArray:
        chosen: IntArray = (random.integers(0, 10, count) == 0).astype(np.int64)
        return chosen

    points = np.where(random.random(count) < 0.5, 0, random.integers(0, 5001, count))
    waited_s = np.array(each(_WAITED_S), dtype=np.float64)
    restarts = rare()
    pending = jobs(
        count,
        job_id=1 + random.permutation(count),
        user=each(HOSTILE),
        qos=each([*QOS, "gone"]),
        partition=each(_PARTITIONS),
        reason=each([*("Priority", "Resources") * len(REASONS), *REASONS]),
        gpus=each([0, 1, 2, 4, 8, 64]),
        tasks=each([1, 1, 1, 5]),
        priority=points + random.integers(1, 3001, count),
        site_points=points,
        nice=rare(),
        fixed=rare(),
        off=rare(),
        held_by_us=rare(),
        interactive=rare(),
        restarts=restarts,
        ran_s=restarts * random.integers(0, 100_000, count),
        reservation=["maint" if reserved else "" for reserved in rare().tolist()],
        het_job_id=rare(),
        submitted_s=NOW_S - waited_s,
        first_submit_s=NOW_S - waited_s,
        eligible_s=NOW_S - waited_s,
    )
    odd = np.array(each(_RUNTIMES_S), dtype=np.float64)
    runtimes_s = np.where(random.random(count) < 0.5, odd, random.uniform(1.0, 1e6, count))
    few = int(random.integers(0, 4))
    used = np.maximum(random.integers(0, 5, 2), [few, 0])  # running jobs have one GPU each on the first node
    return view(pending, runtimes_s.tolist(), running=running_jobs(few), room=nodes((4, 4), used.tolist()))
