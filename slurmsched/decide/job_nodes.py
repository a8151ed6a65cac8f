"""The nodes that jobs may use: those of their partitions, types, features and lists. Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.may_have import NodePart
from ..cluster.state import View
from ..policies.selection.allowed_nodes import allowed_nodes, binding


def nodes_by_kind(view: View, jobs: JobTable) -> tuple[IntArray, BoolArray]:
    """Return the kind of each of *jobs*, and the nodes, up or not, that jobs of each kind may use: [kind, node]."""
    try:
        found = allowed_nodes(jobs, view.nodes, view.partitions, binding(jobs), jobs.excluded_nodes)
    except (KeyError, ValueError):  # partitions or nodes that changed since the jobs were read
        return np.zeros(len(jobs), dtype=np.int64), np.zeros((1, len(view.nodes)), dtype=np.bool_)
    return found.kind, found.allowed


def nodes_with_gpus(view: View, rows: IntArray) -> BoolArray:
    """Return the nodes that each of the pending jobs *rows* may use and that have its GPUs, up or not: [row, node]."""
    jobs = view.pending.take(rows)
    kind, allowed = nodes_by_kind(view, jobs)
    return np.asarray(allowed[kind] & (view.nodes.gpus >= node_gpus(jobs)[:, None]), dtype=np.bool_)


def node_part(jobs: JobTable, row: int, nodes: int = 0) -> NodePart:
    """Return what a job asks for of the one of so many *nodes*, else of its own, that has most of it.

    That is the node with most of its tasks, each of which is on one node.
    """
    many, cpus = nodes or max(int(jobs.nodes[row]), 1), int(jobs.cpus[row])
    each, memory_mib = part_of(many, cpus, int(jobs.ntasks[row])), float(np.nan_to_num(jobs.memory_mib[row]))
    exclusive, cpu_mib = bool(jobs.exclusive[row]), float(jobs.cpu_memory_mib[row])
    return NodePart(each, max(memory_mib / many, cpu_mib * each), exclusive, cpu_mib * exclusive)


def part_of(nodes: int, cpus: int, tasks: int) -> int:
    """Return the most CPUs on one of so many *nodes* of a job, with as many *tasks* on each; 0 for any number."""
    if tasks <= 0 or cpus % tasks:
        return -(-cpus // nodes)
    return -(-tasks // nodes) * (cpus // tasks)


def gpus_by_node(jobs: JobTable, rows: slice | int = slice(None)) -> IntArray:
    """Return the GPUs on each node of jobs *rows* that get more or fewer nodes with their GPUs; 0 of jobs on one node.

    Such a job has several nodes, or had them before we changed that, and as many GPUs on each; 0 too where it has not.
    """
    nodes, gpus, each = np.maximum(jobs.nodes[rows], 1), jobs.gpus[rows], jobs.gpus_each[rows]
    even = (nodes > 1) & (gpus % nodes == 0)
    return np.where(each > 0, each, np.where(even, gpus // nodes, 0))


def node_gpus(jobs: JobTable) -> IntArray:
    """Return the GPUs of each job on each of its nodes."""
    return -(-jobs.gpus // np.maximum(jobs.nodes, 1))


def plain_request(jobs: JobTable, by_nodes: bool) -> BoolArray:
    """Select single jobs that ask for a number of GPUs on which nothing else that they ask for depends.

    They have one node, or *by_nodes* as many GPUs on each of several; Slurm does not choose how many nodes.
    """
    on_nodes = gpus_by_node(jobs)
    single = ((on_nodes > 0) if by_nodes else False) | ((jobs.nodes <= 1) & (on_nodes == 0))
    single &= (jobs.array_job_id == 0) & (jobs.het_job_id == 0) & ~jobs.node_range.nonempty()
    return np.asarray(single & ~(jobs.per_task | jobs.per_gpu | jobs.shares) & (jobs.gpus > 0))
