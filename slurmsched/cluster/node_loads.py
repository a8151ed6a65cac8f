"""The lowest loads of nodes over a while: a node is overloaded where it was so all the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from .columns import FloatArray
from .filling import NOTHING, Knowing, NewColumns
from .nodes import NodeTable
from .state import ClusterState


class NodeLoads(Knowing):
    """The loads that observations of nodes showed lately; in memory, so that they begin anew with each process.

    *for_s* returns how long a load has to last, None while nobody needs loads.
    """

    def __init__(self, monotonic: Callable[[], float], for_s: Callable[[], float | None]) -> None:
        self._monotonic, self._for_s = monotonic, for_s
        self._seen: deque[tuple[float, dict[str, tuple[float, float]]]] = deque()

    def columns(self, state: ClusterState) -> NewColumns:
        """Note the loads in *state*, and return the lowest of that time; unknown where it was not over yet."""
        for_s = self._for_s()
        if for_s is None:
            self._seen.clear()
            return NOTHING
        nodes, now_s = state.nodes, self._monotonic()
        rows = zip(nodes.name, nodes.cpu_load.tolist(), nodes.free_memory_mib.tolist(), strict=True)
        self._seen.append((now_s, {name: (load, free_mib) for name, load, free_mib in rows}))
        while len(self._seen) > 1 and self._seen[1][0] <= now_s - for_s:
            self._seen.popleft()
        whole = self._seen[0][0] <= now_s - for_s
        return {"nodes": self._lowest(nodes) if whole else _unknown(nodes)}

    def _lowest(self, nodes: NodeTable) -> Mapping[str, FloatArray]:
        unread = (np.nan, np.nan)
        every = np.array([[seen.get(name, unread) for name in nodes.name] for _, seen in self._seen]).reshape(
            -1, len(nodes), 2
        )
        return {"cpu_load": every[:, :, 0].min(axis=0), "free_memory_mib": every[:, :, 1].max(axis=0)}


def _unknown(nodes: NodeTable) -> Mapping[str, FloatArray]:
    unread: FloatArray = np.full(len(nodes), np.nan)
    return {"cpu_load": unread, "free_memory_mib": unread.copy()}
