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
from ...policies.contract import ORDERINGS, SCALINGS, Scaling
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

    The memo has the runtime of each job that was forecast when it came, and with Synergy a 1 for one that runs below
    its best speed.
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
            left_s = jobs.left * view.step_times.seconds[rows, useful]
            whole_s = _forecast_first(view, left_s)
            order = order_of(view, self.ordering, left_s, whole_s)
            return Allocations(all_or_none(view, order), memo=whole_s[:, None])
        needs = view.cpu_needs
        assert needs is not None
        lowered = jobs.memo[:, 1] == 1 if jobs.memo.size else np.zeros(len(jobs), np.bool_)
        speed = np.where(lowered | (self.mode == "proportional"), 1.0, needs.speedup)
        left_s = jobs.left * needs.iteration_s / speed
        whole_s = _forecast_first(view, left_s)
        order = order_of(view, self.ordering, left_s, whole_s)
        shares = divided(order, jobs.gpus, needs, view.nodes, self.mode)
        below = (shares.gpus.sum(axis=1) > 0) & ~shares.best
        return Allocations(shares.gpus, shares.cpus, shares.memory_mib, memo=np.stack([whole_s, below], axis=1))


def _forecast_first(view: TrainingView, left_s: FloatArray) -> FloatArray:
    """Return the remaining time that each job had when it came; what a restart costs is no part of it."""
    memo = view.jobs.memo
    return np.where(np.isnan(memo[:, 0]), left_s, memo[:, 0]) if memo.size else left_s


def order_of(view: TrainingView, ordering: str, left_s: FloatArray, whole_s: FloatArray) -> IntArray:
    """Return the rows of the jobs in the order of an ordering, given the forecasts of their remaining and whole times.

    An ordering whose keys never change sees the latter, and one that follows a job what is left of it.
    """
    jobs = view.jobs
    columns = {"first_submit_s": jobs.submit_s, "submitted_s": jobs.submit_s, "gpus": jobs.gpus, "ran_s": jobs.ran_s}
    found = ORDERINGS[ordering]
    runtime_s = whole_s if found.changes == "never" else jobs.ran_s + left_s
    forecast = replace(no_forecast(len(jobs)), runtime_s=runtime_s)
    key = found(
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
