"""Profiles in the database: one row per run of a job on a node, merged on reading to one row per run of a job."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, fields
from itertools import groupby

import numpy as np
from sqlalchemy import Connection, delete, func, select

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.profiles import PROMETHEUS, SAMPLER, LinkUse, NodeProfile, ProfileTable
from ..database import insert_or
from ..tables import profiles

IDLE_MOST = 10_000
_NAMES = tuple(f.name for f in fields(NodeProfile))
_MEANS = ("process_share", "gpu_util", "gpu_util_sd", "memory_util", "link_gbps", "best_link_gbps")
_SUMS = ("memory_mib", "power_w")


def add_profiles(connection: Connection, cluster: str, news: Iterable[NodeProfile]) -> None:
    """Write records; of those of one job, node and start the one that covers most time stays, the first of equals.

    What a sampler measured takes the place of what Prometheus knows of the same time.
    """
    written = [profile for profile in news if not _measured_otherwise(connection, cluster, profile)]
    rows = [{"cluster": cluster, **asdict(profile)} for profile in written]
    key = {column.name for column in profiles.primary_key}
    insert_or(connection, profiles, rows, replace=[name for name in _NAMES if name not in key], growing="end_s")


def _measured_otherwise(connection: Connection, cluster: str, profile: NodeProfile) -> bool:
    """Report whether a sampler measured what Prometheus tells now; forget what Prometheus told where a sampler does."""
    table, other = profiles.c, PROMETHEUS if profile.source == SAMPLER else SAMPLER
    same = [
        table.cluster == cluster,
        table.job_id == profile.job_id,
        table.node == profile.node,
        table.source == other,
        table.start_s <= profile.end_s,
        table.end_s >= profile.start_s,
    ]
    if other == SAMPLER:
        return connection.execute(select(func.count()).select_from(profiles).where(*same)).scalar_one() > 0
    connection.execute(delete(profiles).where(*same))
    return False


def load_profiles(
    connection: Connection, cluster: str, since_s: float | None = None, until_s: float | None = None
) -> ProfileTable:
    """Return the runs whose profile ended in [since_s, until_s), oldest end first."""
    query = (
        select(*(profiles.c[name] for name in _NAMES))
        .where(profiles.c.cluster == cluster)
        .order_by(profiles.c.job_id, profiles.c.restart, profiles.c.start_s, profiles.c.node)
    )
    if since_s is not None:
        query = query.where(profiles.c.end_s >= since_s)
    if until_s is not None:
        query = query.where(profiles.c.end_s < until_s)
    rows = [NodeProfile(*row) for row in connection.execute(query)]
    runs = [run for _, same in groupby(rows, lambda row: (row.job_id, row.restart)) for run in _runs(list(same))]
    runs.sort(key=lambda run: (max(row.end_s for row in run), run[0].job_id, run[0].restart))
    return _table(runs)


def load_idle(connection: Connection, cluster: str, since_s: float) -> list[NodeProfile]:
    """Return the records since then of nodes on which a job held GPUs without a process at the end; the newest."""
    query = (
        select(*(profiles.c[name] for name in _NAMES))
        .where(profiles.c.cluster == cluster, profiles.c.end_s >= int(since_s), profiles.c.idle_gpus > 0)
        .order_by(profiles.c.end_s.desc())
        .limit(IDLE_MOST)
    )
    return [NodeProfile(*row) for row in connection.execute(query)]


def link_use(connection: Connection, cluster: str, since_s: float) -> list[LinkUse]:
    """Return the use of links by runs whose profile ended since then, by their number of GPUs on a node."""
    table = profiles.c
    gpu_s = table.gpus * table.measured_s
    means = (func.sum(gpu_s * each) / func.sum(gpu_s) for each in (table.link_gbps, table.best_link_gbps))
    query = (
        select(table.gpus, func.count(), *means)
        .where(table.cluster == cluster, table.end_s >= int(since_s), table.best_link_gbps > 0, gpu_s > 0)
        .group_by(table.gpus)
        .order_by(table.gpus)
    )
    rows = connection.execute(query).all()
    return [LinkUse(gpus, runs, gbps, best, 1.0 - gbps / best) for gpus, runs, gbps, best in rows]


def _runs(rows: list[NodeProfile]) -> list[list[NodeProfile]]:
    """Split the rows of one job id into runs, which do not overlap; ids restart on a new controller."""
    runs: list[list[NodeProfile]] = []
    end_s = -math.inf
    for row in rows:
        if row.start_s > end_s:
            runs.append([])
            end_s = row.end_s
        runs[-1].append(row)
        end_s = max(end_s, row.end_s)
    return runs


def _table(runs: list[list[NodeProfile]]) -> ProfileTable:
    def ints(values: Iterable[int]) -> IntArray:
        return np.array(list(values), dtype=np.int64)

    def floats(values: Iterable[float]) -> FloatArray:
        return np.array(list(values), dtype=np.float64)

    return ProfileTable(
        job_id=ints(run[0].job_id for run in runs),
        restart=ints(run[0].restart for run in runs),
        start_s=floats(min(row.start_s for row in run) for run in runs),
        end_s=floats(max(row.end_s for row in run) for run in runs),
        nodes=ints(len({row.node for row in run}) for run in runs),
        gpus=ints(sum(row.gpus for row in run) for run in runs),
        measured_s=floats(max(row.measured_s for row in run) for run in runs),
        unstable=floats(_any([row.unstable for row in run]) for run in runs),
        **{name: floats(_mean(run, name) for run in runs) for name in _MEANS},
        **{name: floats(_sum([getattr(row, name) for row in run]) for run in runs) for name in _SUMS},
    )


def _mean(run: list[NodeProfile], name: str) -> float:
    """Return the mean over the nodes that measured it, weighted by GPUs and seconds; NaN without any."""
    measured = [(getattr(row, name), row.gpus * row.measured_s) for row in run if not math.isnan(getattr(row, name))]
    whole = sum(weight for _, weight in measured)
    return sum(value * weight for value, weight in measured) / whole if whole else math.nan


def _sum(values: list[float]) -> float:
    measured = [value for value in values if not math.isnan(value)]
    return sum(measured) if measured else math.nan


def _any(values: list[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
