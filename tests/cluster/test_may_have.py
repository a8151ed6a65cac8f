"""What one job may have on the nodes of its partitions."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.may_have import Allowances, NodePart
from slurmsched.cluster.node_request import NodeRequest
from slurmsched.cluster.nodes import NodeTable, PartitionTable


def allowances(**limits: tuple[int, float, float]) -> Allowances:
    """Two nodes of 8 and 6 CPUs with 16,000 and 12,000 MiB, in partitions with these limits of CPUs and memory."""
    nodes = table_of(
        NodeTable,
        2,
        {},
        {
            "name": Labels.of(["n1", "n2"]),
            "partitions": Labels.of([",".join(limits), ",".join(name for name in limits if name != "first")]),
            "usable": np.ones(2, dtype=np.bool_),
            "cpus": np.array([8, 6]),
            "memory_mib": np.array([16_000.0, 12_000.0]),
        },
    )
    partitions = table_of(
        PartitionTable,
        len(limits),
        {"default_time_s": np.nan},
        {
            "name": Labels.of(limits),
            "node_cpus": np.array([one[0] for one in limits.values()]),
            "node_memory_mib": np.array([one[1] for one in limits.values()]),
            "cpu_memory_mib": np.array([one[2] for one in limits.values()]),
        },
    )
    return Allowances(nodes, partitions)


@pytest.mark.parametrize(
    ("limits", "cpus", "memory_mib"),
    [
        ((0, 0.0, 0.0), [8, 6], [16_000, 12_000]),
        ((4, 0.0, 0.0), [4, 4], [16_000, 12_000]),
        ((0, 9_000.0, 0.0), [8, 6], [9_000, 9_000]),
        ((0, 0.0, 1_000.0), [8, 6], [8_000, 6_000]),
        ((4, 0.0, 1_000.0), [4, 4], [4_000, 4_000]),
    ],
)
def test_a_partition_takes_off_cpus_and_memory_of_its_nodes(limits, cpus, memory_mib):
    may = allowances(gpu=limits).on("gpu")
    assert (may.cpus.tolist(), may.memory_mib.tolist()) == (cpus, memory_mib)


def test_a_job_that_takes_whole_nodes_has_none_where_a_partition_gives_fewer_cpus_than_a_node_has():
    assert allowances(gpu=(6, 0.0, 0.0)).on("gpu", exclusive=True).cpus.tolist() == [0, 6]


def test_a_job_that_takes_whole_nodes_has_its_memory_for_each_of_their_cpus():
    part = NodePart(1, 2_001.0, exclusive=True, cpu_mib=2_001.0)
    assert not allowances(gpu=(0, 0.0, 0.0)).holding("gpu", part).any()
    assert allowances(gpu=(0, 0.0, 0.0)).holding("gpu", part._replace(cpu_mib=2_000.0)).all()


def test_a_node_outside_a_partition_has_nothing_for_its_jobs():
    assert allowances(gpu=(0, 0.0, 0.0), first=(0, 0.0, 0.0)).on("first").cpus.tolist() == [8, 0]


def test_a_job_in_several_partitions_runs_in_one_of_them():
    some = allowances(gpu=(4, 0.0, 0.0), first=(0, 0.0, 0.0))
    assert some.holding("gpu,first", NodePart(6, 1_000.0)).tolist() == [[False, False], [True, False]]


def test_what_is_written_of_a_job_in_several_partitions_keeps_the_limits_of_all():
    may = allowances(gpu=(4, 0.0, 0.0), first=(0, 9_000.0, 2_000.0)).everywhere("gpu,first")
    assert (may.cpus.tolist(), may.memory_mib.tolist()) == ([4, 4], [9_000, 12_000])
    assert may.cpu_memory_mib == 2_000


def test_memory_beyond_the_limit_per_cpu_costs_more_cpus():
    may = allowances(gpu=(0, 0.0, 1_000.0)).on("gpu")
    assert may.charged_cpus(2, 4_000.0) == 4
    assert may.holds(2, 7_000.0).tolist() == [True, False]
    assert not may.takes_as_written(NodeRequest(2, 2, 2, 4_000, per_cpu=False), 1)
    assert may.takes_as_written(NodeRequest(4, 4, 4, 4_000, per_cpu=False), 1)


def test_where_no_partitions_are_known_nodes_give_all_that_they_have():
    bare = allowances(gpu=(4, 0.0, 0.0))
    unknown = Allowances(bare.nodes.changed(partitions=Labels.of(["", ""])), bare.partitions)
    assert unknown.on("elsewhere").cpus.tolist() == [8, 6]
