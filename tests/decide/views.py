"""Small views for the tests of deciding, and a strategy that makes odd ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slurmsched.cluster.state import View
from slurmsched.research.conformance.random_views import (
    NOW_S,
    QOS,
    TIERS,
    forecast,
    jobs,
    nodes,
    partitions,
    qos,
    random_view,
    running_jobs,
    view,
)

__all__ = [
    "ALL_POWERS",
    "NOW_S",
    "QOS",
    "TIERS",
    "after",
    "forecast",
    "jobs",
    "nodes",
    "partitions",
    "qos",
    "running_jobs",
    "view",
    "views",
]

ALL_POWERS = frozenset(
    {
        "order",
        "hold",
        "requeue",
        "suspend",
        "stop",
        "partition",
        "comment",
        "share",
        "steer",
        "migrate",
        "rightsize",
        "resize",
        "nodes",
    }
)


def after(seen: View, actions: Sequence[Any]) -> View:
    """What the next look shows when *actions*, points alone, were carried out and nothing else happened."""
    points, priority = seen.pending.site_points.copy(), seen.pending.priority.copy()
    for action in actions:
        row = int(np.flatnonzero(seen.pending.job_id == action.job_id)[0])
        priority[row] += action.points - points[row]
        points[row] = action.points
    return replace(seen, pending=replace(seen.pending, site_points=points, priority=priority))


def views(most: int = 25) -> st.SearchStrategy[View]:
    """Any queue of at most so many jobs."""
    return st.builds(
        lambda count, seed: random_view(np.random.default_rng(seed), count),
        st.integers(0, most),
        st.integers(0, 2**32 - 1),
    )
