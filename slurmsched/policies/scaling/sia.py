"""Sia (Jayaram Subramanya et al., SOSP'23): one configuration per job, chosen by an integer program.

A configuration is a type of GPU, nodes and GPUs: a power of two on one node, or whole nodes of one type. Where all GPUs
are of one type its objective is that of Pollux with another power.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import Allocations, TrainingView
from ...errors import ConfigError, MissingExtra
from ..contract import scaling
from .packing import packed, sizes
from .pollux import speedups

POWER = -0.5
_WAITING = 10.0  #: cost of a job without GPUs, over that of the slowest one with some


@scaling("sia", needs=("goodputs",), own_batch=True)
def sia(view: TrainingView) -> Allocations:
    """One configuration of nodes and GPUs per job by an integer program (Sia, SOSP'23)."""
    if len(set(view.nodes.gpu_type)) > 1:
        raise ConfigError("scaling 'sia': the reports of jobs are of one GPU type; accepted are nodes of one type")
    nodes, gpus = sizes(view.nodes.gpus)
    costs = speedups(view, nodes, gpus) ** POWER
    chosen = cheapest_configurations(costs, gpus, view.jobs.most_gpus, int(view.nodes.gpus.sum()))
    wanted = np.where(chosen < 0, 0, gpus[chosen])
    return Allocations(packed(wanted, view.jobs.held, view.nodes.gpus))


def cheapest_configurations(costs: FloatArray, gpus: IntArray, most: IntArray, total: int) -> IntArray:
    """Return the configuration (column of *costs*) of each job, -1 for none, by an integer program.

    *gpus* are those of each configuration, *most* those of each job; all jobs have *total* GPUs together. MissingExtra
    without HiGHS.
    """
    if find_spec("highspy") is None:
        raise MissingExtra("scaling 'sia' needs highspy", "deadlines")
    import highspy

    job, kind = np.nonzero((gpus <= most[:, None]) & (gpus <= total))
    count = len(job)
    chosen = np.full(len(costs), -1, dtype=np.int64)
    if not count:
        return chosen
    waiting = _WAITING * float(costs[job, kind].max())
    first = np.searchsorted(job, np.arange(len(costs) + 1))
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count, len(costs) + 1
    program.col_cost_ = costs[job, kind] - waiting
    program.col_lower_, program.col_upper_ = np.zeros(count), np.ones(count)
    program.row_lower_ = np.full(len(costs) + 1, -highspy.kHighsInf)
    program.row_upper_ = np.append(np.ones(len(costs)), float(total))
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.append(first, first[-1] + count)
    program.a_matrix_.index_ = np.append(np.arange(count), np.arange(count))
    program.a_matrix_.value_ = np.append(np.ones(count), gpus[kind].astype(np.float64))
    program.integrality_ = [highspy.HighsVarType.kInteger] * count
    solver = highspy.Highs.mro()[1]()  # its subclass prints a banner when it is made
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(program)
    solver.run()
    taken = np.flatnonzero(np.array(solver.getSolution().col_value) > 0.5)
    chosen[job[taken]] = kind[taken]
    return chosen
