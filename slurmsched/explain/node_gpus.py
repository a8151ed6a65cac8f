"""The GPUs of nodes: who holds them, what they do with them, and which nodes are away."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.power_saving import NodePower, power_of
from ..cluster.reservations import MAINT
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..decide.phrasing import HIDDEN
from .freed_queue import IdleHold

_POWER = {
    NodePower.UP: "up",
    NodePower.GOING_DOWN: "powering down",
    NodePower.DOWN: "powered down",
    NodePower.COMING_UP: "powering up",
}


@dataclass(frozen=True)
class GpuHolder:
    """A job on GPUs of a node; of a job that the reader may not see only how many."""

    job_id: int  #: 0 if the reader may not see it
    user: str
    gpus: int  #: there
    shares: bool  #: another job may run on the same GPUs
    use: float  #: 0..1, the mean measured of it, else of its kind; NaN if never
    memory_mib: float  #: the most memory of one GPU, likewise
    idle_gpus: int  #: of all its GPUs, those without a process
    idle_since_s: float  #: Unix time; NaN if none is


@dataclass(frozen=True)
class NodeGpus:
    """A node with its GPUs. Times are Unix seconds, NaN if there is none."""

    name: str
    partitions: str
    state: str  #: in Slurm's spelling
    power: str  #: up, powering down, powered down, powering up
    usable: bool  #: takes new jobs
    reason: str  #: why it does not, in an admin's or Slurm's words
    gpu_type: str
    gpus: int
    gpus_used: int
    window: str  #: the reservation that keeps it now or next; empty for none
    window_from_s: float
    window_until_s: float
    jobs: tuple[GpuHolder, ...]


@dataclass(frozen=True)
class JobGpus:
    """What a job does with its GPUs, measured of it or else of earlier runs of its kind; NaN if never."""

    job_id: int
    known: bool  #: it waits or runs
    runs: bool
    nodes: str  #: host list
    gpus: int
    use: float
    memory_use: float  #: 0..1, of the memory controller
    memory_mib: float  #: the most of one GPU
    unsteady: bool
    idle_gpus: int
    idle_since_s: float
    partners: tuple[GpuHolder, ...]  #: jobs that share GPUs on its nodes


def node_rows(view: View, partition: str = "") -> IntArray:
    """Return the rows of nodes with GPUs, of *partition* unless that is empty, by name."""
    nodes = view.nodes
    inside = nodes.partitions.map([not partition or partition in text.split(",") for text in nodes.partitions.names],
                                  np.bool_)  # fmt: skip
    rows = np.flatnonzero(inside & (nodes.gpus > 0))
    return rows[np.argsort(np.array([nodes.name[row] for row in rows.tolist()], dtype=object), kind="stable")]


def node_gpus(view: View, rows: IntArray, idle: Sequence[IdleHold], *, every_window: bool) -> list[NodeGpus]:
    """Return the nodes of *rows*; of reservations maintenance alone, unless the reader may see *every_window*."""
    nodes, holders, windows = view.nodes, _holders(view, rows, idle), _windows(view, every_window)
    none = ("", math.nan, math.nan)
    made = []
    for row in rows.tolist():
        window, from_s, until_s = windows.get(nodes.name[row], none)
        made.append(
            NodeGpus(
                name=nodes.name[row],
                partitions=nodes.partitions[row],
                state=nodes.state[row],
                power=_POWER[power_of(nodes.state[row])],
                usable=bool(nodes.usable[row]),
                reason=nodes.down_reason[row],
                gpu_type=nodes.gpu_type[row],
                gpus=int(nodes.gpus[row]),
                gpus_used=int(nodes.gpus_used[row]),
                window=window,
                window_from_s=from_s,
                window_until_s=until_s,
                jobs=tuple(holders.get(row, ())),
            )
        )
    return made


def job_gpus(view: View, job_id: int, idle: Sequence[IdleHold]) -> JobGpus:
    """Return what a job does with its GPUs, and who shares them."""
    row, waits = view.running.row_of(job_id), view.pending.row_of(job_id)
    jobs, at = (view.running, row) if row is not None else (view.pending, waits)
    if at is None:
        return JobGpus(job_id, False, False, "", 0, math.nan, math.nan, math.nan, False, 0, math.nan, ())
    hold = next((one for one in idle if one.job_id == job_id), None)
    return JobGpus(
        job_id=job_id,
        known=True,
        runs=row is not None,
        nodes=jobs.node_list[at],
        gpus=int(jobs.gpus[at]),
        use=float(jobs.gpu_util[at]),
        memory_use=float(jobs.memory_util[at]),
        memory_mib=float(jobs.gpu_memory_mib[at]),
        unsteady=bool(jobs.unstable[at]),
        idle_gpus=hold.gpus if hold else 0,
        idle_since_s=hold.since_s if hold else math.nan,
        partners=tuple(_partners(view, row, idle)) if row is not None else (),
    )


def _partners(view: View, row: int, idle: Sequence[IdleHold]) -> Iterator[GpuHolder]:
    if not _shares(view, row):
        return
    job, node, gpus = view.free_gpus.held
    mine = set(node[job == row].tolist())
    seen = {row}
    for other, where, many in zip(job.tolist(), node.tolist(), gpus.tolist(), strict=True):
        if where in mine and other not in seen and _shares(view, other):
            seen.add(other)
            yield _holder(view, other, many, {one.job_id: one for one in idle})


def _shares(view: View, row: int) -> bool:
    jobs = view.running
    return bool(jobs.shares[row] or jobs.beside[row] or jobs.guest_gpus[row])


def _holders(view: View, rows: IntArray, idle: Sequence[IdleHold]) -> dict[int, list[GpuHolder]]:
    """Return the jobs on each of the nodes of *rows*; those that share GPUs come last."""
    held, wanted = view.free_gpus.held, np.isin(view.free_gpus.held.node, rows)
    by_id = {one.job_id: one for one in idle}
    found: dict[int, list[GpuHolder]] = {}
    for job, node, gpus in zip(*(column[wanted].tolist() for column in held), strict=True):
        if gpus:
            found.setdefault(node, []).append(_holder(view, job, gpus, by_id))
    return {node: sorted(jobs, key=lambda one: one.shares) for node, jobs in found.items()}


def _holder(view: View, row: int, gpus: int, idle: Mapping[int, IdleHold]) -> GpuHolder:
    jobs, shares = view.running, _shares(view, row)
    if jobs.user[row] == HIDDEN:
        return GpuHolder(0, HIDDEN, gpus, shares, math.nan, math.nan, 0, math.nan)
    job_id = int(jobs.job_id[row])
    hold = idle.get(job_id)
    use, memory_mib = float(jobs.gpu_util[row]), float(jobs.gpu_memory_mib[row])
    idle_gpus, since_s = (hold.gpus, hold.since_s) if hold else (0, math.nan)
    return GpuHolder(job_id, jobs.user[row], gpus, shares, use, memory_mib, idle_gpus, since_s)


def _windows(view: View, every_window: bool) -> dict[str, tuple[str, float, float]]:
    """Return the first window of each node that has not ended."""
    table = view.reservations
    shown = (table.end_s > view.now_s) & (table.has(MAINT) | every_window)
    rows = np.flatnonzero(shown)
    found: dict[str, tuple[str, float, float]] = {}
    for row in rows[np.argsort(table.start_s[rows], kind="stable")].tolist():
        for name in expanded(table.nodes[row]):
            found.setdefault(name, (table.name[row], float(table.start_s[row]), float(table.end_s[row])))
    return found
