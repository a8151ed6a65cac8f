"""The rules for the present load: limits on profiling, and how jobs share GPUs (Lucid sections 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cluster.nodes import NodeTable
from ..models.throughput import LoadOutlook
from ..policies.sharing import capacity
from .policy import Policy
from .profiling_nodes import pressure
from .rules import Rules


def under_load(policy: Policy, outlooks: Mapping[str, LoadOutlook], busy: float) -> Policy:
    """Return *policy* with the limits of profiling and the mode of sharing for this moment.

    *outlooks* are those of submissions, in jobs and GPUs, *busy* the share of GPUs in use; without outlooks sharing
    stays as it is.
    """
    rules, outlook = policy.rules, outlooks.get("jobs")
    if rules.profiling is not None:
        rules = replace(rules, profiling=rules.profiling.under(pressure(outlooks)))
    if rules.sharing is not None and rules.sharing.makes_pairs and outlook is not None:
        mode = capacity(rules.sharing.capacity, busy, outlook.ahead, outlook.now)
        rules = replace(rules, sharing=replace(rules.sharing, capacity=mode))
    return policy if rules is policy.rules else replace(policy, rules=rules)


def follows_load(rules: Rules) -> bool:
    """Return True if these rules change with the load."""
    return rules.profiling is not None or (rules.sharing is not None and rules.sharing.makes_pairs)


def busy_share(nodes: NodeTable, rules: Rules) -> float:
    """Return the share of the GPUs in use, 0..1, on nodes outside the shared partition; 1 where there are none."""
    without = "" if rules.sharing is None else rules.sharing.partition
    counted = ~nodes.partitions.map([without in text.split(",") for text in nodes.partitions.names], np.bool_)
    # Free GPUs of a node that takes no jobs cannot be used.
    gpus = int(np.where(nodes.usable, nodes.gpus, nodes.gpus_used)[counted].sum())
    return float(nodes.gpus_used[counted].sum()) / gpus if gpus else 1.0
