"""The points of a job that do not change while it waits, as sprio(1) of Slurm 22.05 shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.nodes import PartitionTable, QosTable
from slurmsched.cluster.records.associations import AssociationTable
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.slurmctld.fixed_points import FixedWeights, fixed_points, resource_weights
from slurmsched.simulator.slurmctld.shared_accounts import SharedAccounts
from slurmsched.simulator.workload.workload import workload

NODES = replace(
    nodes_of(2, 4, partitions=["gpu,two", "gpu"]), cpus=np.array([8, 8]), memory_mib=np.array([16_000.0, 16_000.0])
)
PARTITIONS = table_of(PartitionTable, 2, {}, {"name": Labels.of(["gpu", "two"]), "job_factor": np.array([1, 4])})
FLEET = ClusterSpec(NODES, PARTITIONS, table_of(QosTable, 0, {}, {}))
JOBS = workload(
    4,
    user=["alice", "bob", "bob", "carol"],
    account=["astro"] * 4,
    partition=["gpu", "two", "gpu", "gpu,two"],
    nodes=[1, 1, 2, 1],
    cpus=[3, 2, 1, 2],
    memory_mib=[1000.0, 500.0, 500.0, 500.0],
    gpus=[2, 1, 2, 1],
)
ASSOCIATIONS = table_of(
    AssociationTable,
    3,
    {},
    {
        "account": Labels.of(["astro"] * 3),
        "user": Labels.of(["alice", "bob", "carol"]),
        "shares": np.ones(3, dtype=int),
        "priority": np.array([3, 9, 0]),
    },
)


def points(**weights: object) -> list[int]:
    return (
        fixed_points(JOBS, FLEET, FixedWeights(**weights), SharedAccounts.of(JOBS, ASSOCIATIONS)).astype(int).tolist()
    )


def test_points_of_a_partition_are_those_of_its_factor_over_the_highest():
    assert points(partition=500.0) == [125, 500, 125, 500]


def test_points_of_an_association_are_those_of_its_priority_over_the_highest():
    assert points(association=400.0) == [133, 400, 400, 0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CPU=1000", [187, 250, 125, 250]),
        ("Mem=2000", [62, 62, 62, 62]),
        ("GRES/gpu=3000", [750, 750, 750, 750]),
        ("Node=700", [350, 700, 700, 700]),
        ("GRES/gpu:a100=3000,billing=9", [0, 0, 0, 0]),
    ],
)
def test_points_of_resources_are_parts_of_what_the_partition_has(text, shown):
    assert points(resources=resource_weights(text)) == shown
