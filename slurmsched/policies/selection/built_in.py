"""The built-in selections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import SELECTIONS, Selection, selection
from ..deadlines.lease_schedule import can_be_stopped
from ..parameters import defaults_of, of_numbers
from .free_nodes import FreeNodes
from .loops import start_beside_reservations, start_in_turn, turns_of
from .preemption import no_spare, run_best

DEPTH = 1000  #: waiting jobs that a reserving selection considers (Slurm's bf_max_job_test)
ALL = 1_000_000


@selection("strict")
def strict(view: View, order: IntArray, nodes: FreeNodes) -> None:
    """Nothing passes a job that does not fit, on the nodes of its partitions."""
    start_in_order(order, nodes, strict=True)


@selection("backfill")
def backfill(view: View, order: IntArray, nodes: FreeNodes) -> None:
    """Whatever fits starts, in order."""
    start_in_order(order, nodes, strict=False)


@dataclass(frozen=True)
class Preemptive:
    """The best jobs run, and the others yield: with a lease only those with ``ckpt`` that have run that long."""

    lease_s: float = 0.0

    def __call__(self, view: View, order: IntArray, nodes: FreeNodes) -> None:
        """Start jobs, and let running ones yield."""
        if self.lease_s:
            runs = view.running
            stays = ~can_be_stopped(runs) | (view.now_s - runs.started_s < self.lease_s)
            first = np.append(stays, np.zeros(len(view.pending), dtype=np.bool_))[order]
            order = np.concatenate([order[first], order[~first]])
        run_in_order(order, nodes)


def run_in_order(order: IntArray, nodes: FreeNodes) -> None:
    """Let jobs run in *order*, whatever ran before, and the others yield."""
    spare = no_spare(nodes.jobs.resources, nodes.count)
    run_best(nodes.jobs, order, nodes.runs, 0, spare, nodes.no_node, nodes.yields, nodes.started, nodes.view.now_s)


@dataclass(frozen=True)
class Reserving:
    """Backfill that delays no reservation; of *depth* jobs, *reservations* in each set of partitions get one."""

    reservations: int
    depth: int = DEPTH

    def __call__(self, view: View, order: IntArray, nodes: FreeNodes) -> None:
        """Start the jobs in turn, then those that delay no reserved one."""
        rest = start_in_order(order, nodes, strict=True)
        parts = nodes.places.parts
        plan, turns = nodes.plan(min(self.reservations * len(parts.tier), len(rest))), turns_of(0, *parts.nodes.shape)
        terms = (parts.of, self.reservations, self.depth, plan, view.now_s, turns, nodes.started)
        start_beside_reservations(nodes.jobs, rest, *terms)


def start_in_order(order: IntArray, nodes: FreeNodes, *, strict: bool) -> IntArray:
    """Start pending jobs in *order* and return those that did not start; if *strict*, nothing passes one of them."""
    parts = nodes.places.parts
    turns = turns_of(len(order), *parts.nodes.shape)
    terms = (parts.of, parts.nodes, strict, nodes.view.now_s, turns, nodes.started)
    return turns.left[: start_in_turn(nodes.jobs, order, *terms)]


def _depth(settings: Mapping[str, str]) -> int:
    """Return the depth in *settings*; ConfigError for anything else."""
    depth = settings.get("depth", "")
    if set(settings) != {"depth"} or not depth.isdecimal() or not int(depth):
        raise ConfigError("accepted is depth=N, the pending jobs that are planned, 1 and more")
    return int(depth)


def _easy(settings: Mapping[str, str]) -> Reserving:
    return Reserving(1, _depth(settings))


def _conservative(settings: Mapping[str, str]) -> Reserving:
    return Reserving(ALL, _depth(settings))


SELECTIONS.add(
    Selection(
        "preemptive",
        Preemptive(),
        "The best jobs run, whatever ran before; the others yield.",
        tuned=lambda settings: of_numbers(Preemptive, "preemptive", settings),
        defaults=defaults_of(Preemptive),
        powers=frozenset({"start", "preempt"}),
    )
)

_EASY = "Whatever delays no reservation of the first job that does not fit (EASY backfill)."
_CONSERVATIVE = "Whatever delays no reservation, and each job that does not fit gets one."

for _name, _select, _tuned, _summary in (
    ("easy", Reserving(1), _easy, _EASY),
    ("conservative", Reserving(ALL), _conservative, _CONSERVATIVE),
):
    SELECTIONS.add(
        Selection(
            _name,
            _select,
            _summary,
            reserves=True,
            tuned=_tuned,
            defaults=f"depth={DEPTH}",
            powers=frozenset({"start"}),
        )
    )
