"""Synergy (Mohan et al., OSDI'22): CPUs and memory by what each job gains from them, for jobs in a given order.

A job is fastest with its best case of CPUs and memory per GPU. With the proportional share of its node, or its best
case where that is less, it runs at its proportional speed. *proportional* gives every job that share. *greedy* gives
each job its best case, and passes by those that do not fit; one whose best case is more than the empty nodes have gets
its share. *tune* gives a job that does not fit its share, and where
even that is not free, lowers jobs on that node that hold more than theirs. No job is ever below its proportional speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.nodes import NodeTable
from ...cluster.training import CpuNeeds

MODES = ("proportional", "greedy", "tune")

_ROUNDING = 1e-6  #: CPUs or MiB


class CpuShares(NamedTuple):
    """The amounts of each job on each node, and the jobs that have their best case."""

    gpus: IntArray
    cpus: FloatArray
    memory_mib: FloatArray
    best: BoolArray


def divided(order: IntArray, gpus: IntArray, needs: CpuNeeds, nodes: NodeTable, mode: str) -> CpuShares:
    """Return what each job has on empty *nodes*, jobs taken in *order*; *gpus* are those that their owners ask for."""
    room, empty = _Room(gpus, needs, nodes), _Room(gpus, needs, nodes)
    for job in order.tolist():
        free = int(room.free.sum())
        if not free:
            break
        if gpus[job] > free:
            continue
        places = room.places(int(gpus[job]))
        best = mode != "proportional" and room.fitting(job, places, best=True)
        if best:
            room.take(job, best, best=True)
        elif mode == "greedy":
            never = empty.fitting(job, empty.places(int(gpus[job])), best=True) is None
            if never and (share := room.fitting(job, places, best=False)):
                room.take(job, share, best=False)
        else:
            room.take(job, room.fitting(job, places, best=False) or room.lowered(job, places[0]), best=False)
    return room.shares


Place = tuple[tuple[int, int], ...]
"""Nodes with the GPUs of a job on each."""


class _Room:
    """The nodes while they are handed out. A proportional share is per GPU, a part of its node."""

    def __init__(self, gpus: IntArray, needs: CpuNeeds, nodes: NodeTable) -> None:
        count = len(gpus), len(nodes)
        self.shares = CpuShares(
            np.zeros(count, np.int64), np.zeros(count), np.zeros(count), np.zeros(len(gpus), np.bool_)
        )
        self.free = nodes.gpus.copy()
        self._taken: list[int] = []
        self._cpus, self._mib = nodes.cpus.astype(np.float64), nodes.memory_mib.astype(np.float64)
        whole = np.maximum(nodes.gpus, 1)
        self._fair_cpus, self._fair_mib = self._cpus / whole, self._mib / whole
        self._needs = needs

    def places(self, many: int) -> list[Place]:
        """Return where a job could be: on one node, those with fewest free GPUs first; else over the emptiest ones."""
        whole = np.flatnonzero(self.free >= many)
        if len(whole):
            return [((node, many),) for node in whole[np.argsort(self.free[whole], kind="stable")].tolist()]
        spread = []
        for node in np.argsort(-self.free, kind="stable").tolist():
            taken = min(many, int(self.free[node]))
            if taken:
                spread.append((node, taken))
                many -= taken
        return [tuple(spread)]

    def fitting(self, job: int, places: list[Place], *, best: bool) -> Place | None:
        """Return the first of *places* where a job has its best case, or else its share, by what is free now."""
        for place in places:
            if all(self._fits(node, many, *self._amounts(job, node, best)) for node, many in place):
                return place
        return None

    def lowered(self, job: int, place: Place) -> Place:
        """Lower jobs at *place* with more than their share, most CPUs first, until *job* can have its own."""
        for node, many in place:
            held = self.shares.cpus[:, node]
            more = (held > self.shares.gpus[:, node] * self._fair_cpus[node] + _ROUNDING) | (
                self.shares.memory_mib[:, node] > self.shares.gpus[:, node] * self._fair_mib[node] + _ROUNDING
            )
            rich = [other for other in self._taken if more[other]]
            for other in sorted(rich, key=lambda other: -held[other]):
                if self._fits(node, many, *self._amounts(job, node, best=False)):
                    break
                self._change(other, best=False)
        return place

    def take(self, job: int, place: Place, *, best: bool) -> None:
        """Give a job its GPUs at *place*, with its best case or its share."""
        for node, many in place:
            self.shares.gpus[job, node] = many
            self.free[node] -= many
        self._taken.append(job)
        self._change(job, best=best)

    def _amounts(self, job: int, node: int, best: bool) -> tuple[float, float]:
        """Return CPUs and memory per GPU."""
        cpus, mib = float(self._needs.cpus[job]), float(self._needs.memory_mib[job])
        return (cpus, mib) if best else (min(cpus, self._fair_cpus[node]), min(mib, self._fair_mib[node]))

    def _fits(self, node: int, many: int, cpus: float, mib: float) -> bool:
        return bool(many * cpus <= self._cpus[node] + _ROUNDING and many * mib <= self._mib[node] + _ROUNDING)

    def _change(self, job: int, *, best: bool) -> None:
        self.shares.best[job] = best
        for node in np.flatnonzero(self.shares.gpus[job]).tolist():
            cpus, mib = (self.shares.gpus[job, node] * amount for amount in self._amounts(job, node, best))
            self._cpus[node] -= cpus - self.shares.cpus[job, node]
            self._mib[node] -= mib - self.shares.memory_mib[job, node]
            self.shares.cpus[job, node], self.shares.memory_mib[job, node] = cpus, mib
