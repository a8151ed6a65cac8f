"""Scalings by the orderings of pending jobs: each job in turn has what its owner asks for, where that is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray, IntArray, table_of
from ...cluster.forecast import no_forecast
from ...cluster.jobs import job_table
from ...cluster.nodes import PartitionTable, QosTable
from ...cluster.state import View
from ...cluster.training import Allocations, TrainingView
from ...errors import ConfigError
from ..contract import ORDERINGS, SCALINGS, Scaling
from .placing import all_or_none
from .synergy import MODES, divided

ORDERS = {
    "sjf": "Shortest job first: each has the GPUs it asks for, whatever fits runs.",
    "srtf": "Shortest remaining time first: each has the GPUs it asks for, whatever fits runs.",
    "srsf": "Shortest remaining service first: each has the GPUs it asks for, whatever fits runs.",
    "las": "Least attained service first: each has the GPUs it asks for, whatever fits runs.",
}


@dataclass(frozen=True)
class InOrder:
    """Jobs by an ordering; *mode* is how Synergy divides CPUs and memory among them, empty if nobody divides these.

    With Synergy the memo is 1 for a job that runs below its best speed.
    """

    ordering: str
    mode: str = ""

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of the view that it reads."""
        return frozenset({"cpu_needs"} if self.mode else {"step_times"})

    def __call__(self, view: TrainingView) -> Allocations:
        """Return the allocation of each job."""
        jobs = view.jobs
        if not self.mode:
            assert view.step_times is not None
            rows = np.arange(len(jobs))
            useful = np.minimum(jobs.gpus, jobs.most_gpus)
            order = order_of(view, self.ordering, jobs.left * view.step_times.seconds[rows, useful])
            return Allocations(all_or_none(view, order))
        needs = view.cpu_needs
        assert needs is not None
        lowered = jobs.memo[:, 0] == 1 if jobs.memo.size else np.zeros(len(jobs), np.bool_)
        speed = np.where(lowered | (self.mode == "proportional"), 1.0, needs.speedup)
        order = order_of(view, self.ordering, jobs.left * needs.iteration_s / speed)
        shares = divided(order, jobs.gpus, needs, view.nodes, self.mode)
        below = (shares.gpus.sum(axis=1) > 0) & ~shares.best
        return Allocations(shares.gpus, shares.cpus, shares.memory_mib, memo=below.astype(np.float64)[:, None])


def order_of(view: TrainingView, ordering: str, left_s: FloatArray) -> IntArray:
    """Return the rows of the jobs in the order of an ordering, given their remaining times as forecasts."""
    jobs = view.jobs
    columns = {"first_submit_s": jobs.submit_s, "submitted_s": jobs.submit_s, "gpus": jobs.gpus, "ran_s": jobs.ran_s}
    forecast = replace(no_forecast(len(jobs)), runtime_s=jobs.ran_s + left_s)
    key = ORDERINGS[ordering](
        View(
            view.now_s,
            job_table(len(jobs), job_id=jobs.job_id, **columns),
            job_table(0),
            view.nodes,
            table_of(PartitionTable, 0, {}, {}),
            table_of(QosTable, 0, {}, {}),
            forecast,
            no_forecast(0),
        )
    )
    return np.argsort(key, kind="stable")


def with_synergy(name: str, settings: Mapping[str, str]) -> InOrder:
    """Return an ordering with Synergy's division of CPUs and memory; ConfigError names the accepted ones."""
    mode = settings.get("synergy", "")
    if set(settings) != {"synergy"} or mode not in MODES:
        raise ConfigError(f"{name}: accepted is synergy={'|'.join(MODES)}: how CPUs and memory are divided")
    return InOrder(name, mode)


for _name, _summary in ORDERS.items():
    SCALINGS.add(
        Scaling(
            _name,
            InOrder(_name),
            _summary,
            tuned=partial(with_synergy, _name),
            needs=InOrder(_name).needs,
            powers=frozenset({"resize"}),
        )
    )
