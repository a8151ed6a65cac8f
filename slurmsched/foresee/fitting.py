"""Jobs that no nodes could hold, and what running ones among them no longer need to ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..cluster.columns import Labels
from ..cluster.jobs import JobTable
from ..errors import ConfigError
from ..policies.selection.job_spread import on_any_number
from ..simulator.cluster_spec import ClusterSpec
from ..simulator.machine.controller import controller
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.workload.workload import Workload


def unfit(jobs: Workload, table: JobTable, fleet: ClusterSpec) -> dict[int, str]:
    """Find jobs that no nodes could hold; *table* has the nodes that they require and exclude."""
    if not len(jobs):
        return {}
    longest = dict(zip(fleet.partitions.name, fleet.partitions.max_time_s.tolist(), strict=True))
    most_s = jobs.partition.map(
        [max(longest.get(name, np.inf) for name in names.split(",")) for names in jobs.partition.names], np.float64
    )
    late = np.flatnonzero(np.isfinite(jobs.time_limit_s) & (jobs.time_limit_s > most_s))
    found = dict.fromkeys(late.tolist(), "its time limit is longer than its partition allows")
    timeless = replace(jobs, time_limit_s=np.full(len(jobs), np.inf))
    if _refusal(timeless, table, fleet) is None:
        return found
    texts = (jobs.partition, jobs.gpu_type, jobs.features, table.required_nodes, table.excluded_nodes)
    numbers = (jobs.gpus, jobs.nodes, jobs.cpus, jobs.memory_mib)
    shapes = np.stack([*(column.codes for column in texts), *numbers, on_any_number(table)])
    _, first, shape = np.unique(shapes, axis=1, return_index=True, return_inverse=True)
    refusals = [_refusal(timeless.take(rows), table.take(rows), fleet) for rows in first[:, np.newaxis]]
    words = ((row, refusals[at]) for row, at in enumerate(shape.reshape(-1).tolist()))
    return {row: why for row, why in words if why is not None} | found


def _refusal(jobs: Workload, table: JobTable, fleet: ClusterSpec) -> str | None:
    try:
        required, excluded, any_number = table.required_nodes, table.excluded_nodes, on_any_number(table)
        controller(jobs, fleet, SlurmConf(), required=required, excluded=excluded, any_number=any_number)
    except (ConfigError, ValueError) as error:  # ValueError: these nodes are no host list
        return str(error)
    return None


def at_ease(jobs: Workload, table: JobTable, running: int, fleet: ClusterSpec) -> tuple[Workload, JobTable]:
    """Drop requests of running jobs that no nodes could hold now, no more of each job than necessary.

    Their partition may have changed or gone, their time limit may have been extended, their nodes may be gone.
    """
    for ease in (_in_any_partition, _on_any_node, _of_any_size):
        odd = list(unfit(jobs.take(slice(0, running)), table.take(slice(0, running)), fleet))
        if not odd:
            break
        jobs, table = ease(jobs, table, odd, fleet)
    return jobs, table


def _in_any_partition(jobs: Workload, table: JobTable, odd: list[int], fleet: ClusterSpec) -> tuple[Workload, JobTable]:
    """Let the *odd* jobs be in any partition, for any time."""
    limits_s = np.where(np.isin(np.arange(len(jobs)), odd), np.inf, jobs.time_limit_s)
    partitions = _but(jobs.partition, odd, ",".join(fleet.partitions.name))
    return replace(jobs, partition=partitions, time_limit_s=limits_s), table


def _on_any_node(jobs: Workload, table: JobTable, odd: list[int], fleet: ClusterSpec) -> tuple[Workload, JobTable]:
    """Let them be on nodes of any name and kind."""
    eased = replace(jobs, gpu_type=_but(jobs.gpu_type, odd, ""), features=_but(jobs.features, odd, ""))
    return eased, replace(table, required_nodes=_but(table.required_nodes, odd, ""))


def _of_any_size(jobs: Workload, table: JobTable, odd: list[int], fleet: ClusterSpec) -> tuple[Workload, JobTable]:
    """Let them need no more than the nodes that are there."""
    rows, most = np.isin(np.arange(len(jobs)), odd), max(1, int((fleet.nodes.cpus > 0).sum()))
    eased = replace(
        jobs,
        nodes=np.where(rows, np.minimum(jobs.nodes, most), jobs.nodes),
        gpus=np.where(rows, 0, jobs.gpus),
        cpus=np.where(rows, 1, jobs.cpus),
        memory_mib=np.where(rows, 0.0, jobs.memory_mib),
    )
    return eased, table


def _but(column: Labels, rows: Sequence[int], text: str) -> Labels:
    """Return *column* with *text* in *rows*."""
    texts = list(column)
    for row in rows:
        texts[row] = text
    return Labels.of(texts)
