"""Corrected predictions: a play-forward knows no later arrivals, and replays of the past show what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from .applications import Applications
from .experiment import ElasticReplay

TAIL = (0.25, 0.5, 0.7, 0.8, 0.88, 0.94, 0.975)
"""Quantiles of the work at which groups end: the large ones meet most of the later arrivals."""

STRETCHES = (1.001, 2.0)
"""Predicted JCTs over those on all GPUs at which groups end: who runs at once, who waits, who waits long."""

PRIOR = 5
"""Exact predictions that count in each group beside the real ones: a small group corrects little."""


@dataclass(frozen=True)
class Correction:
    """Factors for the JCTs that play-forwards give, by the work of a job and by how long it has to wait."""

    edges: tuple[float, ...]  #: largest work of each group but the last, in seconds on one GPU
    factors: tuple[tuple[float, ...], ...]  #: of each group of work (rows) and of ``STRETCHES`` (columns)

    @classmethod
    def of(cls, replays: Sequence[ElasticReplay], thresholds: Sequence[float] = ()) -> Self:
        """Learn the factors with which *replays* have the least mean error.

        Groups end at quantiles of the work, and at the finite ones of *thresholds*: jobs of one class wait alike.
        """
        size = np.concatenate([one.apps.service_s for one in replays])
        finite = [threshold for threshold in thresholds if np.isfinite(threshold)]
        edges = np.unique(np.concatenate([np.quantile(size, TAIL), finite]))
        group = np.concatenate([_groups(edges, one) for one in replays])
        ratio = np.concatenate([one.jct_s / one.predicted_s for one in replays])
        count, exact = (len(edges) + 1) * (len(STRETCHES) + 1), np.ones(PRIOR)
        factors = [least_error(np.concatenate([ratio[group == number], exact])) for number in range(count)]
        rows = np.reshape(factors, (len(edges) + 1, -1)).tolist()
        return cls(tuple(edges.tolist()), tuple(map(tuple, rows)))

    def __call__(self, replay: ElasticReplay) -> ElasticReplay:
        """Return *replay* with corrected predictions."""
        factor = np.ravel(self.factors)[_groups(np.array(self.edges), replay)]
        return replace(replay, predicted_s=replay.predicted_s * factor)


def _groups(edges: FloatArray, replay: ElasticReplay) -> IntArray:
    apps = replay.apps
    by_work = np.searchsorted(edges, apps.service_s, side="left")
    stretch = np.searchsorted(np.array(STRETCHES), replay.predicted_s / _alone_s(apps))
    return np.asarray(by_work * (len(STRETCHES) + 1) + stretch)


def _alone_s(apps: Applications) -> FloatArray:
    """Return the seconds that each application takes on all the GPUs that it can use."""
    return np.asarray(apps.service_s / apps.curves.speed[apps.curve, apps.demand])


def least_error(ratio: FloatArray) -> float:
    """Return the factor f, one of *ratio*, with the least mean of |ratio / f - 1|: the error of a corrected JCT."""
    ranked = np.sort(ratio)
    below, count = np.cumsum(ranked) - ranked, len(ranked)
    error = (ranked.sum() - 2 * below) / ranked + 2 * np.arange(count) - count
    return float(ranked[error.argmin()])
