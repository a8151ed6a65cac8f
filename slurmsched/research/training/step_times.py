"""The step times of an application: those that were measured, by placement and micro-batch, and those between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, Labels
from ...cluster.text.plural import count
from ...errors import ConfigError, MissingExtra
from ...simulator.traces import cells
from .stored_times import StoredTimes

STEP_TIMES = "pollux_step_times.csv"
STEP_COLUMNS: dict[str, cells.Cell] = {
    "application": cells.text,
    "kind": cells.text,
    "placement": cells.text,
    "num_nodes": cells.whole,
    "num_gpus": cells.whole,
    "local_bsz": cells.whole,
    "step_s": cells.number,
    "sync_s": cells.number,
}
MOST_NODES = 16  #: that step times were measured up to; more count as so many

Placement = tuple[int, ...]
"""The GPUs on each node that a job has, round its ring of nodes."""


class MeasuredSteps:
    """The step times of one application, linear between measured ones."""

    def __init__(self, name: str, columns: Mapping[str, Any], most_micro: int) -> None:
        """Take the *columns* of its rows; ValueError for times that make no sense."""
        self._name, self._most_micro = name, most_micro
        place = np.stack([columns[part] for part in ("num_nodes", "num_gpus", "local_bsz")], axis=1)
        seconds = np.stack([columns["step_s"], columns["sync_s"]], axis=1)
        step_s, sync_s = seconds.T
        computes = (step_s > 0) & (sync_s >= 0) & (sync_s <= step_s)
        if not (len(computes) and computes.all()):
            raise ValueError(f"{STEP_TIMES}: {name} has no steps, or one of no time or less than its communication")
        placed = columns["kind"].map([kind == "placement" for kind in columns["kind"].names], np.bool_)
        self._averaged = not placed.all()
        self._placements = _by_placement(columns["placement"].take(placed), place[placed, 2], seconds[placed])
        at, group, size = np.unique(place[placed], axis=0, return_inverse=True, return_counts=True)
        means = np.stack([np.bincount(group.ravel(), some) / size for some in seconds[placed].T], axis=1)
        self._points = np.concatenate([at, place[~placed]])
        self._seconds = np.concatenate([means, seconds[~placed]])
        self.most_gpus = int(place[:, 1].max())
        self._known: dict[tuple[Placement, int], tuple[float, float]] = {}

    def at(self, placement: Placement, micro: int) -> tuple[float, float]:
        """Return the seconds of a step, and those of them spent on communication.

        A placement that was not measured lies between the means of those that were, by nodes, GPUs and micro-batch.
        ConfigError where none were around it.
        """
        ring = min(placement[at:] + placement[:at] for at in range(len(placement)))
        if (ring, micro) not in self._known:
            self._known[ring, micro] = self._between_sizes(ring, micro) or self._between_placements(ring, micro)
        return self._known[ring, micro]

    def _between_sizes(self, ring: Placement, micro: int) -> tuple[float, float] | None:
        if ring not in self._placements:
            return None
        sizes, seconds = self._placements[ring]
        return float(np.interp(micro, sizes, seconds[:, 0])), float(np.interp(micro, sizes, seconds[:, 1]))

    def _between_placements(self, ring: Placement, micro: int) -> tuple[float, float]:
        nodes, gpus = min(len(ring), MOST_NODES), sum(ring)
        if not self._averaged:
            raise self._not_measured(ring)
        known = self._stored.get((nodes, gpus, micro))
        if known is None:
            known = self._interpolated(ring, nodes, gpus, micro)
            self._stored.add((nodes, gpus, micro), known)
        return known

    def _interpolated(self, ring: Placement, nodes: int, gpus: int, micro: int) -> tuple[float, float]:
        # Measured sizes form a grid, where several simplices hold a point: which is found depends on the one before.
        step_s, sync_s = map(float, self._space((nodes, gpus, micro)))
        if not math.isnan(step_s):
            return step_s, sync_s
        sizes = np.arange(1, self._most_micro + 1)
        found = self._space(np.stack(np.broadcast_arrays(nodes, gpus, sizes), axis=1))
        inside = np.isfinite(found[:, 0])
        if not inside.any():
            raise self._not_measured(ring)
        nearest = found[inside][np.argmin(np.abs(sizes[inside] - micro))]
        return float(nearest[0]), float(nearest[1])

    def _not_measured(self, ring: Placement) -> ConfigError:
        most = int((self._points[:, 1] / self._points[:, 0]).max())
        wanted = f"{sum(ring)} GPUs on {count(len(ring), 'node')}"
        return ConfigError(f"application {self._name}: no step times for {wanted}; measured were up to {most} per node")

    @cached_property
    def _stored(self) -> StoredTimes:
        return StoredTimes(self._points.tobytes() + self._seconds.tobytes())

    @cached_property
    def _space(self) -> Callable[..., FloatArray]:
        if find_spec("scipy") is None:
            raise MissingExtra("step times of placements that were not measured need scipy", "sim")
        from scipy.interpolate import LinearNDInterpolator

        made: Callable[..., FloatArray] = LinearNDInterpolator(self._points, self._seconds)
        return made


def _by_placement(
    placement: Labels, micro: FloatArray, seconds: FloatArray
) -> dict[Placement, tuple[FloatArray, FloatArray]]:
    """Return the micro-batches of each placement, ascending, and the seconds of each."""
    order = np.lexsort((seconds[:, 1], seconds[:, 0], micro, placement.codes))
    bounds = np.searchsorted(placement.codes[order], range(len(placement.names) + 1)).tolist()
    rows = zip(placement.names, (order[begin:end] for begin, end in pairwise(bounds)), strict=True)
    return {tuple(map(int, name)): (micro[some], seconds[some]) for name, some in rows if len(some)}
