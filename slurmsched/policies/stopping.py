"""Stopping: the running jobs that may end before their time, since their training has what its owner asked for. Pure.

Loss-based termination follows Blox (EuroSys'24, section 5.3); the rules for a loss and a
curve that have settled are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, Labels
from ..cluster.jobs import JobTable
from ..cluster.records.progress import rows_of
from ..cluster.state import View
from ..cluster.ties import in_points
from ..errors import ConfigError
from .contract import STOPPINGS, Stopping, stopping
from .parameters import defaults_of, of_numbers


@stopping("never", powers=())
def never(view: View) -> BoolArray:
    """No job is stopped."""
    return np.zeros(len(view.running), dtype=np.bool_)


@stopping("owner-rule")
def owner_rule(view: View) -> BoolArray:
    """Jobs stop where their owner's rule says: at an accuracy, or when loss or accuracy hardly improve any more."""
    return _by_owner(view.running, _reports(view))


def _by_owner(jobs: JobTable, reports: _Reports) -> BoolArray:
    reached = _is(jobs.stop, "acc") & (reports.accuracy >= jobs.stop_level)
    level = _is(jobs.stop, "loss") & (reports.loss_fall <= jobs.stop_level)
    return np.asarray((reached | level | (_is(jobs.stop, "opt") & reports.settled)) & ~jobs.off)


@dataclass(frozen=True)
class LoadControl:
    """The key of ``mlf-c``; ConfigError for parameters that make no sense."""

    most: float = 0.9
    """The overload degree above which the cluster is overloaded (h_s)."""

    queued: float = 1.0
    """So many GPUs for each one there is, asked for by waiting jobs, overload it too; 0: any waiting job does."""

    def __post_init__(self) -> None:
        if not (0 <= self.most < np.inf and self.queued >= 0):
            raise ConfigError("mlf-c: accepted are most=DEGREE and queued=SHARE, both from 0 on")

    def __call__(self, view: View) -> BoolArray:
        """Select the running jobs that may end now."""
        jobs, reports = view.running, _reports(view)
        enough = reports.accuracy >= jobs.busy_level
        by_accuracy = _is(jobs.busy, "acc")
        ends = _by_owner(jobs, reports) & ~(by_accuracy & _is(jobs.stop, "opt") & ~enough)
        if self._waits(view) or overload_degree(view) > self.most:
            ends |= ((by_accuracy & enough) | (_is(jobs.busy, "opt") & reports.settled)) & ~jobs.off
        return np.asarray(ends)

    def _waits(self, view: View) -> bool:
        wanted = float((view.pending.gpus * view.pending.tasks).sum())
        return wanted > self.queued * float(view.nodes.gpus[view.nodes.usable].sum())


STOPPINGS.add(
    Stopping(
        "mlf-c",
        LoadControl(),
        "The owner's rule, and on an overloaded cluster also the one that the owner allows with busy= (MLFS).",
        tuned=partial(of_numbers, LoadControl, "mlf-c"),
        defaults=defaults_of(LoadControl),
        powers=frozenset({"stop"}),
    )
)


def overload_degree(view: View) -> float:
    """Return the mean length of the nodes' vectors of use, over that of a node whose resources are all in use.

    Resources are CPUs, memory, and GPUs by the measured use of the jobs on them; whole GPUs are full on any busy
    cluster, so that GPUs that were never measured do not count, nor do resources without a bound (MLFS, section 3.5).
    """
    nodes = view.nodes
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = [nodes.cpus_used / nodes.cpus, nodes.memory_used_mib / nodes.memory_mib]
    measured = ~np.isnan(view.running.gpu_util)
    gpus = float(nodes.gpus[nodes.usable].sum())
    if measured.any() and gpus:
        used = float((view.running.gpu_util * view.running.gpus)[measured].sum()) / gpus
        columns.append(np.full(len(nodes), used))
    use = np.array(columns)[:, nodes.usable]
    use = use[np.isfinite(use).all(axis=1) & (use > 0).any(axis=1)] if use.size else use
    return float(in_points(np.sqrt((use**2).mean(axis=0)).mean())) if use.size else 0.0


class _Reports(NamedTuple):
    """What the running jobs reported, a row for each."""

    accuracy: FloatArray
    loss_fall: FloatArray
    settled: BoolArray


def _reports(view: View) -> _Reports:
    jobs, progress = view.running, view.progress
    rows, known = rows_of(progress, jobs.job_id)
    found = _Reports(np.full(len(jobs), np.nan), np.full(len(jobs), np.nan), np.zeros(len(jobs), dtype=np.bool_))
    for column, reported in zip(found, (progress.accuracy, progress.loss_fall, progress.settled), strict=True):
        column[known] = reported[rows]
    return found


def _is(column: Labels, text: str) -> BoolArray:
    return column.map([name == text for name in column.names], np.bool_)
