"""The runs of jobs on a machine that Python advances from decision to decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...policies.selection.resources import GPUS, NEXT, NODE, NONE
from ..engine.job_state import COMPLETED
from ..fast.allocations import Segments, no_segments
from ..slurmctld.state import NOW, Controller

Pair = tuple[int, int]


@dataclass
class RunLog:
    """A log of every run and its GPUs, for machines whose runs end by themselves or at a decision."""

    _begun: dict[tuple[int, int], tuple[float, list[Pair]]] = field(default_factory=dict)  #: by job and restarts
    _ended: list[tuple[float, int, float, list[Pair]]] = field(default_factory=list)

    def note(self, model: Controller) -> None:
        """Note the runs that have ended since the last call, and those that have begun; call it after each decision."""
        life, line = model.stage.life, model.stage.running
        rows = line.rows[: line.many[0]]
        running = set(zip(rows.tolist(), life.restarts[rows].tolist(), strict=True))
        for run in [run for run in self._begun if run not in running]:
            row = run[0]
            ended_s = life.ended_s[row] if life.state[row] == COMPLETED else model.clock[NOW]
            self._ended.append((float(ended_s), row, *self._begun.pop(run)))
        for run in running - set(self._begun):
            self._begun[run] = (float(life.started_s[run[0]]), _pairs(model, run[0]))

    def segments(self) -> Segments:
        """Return the runs in the order of their ends."""
        runs = sorted(self._ended)
        log, first = no_segments(len(runs), sum(len(pairs) for _, _, _, pairs in runs)), 0
        for at, (end_s, row, start_s, pairs) in enumerate(runs):
            log.row[at], log.start_s[at], log.end_s[at], log.first[at] = row, start_s, end_s, first
            for node, gpus in pairs:
                log.node[first], log.gpus[first] = node, gpus
                first += 1
        log.many[0], log.pairs[0] = len(runs), first
        return log


def _pairs(model: Controller, row: int) -> list[Pair]:
    """Return the nodes that a job holds, and its GPUs on each."""
    held, pairs = model.stage.held, []
    spot = held.first[row]
    while spot != NONE:
        pairs.append((int(held.links[NODE, spot]), int(held.links[GPUS, spot])))
        spot = held.links[NEXT, spot]
    return pairs
