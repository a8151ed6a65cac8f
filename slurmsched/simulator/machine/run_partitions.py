"""The partition in which each run of a job is, where jobs may run in one of several."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import IntArray, Labels
from ...cluster.jobs import JobTable
from ...policies.selection.resources import NEXT, NODE, NONE
from ..cluster_spec import ClusterSpec
from ..slurmctld.state import Controller
from ..text_edits import TextEdits


@dataclass
class RunPartitions:
    """Restarts and partition of runs, by row; only those of jobs that name several partitions."""

    _ran_in: dict[int, tuple[int, str]] = field(default_factory=dict)

    def note(self, model: Controller, fleet: ClusterSpec, partition: Labels) -> None:
        """Note in which of several requested partitions each run is."""
        several = partition.map(["," in names for names in partition.names], np.bool_)
        if not several.any():
            return
        life, running = model.stage.life, model.stage.running
        for row in running.rows[: running.many[0]].tolist():
            if several[row] and self._ran_in.get(row, (-1, ""))[0] != life.restarts[row]:
                self._ran_in[row] = int(life.restarts[row]), _partition_of_run(model, fleet, partition[row], row)

    def of_runs(self, model: Controller, jobs: JobTable, rows: IntArray) -> JobTable:
        """Return jobs that run or ran, with the one partition of that run."""
        if not self._ran_in:
            return jobs
        restarts = model.stage.life.restarts[rows].tolist()
        runs = [self._ran_in.get(row, (-1, "")) for row in rows.tolist()]
        edits = TextEdits()
        edits.put_each("partition", {at: where for at, (run, where) in enumerate(runs) if run == restarts[at]})
        return edits.apply(jobs)


def _partition_of_run(model: Controller, fleet: ClusterSpec, names: str, row: int) -> str:
    """Return the partition in which a job with several runs: of those that have its nodes, the highest tier."""
    tier = dict(zip(fleet.partitions.name, fleet.partitions.tier.tolist(), strict=True))
    on = [fleet.nodes.partitions[node].split(",") for node in _nodes(model, row)]
    able = [name for name in names.split(",") if all(name in those for those in on)]
    return max(able or names.split(","), key=lambda name: tier.get(name, 0))


def _nodes(model: Controller, row: int) -> list[int]:
    held, on = model.stage.held, []
    spot = held.first[row]
    while spot != NONE:
        on.append(int(held.links[NODE, spot]))
        spot = held.links[NEXT, spot]
    return [node for node in on if node < model.stage.resources.closed.first]
