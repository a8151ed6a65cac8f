"""Small views for the tests of deciding, and a strategy that makes odd ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.state import View

NOW_S = 1_000_000.0
ALL_POWERS = frozenset({"order", "hold", "requeue", "suspend", "stop", "partition", "comment", "share", "nodes"})
TIERS = {"gpu": 1, "fast": 5, "closed": 1}
QOS = {"low": 10, "normal": 50, "high": 100}


def jobs(count: int, **columns: Any) -> JobTable:
    """Ordinary jobs 1, 2, ... that have waited a minute; *columns* say what is special."""
    known: dict[str, Any] = {
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
    return job_table(count, **(known | columns))


def nodes(gpus: Sequence[int] = (4, 4), used: Sequence[int] | None = None, usable: bool = True) -> NodeTable:
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
    size = len(TIERS)
    return PartitionTable(
        Labels.of(TIERS),
        np.array(list(TIERS.values()), dtype=np.int64),
        np.array([name != "closed" for name in TIERS]),
        np.full(size, np.inf),
        Labels.of(["n[1-2]"] * size),
    )


def qos() -> QosTable:
    return QosTable(Labels.of(QOS), np.array(list(QOS.values()), dtype=np.int64))


def forecast(runtimes_s: Sequence[float]) -> Forecast:
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
    """*pending* with forecasts, on two nodes of four GPUs unless *room* says otherwise."""
    running = jobs(0) if running is None else running
    return View(
        NOW_S,
        pending,
        running,
        nodes() if room is None else room,
        partitions(),
        qos(),
        forecast(np.full(len(pending), 600.0) if runtimes_s is None else runtimes_s),
        forecast(np.full(len(running), 600.0)),
    )


def running_jobs(count: int, **columns: Any) -> JobTable:
    """Jobs 901, 902, ... that started ten minutes ago."""
    known: dict[str, Any] = {
        "job_id": np.arange(901, 901 + count),
        "state": np.full(count, JobState.RUNNING),
        "reason": ["None"] * count,
        "node_list": ["n1"] * count,
        "started_s": np.full(count, NOW_S - 600),
    }
    return jobs(count, **(known | columns))


def after(seen: View, actions: Sequence[Any]) -> View:
    """What the next look shows when *actions*, points alone, were carried out and nothing else happened."""
    points, priority = seen.pending.site_points.copy(), seen.pending.priority.copy()
    for action in actions:
        row = int(np.flatnonzero(seen.pending.job_id == action.job_id)[0])
        priority[row] += action.points - points[row]
        points[row] = action.points
    return replace(seen, pending=replace(seen.pending, site_points=points, priority=priority))


REASONS = (
    *("Priority", "Resources", "None", "", "JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime", "Reservation"),
    *("AssocGrpGRES", "QOSMaxGRESPerUser", "Licenses", "PartitionDown", "ReqNodeNotAvail", "BadConstraints", "Neu"),
)
MOSTLY_WAITING = st.one_of(st.just("Priority"), st.just("Resources"), st.sampled_from(REASONS))
HOSTILE = st.one_of(st.sampled_from(["alice", "bob", "[red]x[/red]", "'; drop", "a|b\n", "\udcff", "\x1b[31m"]))


@st.composite
def views(draw: st.DrawFn, most: int = 25) -> View:
    """Any queue: starving and young jobs, our points or none, every reason, arrays, holds, unknown forecasts."""
    count = draw(st.integers(0, most))

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    rare = st.integers(0, 9).map(lambda number: number == 0)
    points = each(st.one_of(st.just(0), st.integers(0, 5000)))
    base = each(st.integers(1, 3000))
    waited_s = np.array(each(st.sampled_from([0.0, 60.0, 3600.0, 500_000.0, 700_000.0, 900_000.0])))
    pending = jobs(
        count,
        job_id=1 + np.array(draw(st.permutations(range(count))), dtype=np.int64),
        user=each(HOSTILE),
        qos=each(st.sampled_from([*QOS, "gone"])),
        partition=each(st.sampled_from(["gpu", "fast", "gpu,fast", "closed", "gpu,closed", "elsewhere"])),
        reason=each(MOSTLY_WAITING),
        gpus=each(st.sampled_from([0, 1, 2, 4, 8, 64])),
        tasks=each(st.sampled_from([1, 1, 1, 5])),
        priority=np.array(points) + np.array(base),
        site_points=points,
        nice=each(rare.map(int)),
        fixed=each(rare),
        off=each(rare),
        held_by_us=each(rare),
        interactive=each(rare),
        restarts=each(rare.map(int)),
        reservation=each(rare.map(lambda yes: "maint" if yes else "")),
        het_job_id=each(rare.map(int)),
        submitted_s=NOW_S - waited_s,
        first_submit_s=NOW_S - waited_s,
        eligible_s=NOW_S - waited_s,
    )
    runtimes_s = each(st.one_of(st.sampled_from([60.0, 600.0, float("nan"), float("inf")]), st.floats(1.0, 1e6)))
    used = draw(st.lists(st.integers(0, 4), min_size=2, max_size=2))
    return view(pending, runtimes_s, running=running_jobs(draw(st.integers(0, 3))), room=nodes((4, 4), used))
