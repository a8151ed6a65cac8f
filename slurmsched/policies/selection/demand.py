"""What a job asks for of nodes, as far as its columns tell."""

from __future__ import annotations

from dataclasses import dataclass

from ...cluster.exclusions import UNREAD
from ...cluster.jobs import JobTable
from ...cluster.node_request import NodeRequest, read_request
from ...cluster.text.constraint import Constraint, constraint_of
from ...cluster.text.hostlist import expand
from ...cluster.text.tres import gpus_by_type

NO_LIMIT = 2**31
"""A number of nodes that is no limit."""


@dataclass(frozen=True)
class Demand:
    """What one job asks for, as far as its columns tell."""

    partitions: tuple[str, ...]
    limit_s: float
    least_nodes: int
    most_nodes: int  #: a large number where it leaves them to Slurm
    most_asked: int  #: the same, and where that is its number of tasks: 26.05 shows it of a job that names no nodes
    cpus: int  #: over all nodes
    task_cpus: int  #: the fewest CPUs on a node that are of use to it
    node_cpus: int  #: that each node must have, whatever its partition allows of them
    memory_mib: float  #: on each node
    cpu_memory_mib: float  #: for each CPU; 0 where it asks by node, or where that cannot be told
    all_memory_mib: float  #: the mean of its nodes, if it asks for all of them, which cannot be told; else 0
    by_gpu: bool  #: asks for CPUs or memory by GPU, which no limit of a partition on memory binds
    gpus: dict[str, int]  #: by type, over all nodes
    node_gpus: dict[str, int]  #: by type, on each node; empty where they may be spread
    gpu_cpus: int  #: for each of its GPUs, on the node of that; 0 for none
    constraint: Constraint
    features: str
    required: tuple[str, ...]  #: nodes that it must have
    among: tuple[str, ...]  #: the only nodes that it may have, of which it needs fewer: from 24.11 on; else empty
    excluded: tuple[str, ...]
    exclusive: bool  #: takes whole nodes in any case

    @property
    def tasks(self) -> int:
        """The tasks that its CPUs are for, each on one node."""
        return -(-self.cpus // self.task_cpus)


def demand_of(jobs: JobTable, row: int) -> Demand:
    """Return what the job in *row* asks for; ValueError for a list of nodes that cannot be read."""
    nodes, gpus, cpus = max(1, int(jobs.nodes[row])), int(jobs.gpus[row]), max(1, int(jobs.cpus[row]))
    on_each = sum(gpus_by_type(jobs.per_node[row]).values())
    spread = bool(jobs.per_job[row] or jobs.per_task[row])
    if on_each and not spread:  # of --gres=gpu:1 --gpus-per-node=4 22.05 shows one, and gives the other
        gpus = min(gpus, on_each * nodes)
    spread |= on_each * nodes != gpus
    types = _types(jobs, row, nodes, gpus)
    each = int(jobs.gpus_each[row])
    least, most = _node_range(jobs.node_range[row], nodes, int(jobs.most_nodes[row]))
    asked = read_request(jobs.node_request[row])
    named = expand(jobs.required_nodes[row]) if jobs.required_nodes[row] else ()
    task_cpus = _task_cpus(cpus, int(jobs.ntasks[row]), nodes) if not jobs.gpu_cpus[row] else 1
    node_gpus = {} if spread and not each else {kind: each or -(-many // nodes) for kind, many in types.items()}
    on_a_node = max(task_cpus, asked.per_node if asked else 0)
    node_mib, cpu_mib = _memory_mib(jobs, row, asked)
    memory_mib, all_mib = max(node_mib, cpu_mib * on_a_node), 0.0
    if not memory_mib:  # by node or by CPU, or all memory of a node: by CPU it takes the least of one
        all_mib = float(jobs.memory_mib[row]) / nodes
        by_gpu = gpus if jobs.per_gpu[row] else 0
        memory_mib = float(jobs.memory_mib[row]) / max(nodes, cpus, by_gpu) * task_cpus
    if jobs.per_gpu[row] and gpus and not jobs.gpu_cpus[row]:  # else it may be CPUs alone that it asks for by GPU
        # With several types on a node, Slurm takes the memory of those of one type (seen on 22.05).
        memory_mib = float(jobs.memory_mib[row]) / gpus * max((1, *node_gpus.values()))
    if _may_lose_tasks(jobs, row, asked, task_cpus):
        tasks = max(1, int(jobs.ntasks[row]))
        types, cpus = {kind: max(1, many // tasks) for kind, many in types.items()}, task_cpus
        if jobs.per_node[row]:  # with the tasks the nodes go that follow from them
            least = 1
    names = tuple(jobs.partition[row].split(","))
    is_tasks = bool(jobs.node_range[row]) and least < most == int(jobs.ntasks[row])
    return Demand(
        partitions=names,
        limit_s=float(jobs.time_limit_s[row]),
        least_nodes=least,
        most_nodes=most,
        most_asked=NO_LIMIT if is_tasks else most,
        cpus=cpus,
        task_cpus=task_cpus,
        node_cpus=on_a_node,
        memory_mib=memory_mib,
        cpu_memory_mib=cpu_mib,
        all_memory_mib=all_mib,
        by_gpu=bool(jobs.per_gpu[row]),
        gpus=types,
        node_gpus=node_gpus,
        gpu_cpus=int(jobs.gpu_cpus[row]),
        constraint=constraint_of(jobs.features[row]),
        features=jobs.features[row],
        required=named if len(named) <= least else (),
        among=named if len(named) > least else (),
        excluded=_excluded(jobs.excluded_nodes[row]),
        # In several partitions it may be one of these that gives whole nodes, and that Slurm shows of the job.
        exclusive=bool(jobs.exclusive[row]) and len(names) == 1,
    )


def _types(jobs: JobTable, row: int, nodes: int, gpus: int) -> dict[str, int]:
    """Return the GPUs by type over all nodes; under an empty text those of any type."""
    asked = gpus_by_type(jobs.per_node[row])
    total = sum(asked.values())
    if jobs.per_task[row] and total:  # the sum is of both, and may be of several types
        return {kind: many * (1 if jobs.per_job[row] else nodes) for kind, many in asked.items() if many}
    if not total or (len(asked) < 2 and gpus % total == 0):
        return {jobs.gpu_type[row]: gpus} if gpus else {}
    found = {kind: many * (gpus // total) for kind, many in asked.items() if many}
    others = gpus - sum(found.values())  # by another option beside this one, of a type that cannot be told
    return found | ({"": found.get("", 0) + others} if others else {})


def _may_lose_tasks(jobs: JobTable, row: int, asked: NodeRequest | None, task_cpus: int) -> bool:
    """Return whether Slurm may start a job with GPUs by task with fewer tasks than are shown (seen on 24.11).

    It does so where the job also says how many tasks go on a node, or asks for GPUs by another option.
    """
    if not jobs.per_task[row]:
        return False
    return bool(jobs.nodes[row] > 1 or jobs.per_node[row]) or asked is None or asked.per_node > task_cpus


def _task_cpus(cpus: int, tasks: int, nodes: int) -> int:
    """Return the CPUs of a task, which are on one node; 1 where they cannot be told.

    Where a partition's MinNodes gives it more *nodes* than tasks, each of them has the CPUs of one.
    """
    if tasks and cpus % max(tasks, nodes) == 0:
        return cpus // max(tasks, nodes)
    return cpus // tasks if tasks and cpus % tasks == 0 else 1


def _memory_mib(jobs: JobTable, row: int, asked: NodeRequest | None) -> tuple[float, float]:
    """Return the memory that a job asks of each node and for each CPU; zeros where it cannot be told."""
    node_mib, cpu_mib = float(jobs.node_memory_mib[row]), float(jobs.cpu_memory_mib[row])
    if node_mib or cpu_mib or asked is None:
        return node_mib, cpu_mib
    return (0.0, float(asked.memory_mib)) if asked.per_cpu else (float(asked.memory_mib), 0.0)


def _node_range(text: str, nodes: int, most_nodes: int) -> tuple[int, int]:
    least, _, most = text.partition("-")
    if least.isdecimal() and most.isdecimal():
        return int(least), max(int(least), int(most))
    return nodes, most_nodes or NO_LIMIT


def _excluded(text: str) -> tuple[str, ...]:
    return expand(text) if text and text != UNREAD else ()
