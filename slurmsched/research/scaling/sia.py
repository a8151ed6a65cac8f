"""Sia (Jayaram Subramanya et al., SOSP'23): one configuration per job, chosen by an integer program.

A configuration is a type of GPU, nodes and GPUs: a part of one node, or whole nodes of one type. Where all GPUs are of
one type its objective is that of Pollux with another power.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import Allocations, TrainingView
from ...errors import MissingExtra
from ...policies.contract import scaling
from ...policies.size_choice import SIA_POWER
from .packing import packed
from .pollux import configurations, speedups

_WAITING = 10.0  #: cost of a job without GPUs, over that of the slowest one with some


@scaling("sia", needs=("goodputs",), own_batch=True)
def sia(view: TrainingView) -> Allocations:
    """One configuration of nodes and GPUs per job by an integer program (Sia, SOSP'23)."""
    assert view.goodputs is not None
    jobs, node_gpus, node_type = view.jobs, view.nodes.gpus, view.goodputs.node_type
    columns = configurations(view)
    costs = speedups(view, columns) ** SIA_POWER
    total = np.bincount(node_type, node_gpus).astype(np.int64)
    chosen = cheapest_configurations(costs, columns[2], columns[0], jobs.most_gpus, total)
    gpus = np.zeros_like(jobs.held)
    for kind in range(int(node_type.max()) + 1):
        nodes = node_type == kind
        wanted = np.where((chosen >= 0) & (columns[0, chosen] == kind), columns[2, chosen], 0)
        gpus[:, nodes] = packed(wanted, jobs.held[:, nodes], node_gpus[nodes])
    return Allocations(gpus)


def cheapest_configurations(
    costs: FloatArray, gpus: IntArray, kind: IntArray, most: IntArray, total: IntArray
) -> IntArray:
    """Return the configuration (column of *costs*) of each job, -1 for none, by an integer program.

    *gpus* and *kind*, their type, are those of each configuration, *most* GPUs those of each job; *total* are those of
    each type. MissingExtra without HiGHS.
    """
    if find_spec("highspy") is None:
        raise MissingExtra("scaling 'sia' needs highspy", "deadlines")
    import highspy

    job, column = np.nonzero((gpus <= most[:, None]) & (gpus <= total[kind]))
    count = len(job)
    chosen = np.full(len(costs), -1, dtype=np.int64)
    if not count:
        return chosen
    waiting = _WAITING * float(costs[job, column].max())
    types = np.argsort(kind[column], kind="stable")  # the columns of each type, one type after the other
    starts = (
        np.searchsorted(job, np.arange(len(costs))),
        count + np.searchsorted(kind[column][types], range(len(total))),
    )
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count, len(costs) + len(total)
    program.col_cost_ = costs[job, column] - waiting
    program.col_lower_, program.col_upper_ = np.zeros(count), np.ones(count)
    program.row_lower_ = np.full(program.num_row_, -highspy.kHighsInf)
    program.row_upper_ = np.append(np.ones(len(costs)), total)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.concatenate([*starts, [2 * count]])
    program.a_matrix_.index_ = np.append(np.arange(count), types)
    program.a_matrix_.value_ = np.append(np.ones(count), gpus[column][types].astype(np.float64))
    program.integrality_ = [highspy.HighsVarType.kInteger] * count
    solver = highspy.Highs.mro()[1]()  # its subclass prints a banner when it is made
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(program)
    solver.run()
    taken = np.flatnonzero(np.array(solver.getSolution().col_value) > 0.5)
    chosen[job[taken]] = column[taken]
    return chosen
