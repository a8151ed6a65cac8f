"""Which nodes jobs run on: those with deadlines in blocks of their own, others wherever there is room."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...policies.deadlines.local_search import quasi_consolidated
from .world import LeaseState


class Nodes:
    """So many nodes of *gpus* GPUs, a power of two, and who is on them.

    Jobs with deadlines ask for a power of two of GPUs on one node, or for whole nodes (``rounded_up``). Placed widest
    first, there is always a block for the next one, whoever stayed where it was: what wider jobs leave on a node is a
    multiple of its GPUs (Proposition 1). Smaller jobs may have to move for that, which costs them a stop.
    """

    def __init__(self, count: int, gpus: int) -> None:
        if gpus < 1 or gpus & (gpus - 1):
            raise ValueError(f"nodes of {gpus} GPUs: accepted are powers of two")
        self.gpus = gpus
        self.held: dict[int, IntArray] = {}  #: GPUs on each node of each job that runs
        self._count = count

    def settle(self, world: LeaseState, chosen: IntArray) -> IntArray:
        """Find nodes for the rows *chosen*, which ask for no more GPUs than there are; those that have to move."""
        left = np.full(self._count, self.gpus, np.int64)
        before = {row: self.held[row] for row in chosen.tolist() if world.running[row] and row in self.held}
        taken = np.array(list(before.values())).sum(axis=0) if before else np.zeros(self._count, np.int64)
        self.held = {}
        firm, loose = chosen[world.slo[chosen]], chosen[~world.slo[chosen]]
        stays = np.array([row in before for row in firm.tolist()], np.bool_)
        for row in firm[np.lexsort((~stays, -world.gpus[firm]))].tolist():
            parts = before.get(row)
            if parts is None or np.any(parts > left):
                parts = self._block(int(world.gpus[row]), left, taken)
            self.held[row] = parts
            left -= parts
        waiting = []
        for row in loose.tolist():
            parts = before.get(row)
            if parts is None or np.any(parts > left):
                waiting.append(row)
            else:
                self.held[row] = parts
                left -= parts
        for row in waiting:
            self.held[row] = quasi_consolidated(int(world.gpus[row]), left)
            left -= self.held[row]
        return np.array([row for row, parts in before.items() if np.any(parts != self.held[row])], np.int64)

    def _block(self, gpus: int, left: IntArray, taken: IntArray) -> IntArray:
        """A block on nodes that have most room beside who is there now, the fullest of equals."""
        parts = np.zeros(self._count, np.int64)
        whole, rest = divmod(gpus, self.gpus)
        size = rest or self.gpus
        fits: BoolArray = left >= size
        order = np.lexsort((left, np.maximum(0, taken + size - self.gpus), ~fits))
        parts[order[: whole or 1]] = size
        return parts
