"""What nodes could ever hold, rule by rule; that Slurm agrees is shown by tests on a lab."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from decide.views import jobs

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.nodes import NodeTable, PartitionTable
from slurmsched.policies.selection.could_hold import Never, never

NODES = table_of(
    NodeTable,
    4,
    {"usable": True},
    {
        "name": Labels.of(["n1", "n2", "n3", "n4"]),
        "partitions": Labels.of(["all,lean,many", "all,few,lean,many", "all,few,lean,many,one", "all,few,many"]),
        "cpus": np.array([8, 4, 8, 2]),
        "memory_mib": np.array([16_000.0, 8_000.0, 16_000.0, 4_000.0]),
        "gpus": np.array([4, 2, 1, 0]),
        "gpu_type": Labels.of(["a100", "a100", "v100", ""]),
        "gpu_types": Labels.of(["a100=2+v100=2", "", "", ""]),
        "features": Labels.of(["ib,fast", "ib,slow", "fast", "slow"]),
    },
)
NAMES = ("all", "few", "lean", "many", "one", "none")
PARTITIONS = table_of(
    PartitionTable,
    len(NAMES),
    {"up": True, "max_time_s": np.inf},
    {
        "name": Labels.of(NAMES),
        "max_time_s": np.array([np.inf, 1800.0, *[np.inf] * 4]),
        "most_nodes": np.array([0, 2, 0, 0, 0, 0]),
        "least_nodes": np.array([0, 0, 0, 2, 0, 0]),
        "node_cpus": np.array([0, 0, 3, 0, 0, 0]),
        "node_memory_mib": np.array([0.0, 0.0, 3_000.0, 0.0, 0.0, 0.0]),
    },
)


def why(partition: str = "all", **columns: Any) -> str:
    """Return why one job could never run; empty if it could."""
    one = {"gpus": 0, "partition": partition, "time_limit_s": 600.0} | columns
    found = never(jobs(1, **{name: [value] for name, value in one.items()}), NODES, PARTITIONS)
    return found.get(0, Never("")).why


@pytest.mark.parametrize(
    "runs",
    [
        {"cpus": 22},
        {"features": "[fast|slow]", "nodes": 2},
        {"features": "[ib|fast]", "nodes": 2, "required_nodes": "n2,n3"},
        {"features": "fast*2"},
        {"features": "slow*2&ib", "nodes": 3},
        {"features": "slow*2", "cpus": 14, "ntasks": 14, "node_range": "2-3", "nodes": 2},
        {"gpus": 4, "per_node": "gres:gpu:a100:2,gres:gpu:v100:2"},
        {"gpus": 3, "gpu_type": "a100", "per_node": "gres:gpu:a100:2", "required_nodes": "n1"},  # one by another option
        {"gpus": 8, "nodes": 2, "per_node": "gres:gpu:1"},  # --gres=gpu:1 beside --gpus-per-node=4
        {"gpus": 7, "per_job": True},
        {"gpus": 4, "per_job": True, "gpu_cpus": 4},
        {"gpus": 5, "gpu_type": "v100", "per_job": True, "per_task": True, "per_node": "gres:gpu:v100:2", "nodes": 1},
        {"gpus": 2, "per_node": "gres:gpu:2", "gpu_cpus": 4},
        {"gpus": 2, "per_node": "gres:gpu:2", "gpu_cpus": 2, "cpu_memory_mib": 4_000.0},
        {"partition": "many", "most_nodes": 3},
        {"partition": "few", "node_range": "1-5", "ntasks": 5, "cpus": 5, "per_node": "gres/gpu:1", "gpus": 1},  # 26.05
        {"gpus": 5, "per_job": True, "per_gpu": True, "gpu_cpus": 2, "cpus": 10, "ntasks": 1, "per_node": "gres/gpu:5"},
        {"gpus": 1, "per_job": True, "per_gpu": True, "gpu_cpus": 3, "cpus": 9, "ntasks": 9, "memory_mib": 18_000.0},
        {"partition": "few", "required_nodes": "n[1-4]", "nodes": 2},  # from 24.11 on it has two of them
        {"gpus": 12, "gpu_type": "a100", "per_task": True, "ntasks": 12, "cpus": 12, "nodes": 2},  # as many as can be
        {"gpus": 26, "per_task": True, "per_node": "gres/gpu:2", "ntasks": 13, "cpus": 24, "memory_mib": 48_000.0},
        {"partition": "lean", "gpus": 1, "per_gpu": True, "memory_mib": 3_001.0},
        {"partition": "lean", "cpus": 3, "ntasks": 3, "cpu_memory_mib": 2_000.0},
        {"partition": "lean", "cpus": 4, "ntasks": 4, "cpu_memory_mib": 1_500.0, "most_nodes": 2, "nodes": 2},
        {"partition": "lean", "cpus": 9, "ntasks": 9, "cpu_memory_mib": 1_500.0, "node_range": "1-2"},  # no most asked
        {"memory_mib": 16_000.0, "required_nodes": "n2"},
        {"memory_mib": 24_000.0, "nodes": 2, "cpus": 2, "gpus": 2, "gpu_type": "a100", "per_node": "gres:gpu:a100:1"},
        {"partition": "lean,all", "cpus": 8, "ntasks": 1},
        {"partition": "few,all", "time_limit_s": 3600.0},
    ],
)
def test_a_job_that_some_nodes_can_hold_could_run(runs):
    assert why(**runs) == ""


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ({"cpus": 23}, "23 CPUs, more than the 4 nodes"),
        ({"cpus": 9, "ntasks": 1}, "has 9 CPUs for a job (the most is 8)"),
        ({"features": "[fast|slow]", "nodes": 3}, "only 2 have the same of the features [fast|slow]"),
        ({"features": "fast&slow"}, "has the features fast&slow"),
        ({"features": "fast*3"}, "3 nodes with a feature of fast*3, and in partition all only 2"),
        ({"features": "fast*2", "gpus": 1, "gpu_type": "a100", "per_node": "gres:gpu:a100:1"}, "only 1 could hold it"),
        (
            {"features": "slow*2", "cpus": 15, "ntasks": 15, "node_range": "2-3", "nodes": 2},
            "15 CPUs, more than the 3 nodes",  # 4 and 2 on those that are slow, and 8 on another one
        ),
        ({"gpus": 3, "gpu_type": "v100", "per_node": "gres:gpu:v100:3"}, "has 3 GPUs of v100 (the most is 2)"),
        ({"gpus": 8, "per_job": True}, "8 GPUs, more than the 3 nodes"),
        ({"gpus": 5, "per_job": True, "gpu_cpus": 4}, "5 GPUs with 4 CPUs for each, more than the 3 nodes"),
        ({"gpus": 3, "per_node": "gres:gpu:3", "gpu_cpus": 3}, "has 9 CPUs for 3 GPUs"),
        (
            {"gpus": 2, "per_node": "gres:gpu:2", "gpu_cpus": 2, "cpu_memory_mib": 5_001.0},
            "has 20004 MiB of memory for 4 CPUs",
        ),
        (
            {"gpus": 4, "per_job": True, "gpu_cpus": 2, "cpu_memory_mib": 5_001.0},
            "4 GPUs with 2 CPUs for each, more than the 2 nodes",
        ),
        ({"partition": "lean", "node_memory_mib": 3_001.0}, "has 3001 MiB of memory for a job (the most is 3000)"),
        ({"partition": "lean", "cpus": 4, "ntasks": 1}, "has 4 CPUs for a job (the most is 3)"),
        (
            {"partition": "lean", "cpus": 6, "ntasks": 6, "cpu_memory_mib": 1_500.0, "most_nodes": 2, "nodes": 2},
            "1500 MiB of memory for each of 3 CPUs on a node, and partition lean allows 3000 on one",
        ),
        (
            {"partition": "lean", "cpus": 8, "ntasks": 8, "cpu_memory_mib": 1_500.0, "node_range": "1-2"},
            "1500 MiB of memory for each of 4 CPUs on a node, and partition lean allows 3000 on one",
        ),
        ({"partition": "lean", "exclusive": True}, "has 1 CPU for a job (the most is 0)"),
        ({"partition": "one", "exclusive": True, "cpu_memory_mib": 2_001.0}, "2001 MiB of memory for each of its CPUs"),
        ({"partition": "few", "most_nodes": 4}, "asks for 4 nodes, and partition few allows 2"),
        ({"partition": "few", "most_nodes": 4, "ntasks": 4, "cpus": 4}, "asks for 4 nodes, and partition few allows 2"),
        (
            {"partition": "few", "node_range": "1-4", "ntasks": 5, "cpus": 5},
            "asks for 4 nodes, and partition few allows 2",
        ),
        (
            {"partition": "few", "time_limit_s": 1801.0},
            "00:30:01 is longer than the 00:30:00 that partition few allows",
        ),
        (
            {"partition": "few", "time_limit_s": np.inf},
            "UNLIMITED is longer than the 00:30:00 that partition few allows",
        ),
        ({"nodes": 2**32 - 1}, "Slurm has no number of nodes for it"),
        ({"partition": "many,none"}, "asks for 1 node, and partition many requires 2; partition none has no nodes"),
        (
            {"required_nodes": "n1,n4", "gpus": 2, "per_node": "gres:gpu:1", "nodes": 2},
            "not each node that it asks for",
        ),
        ({"excluded_nodes": "n[1-4]"}, "no node of partition all is left beside those that it excludes"),
        ({"partition": "one", "required_nodes": "n1"}, "partition one has no node n1"),
        ({"partition": "one", "required_nodes": "n[1-2]"}, "no node of partition one is one of those that it asks for"),
        ({"partition": "elsewhere"}, "there is no partition elsewhere"),
        (
            {"features": "slow", "gpus": 1, "gpu_type": "v100", "per_node": "gres:gpu:v100:1"},
            "no node of partition all has the features slow and has 1 GPU of v100",
        ),
        (
            {"features": "ib", "gpus": 2, "gpu_type": "v100", "per_node": "gres:gpu:v100:1", "nodes": 2},
            "asks for 2 nodes, and in partition all only 1 has the features ib and has 1 GPU of v100",
        ),
        (
            {"excluded_nodes": "n[1,3]", "gpus": 1, "gpu_type": "v100", "per_node": "gres:gpu:v100:1"},
            "no node of partition all is left beside those that it excludes and has 1 GPU of v100",
        ),
    ],
)
def test_a_job_that_no_nodes_can_hold_is_told_what_is_missing(waits, words):
    assert words in why(**waits)


def test_memory_by_cpu_above_the_partitions_limit_makes_slurm_take_more_cpus_with_less_for_each():
    limited = PARTITIONS.changed(cpu_memory_mib=np.full(len(NAMES), 1_000.0))

    def found(**columns: Any) -> str:
        one = jobs(1, **{name: [value] for name, value in ({"gpus": 0, "partition": "all"} | columns).items()})
        return never(one, NODES, limited).get(0, Never("")).why

    assert found(cpus=4, ntasks=1, cpu_memory_mib=1_500.0) == ""
    assert "has 10 CPUs for a job (the most is 8)" in found(cpus=5, ntasks=1, cpu_memory_mib=1_500.0)
    assert found(cpus=2, ntasks=2, nodes=2, cpu_memory_mib=8_000.0, exclusive=True) == "", "all CPUs, 1000 MiB each"


def test_nodes_that_slurm_does_not_show_may_hold_anything_that_the_limits_of_their_partition_allow():
    beside = PARTITIONS.changed(unshown=Labels.of(["", "c[1-9]", "", "", "", "c1"]))

    def could(**columns: Any) -> bool:
        return not never(jobs(1, **{name: [value] for name, value in columns.items()}), NODES, beside)

    for large in ({"gpus": 99, "cpus": 999}, {"required_nodes": "c1"}, {"features": "nosuch"}):
        assert could(partition="few", time_limit_s=600.0, **large)
        assert could(partition="none", time_limit_s=600.0, **large)
        assert not could(partition="all", time_limit_s=600.0, **large)
    assert not could(partition="few", time_limit_s=3600.0, gpus=0)
    assert not could(partition="few", time_limit_s=600.0, nodes=3, gpus=0)


def test_a_limit_of_time_that_fits_is_named_as_scontrol_takes_it():
    found = never(jobs(1, gpus=[0], partition=["few"], time_limit_s=[3600.0]), NODES, PARTITIONS)
    assert found[0].change == "timelimit=00:30:00"


def test_cpus_that_slurm_adds_for_memory_in_one_of_several_partitions_are_no_demand():
    charged = PARTITIONS.changed(cpu_memory_mib=np.array([0.0, 0.0, 0.0, 0.0, 1_000.0, 0.0]))
    one = jobs(1, gpus=[0], partition=["few,one"], cpus=[6], ntasks=[1], required_nodes=["n2"], time_limit_s=[600.0])
    assert never(one, NODES, charged) == {}
    assert 0 in never(one, NODES, PARTITIONS)
