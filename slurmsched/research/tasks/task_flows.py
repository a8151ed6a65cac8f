"""The tasks of all jobs of a workload, and what flows between them in each iteration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.text.task_graph import TaskGraph, read_graph
from ...errors import ConfigError
from ...simulator.workload.workload import Workload

Averaging = Literal["server", "ring"]
"""How replicas average what they learnt: by a parameter server beside the first of them, or round a ring."""


class TaskFlows(NamedTuple):
    """Every task has a number; those of a job follow each other, and so do its flows."""

    task: IntArray  #: the first task of each job, and the number of all tasks
    flow: IntArray  #: the first flow of each job, and the number of all flows
    source: IntArray  #: of each flow, a task
    target: IntArray
    size_b: FloatArray  #: bytes of each flow in an iteration
    iteration_s: FloatArray  #: of each job, undisturbed
    cpus: FloatArray  #: that each task of a job keeps busy


def flows_of(jobs: Workload, averaging: Averaging) -> TaskFlows:
    """Return the tasks and flows of *jobs*; ConfigError for a job without a graph of as many tasks as it has GPUs."""
    edges = [_edges(graph, many, averaging) for graph, many in zip(_graphs(jobs), jobs.gpus.tolist(), strict=True)]
    counts = [len(one) for one in edges]
    task = np.concatenate([[0], np.cumsum(jobs.gpus)])
    job = np.repeat(np.arange(len(jobs)), counts)
    pairs = np.array([pair for one in edges for pair in one], dtype=np.int64).reshape(-1, 2)
    replicas = np.array([graph.kind == "replicas" for graph in _graphs(jobs)], dtype=np.bool_)
    each_b = np.where(replicas, jobs.average_b, jobs.edge_b)
    if averaging == "ring":  # each of n replicas sends 2 (n - 1) / n of what it learnt to the next
        each_b = np.where(replicas, each_b * 2 * (jobs.gpus - 1) / np.maximum(jobs.gpus, 1), each_b)
    return TaskFlows(
        task,
        np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))]),
        task[job] + pairs[:, 0],
        task[job] + pairs[:, 1],
        each_b[job],
        jobs.runtime_s / np.maximum(jobs.iterations, 1e-9),
        jobs.gpu_cpus.copy(),
    )


def _graphs(jobs: Workload) -> Iterator[TaskGraph]:
    known = {name: read_graph(name) for name in jobs.graph.names}
    for row, name in enumerate(jobs.graph):
        graph = known[name]
        if graph is None or not graph.tasks - graph.width < jobs.gpus[row] <= graph.tasks:
            raise ConfigError(
                f"job {jobs.job_id[row]} has no graph of a task for each of its {jobs.gpus[row]} GPUs: accepted with "
                "executor tasks are traces of the format mlfs, and columns such as graph with chain:8"
            )
        yield graph


def _edges(graph: TaskGraph, tasks: int, averaging: Averaging) -> list[tuple[int, int]]:
    if graph.kind == "replicas":
        many = graph.width
        if averaging == "ring":
            return [(at, (at + 1) % many) for at in range(many)] if many > 1 else []
        return [(0, at) for at in range(1, many)]
    layer = [range(at, min(at + graph.width, tasks)) for at in range(0, tasks, graph.width)]
    return [(one, other) for before, after in pairwise(layer) for one in before for other in after]
