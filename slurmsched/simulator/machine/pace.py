"""The speeds of jobs by their placement: those that spreading slows down are slower on more nodes than they need."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..cluster_spec import ClusterSpec
from ..engine.job_state import JobSpeed, alone
from ..workload.workload import Workload


def pace_of(jobs: Workload, fleet: ClusterSpec) -> JobSpeed:
    """Return the speeds of jobs: those of jobs that spreading slows down depend on the nodes beyond what they need."""
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
    return alone(jobs)._replace(kind=kind.reshape(-1), by_nodes=by_nodes)


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
