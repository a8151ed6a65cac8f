"""How far points reach beside Slurm's own priority factors: a finding of ``slurmsched check``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..cluster.state import ClusterState
from ..config import Settings
from ..decide.ordering.priority_points import MOST_POINTS
from ..decide.ordering.ranking import base_priority, classes
from ..decide.points_cap import PriorityWeights, natural_cap
from ..policies.contract import find_ordering
from ..slurm.checkup import Finding

NAME = "reach of points"

FACTORS = {"FairShare": "fair share", "Age": "age", "JobSize": "job size", "Assoc": "association"}
"""Factors by which jobs of one partition tier and QOS differ, by the end of PriorityWeight..."""


def points_reach(config: Mapping[str, str], state: ClusterState, settings: Settings) -> Finding:
    """Say whether a factor of Slurm's priority outweighs the points that a job may get, and what to set then.

    A site may want just that: it is no fault.
    """
    order, own = settings.order, settings.policy.ordering
    if own != "auto" and find_ordering(own).native:
        return Finding(NAME, True, f"the ordering {own} gives no points")
    if order.scope != "points":
        return Finding(NAME, True, f"order.scope is {order.scope}: no factor outweighs our order there")
    cap = order.max_points or natural_cap(state.qos, PriorityWeights.of(config))
    weights = {words: _weight(config, name) for name, words in FACTORS.items()}
    heavy = {words: weight for words, weight in weights.items() if weight > cap}
    if not heavy:
        return Finding(NAME, True, f"no factor of Slurm's priority outweighs {cap:,} points")
    most = max(heavy, key=lambda words: heavy[words])
    live = _live(state, cap)
    text = (
        f"{most} weighs up to {heavy[most]:,} points, a job gets at most {cap:,} of ours: our order hardly counts{live}"
    )
    enough = min(MOST_POINTS, sum(weights.values()) + 1)
    return Finding(NAME, None, text, f'[order] scope = "queue", or max_points = {enough}')


def _weight(config: Mapping[str, str], name: str) -> int:
    text = config.get(f"PriorityWeight{name}", "")
    return int(text) if text.isdecimal() else 0


def _live(state: ClusterState, cap: int) -> str:
    """Say how far the priorities of jobs that wait now are apart, within each partition tier and QOS."""
    jobs = state.pending.take(state.pending.priority > 0)
    group, base = classes(jobs, state.partitions, state.qos, across_qos=False), base_priority(jobs)
    spreads = [int(np.ptp(base[group == value])) for value in np.unique(group).tolist()]
    if len(jobs) < 2:
        return ""
    return f"; jobs that wait now are up to {max(spreads):,} apart" + (
        "" if max(spreads) > cap else ", which ours reach"
    )
