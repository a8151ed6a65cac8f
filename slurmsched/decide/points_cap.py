"""The site's own cap on points: the most that leave its QOS and fair share their effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..cluster.nodes import QosTable

NO_LIMIT_POINTS = 1_000_000


@dataclass(frozen=True)
class PriorityWeights:
    """Slurm's weights of QOS and of fair share in priorities; 0 for one that does not count."""

    qos: int = 0
    fair_share: int = 0

    @classmethod
    def of(cls, config: Mapping[str, str]) -> PriorityWeights:
        """Read them from ``scontrol show config``."""
        return cls(*(_whole(config.get(f"PriorityWeight{factor}", "")) for factor in ("QOS", "FairShare")))


NO_WEIGHTS = PriorityWeights()


def natural_cap(qos: QosTable, weights: PriorityWeights) -> int:
    """Return the most points that keep QOS and fair share effective; at least 1.

    It is one less than the smallest step between two QOS; if QOS has no weight, a tenth of the fair-share weight; if
    neither has one, NO_LIMIT_POINTS.
    """
    highest = int(qos.priority.max(initial=0))
    if weights.qos and highest:
        steps = np.diff(np.unique(qos.priority * weights.qos // highest))
        if len(steps):
            return max(1, int(steps.min()) - 1)
    return max(1, weights.fair_share // 10) if weights.fair_share else NO_LIMIT_POINTS


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
