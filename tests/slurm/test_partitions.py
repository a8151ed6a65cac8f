"""The limits of partitions from scontrol, and the partitions that have no nodes."""

from __future__ import annotations

import numpy as np
from decide.views import partitions

from slurmsched.slurm.read.partitions import PartitionLimits, read_limits, with_limits

GPU = "PartitionName=gpu AllowGroups=ALL MaxNodes=2 MaxTime=1-00:00:00 MinNodes=1 MaxCPUsPerNode=UNLIMITED State=UP"
LEAN = (
    "PartitionName=lean MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 MaxCPUsPerNode=3 MaxMemPerNode=3000 State=DOWN"
)


def test_limits_are_read_and_unlimited_is_none():
    limits = read_limits(f"{GPU} PriorityTier=7\n{LEAN}\n")
    assert limits["gpu"] == PartitionLimits(least_nodes=1, most_nodes=2, tier=7, max_time_s=86_400.0)
    assert (limits["lean"].node_cpus, limits["lean"].node_memory_mib, limits["lean"].most_nodes) == (3, 3_000.0, 0)
    assert (limits["lean"].up, limits["lean"].max_time_s) == (False, np.inf)


def test_forms_that_no_release_prints_are_no_limits():
    limits = read_limits("PartitionName=odd MaxNodes=many MaxTime=soon MaxMemPerNode=-1\n\nno record\n")
    assert limits == {"odd": PartitionLimits(tier=0)}


def test_partitions_without_nodes_stand_behind_those_that_sinfo_lists():
    table = with_limits(partitions(), read_limits(f"{GPU}\n{LEAN}\n"))
    assert list(table.name) == [*partitions().name, "lean"]
    row = list(table.name).index("lean")
    assert not table.up[row]
    assert table.node_cpus[row] == 3
    assert table.most_nodes[list(table.name).index("gpu")] == 2
