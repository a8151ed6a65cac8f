"""The limits of partitions from scontrol, and the partitions that have no nodes."""

from __future__ import annotations

import numpy as np
import pytest
from decide.views import partitions

from slurmsched.cluster.columns import Labels
from slurmsched.simulator.cluster_spec import nodes_of
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


def test_nodes_that_sinfo_does_not_show_are_named_but_for_those_of_the_future():
    own = {"name": Labels.of(["n1", "n2", "n3"]), "partitions": Labels.of(["gpu,all", "gpu,all", "gpu"])}
    table = nodes_of(3, 2, **own)
    text = "PartitionName=gpu Nodes=n[1-3] TotalNodes=3\nPartitionName=all Nodes=n[1-2],c[1-3] TotalNodes=5\n"
    text += "PartitionName=later Nodes=c3 TotalNodes=1\nPartitionName=none Nodes=(null) TotalNodes=0\n"
    limits = read_limits(text, future=frozenset({"c3"}))
    seen = with_limits(partitions(), limits, table)
    unshown = dict(zip(seen.name, seen.unshown, strict=True))
    assert {name: unshown[name] for name in limits} == {"gpu": "", "all": "c[1-2]", "later": "", "none": ""}
    assert not any(with_limits(partitions(), limits).unshown)


@pytest.mark.parametrize(
    ("field", "whole"),
    [
        ("OverSubscribe=EXCLUSIVE", True),
        ("OverSubscribe=NO ExclusiveTopo=YES", True),
        ("OverSubscribe=NO Exclusive=NODE", True),
        ("OverSubscribe=NO Exclusive=TOPO", True),
        ("OverSubscribe=FORCE:4 ExclusiveUser=YES ExclusiveTopo=NO", False),
        ("OverSubscribe=NO Exclusive=USER", False),
    ],
)
def test_a_partition_that_gives_whole_nodes_is_known_however_a_release_writes_it(field, whole):
    limits = read_limits(f"PartitionName=gpu {field}\n")
    assert limits["gpu"].whole_nodes == whole
    assert with_limits(partitions(), limits).whole_nodes.tolist()[0] == whole


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
