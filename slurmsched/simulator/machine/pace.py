"""The speeds of jobs by their placement: those that spreading slows down are slower on more nodes than they need."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.migration import slowed
from ..cluster_spec import ClusterSpec
from ..engine.job_state import JobSpeed, alone
from ..workload.workload import Workload


def pace_of(jobs: Workload, fleet: ClusterSpec) -> JobSpeed:
    """Return the speeds of jobs, by their nodes.

    Those of jobs that spreading slows down depend on the nodes beyond what they need. Where other processes ask for
    more CPUs than a node has, jobs have their part of these.
    """
    if not len(jobs):
        return alone(jobs)
    curves, curve = _curves(jobs, fleet)
    needed = np.maximum(-(-jobs.gpus // max(fleet.size, 1)), np.maximum(jobs.nodes, 1))
    slows = np.array([any(speed != 1 for speed in speeds) for speeds in curves])[curve]
    kinds, kind = np.unique(np.where(slows, [curve, needed], [[0], [1]]), axis=1, return_inverse=True)
    by_nodes = np.ones((kinds.shape[1], int(kinds[1].max()) + max(map(len, curves))))
    for row, (number, needs) in enumerate(kinds.T.tolist()):
        for more, speed in enumerate(curves[number]):
            by_nodes[row, needs + more - 1 :] = speed
    return _under_load(alone(jobs)._replace(kind=kind.reshape(-1), by_nodes=by_nodes), fleet)


def _under_load(pace: JobSpeed, fleet: ClusterSpec) -> JobSpeed:
    """Return *pace* with the speeds of all jobs on the nodes that others load."""
    if not fleet.loaded:
        return pace
    slower = [1.0 / slowed(*pair) for pair in zip(fleet.nodes.cpu_load, fleet.nodes.cpus, strict=True)]
    speeds, number = np.unique(slower, return_inverse=True)
    same = np.zeros(len(pace.kind), dtype=np.int64)
    return pace._replace(type_kind=same, by_type=speeds[None, :].copy(), node_type=number.reshape(-1))


def spread_speeds(jobs: Workload, fleet: ClusterSpec) -> FloatArray:
    """Return the true speed of each job on one node more than it needs, as a share of that on as few."""
    curves, curve = _curves(jobs, fleet)
    return np.array([speeds[:2][-1] / speeds[0] for speeds in curves])[curve]


def _curves(jobs: Workload, fleet: ClusterSpec) -> tuple[list[tuple[float, ...]], IntArray]:
    """Return speeds on 0, 1, ... nodes more than needed, and the number of its speeds for each job."""
    number = {name: at for at, name in enumerate(fleet.program_speeds, start=2)}
    own = jobs.program.map([number.get(name, -1) for name in jobs.program.names], np.int64)
    curve = np.where(own < 0, jobs.sensitive.astype(np.int64), own)
    return [(1.0,), fleet.speeds, *fleet.program_speeds.values()], curve
