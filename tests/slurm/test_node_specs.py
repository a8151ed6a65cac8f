"""What nodes keep for themselves, and what partitions allow a job there, as scontrol prints it."""

from __future__ import annotations

import pytest

from slurmsched.slurm.port import counts_memory
from slurmsched.slurm.read.node_specs import NodeSpec, read_specs
from slurmsched.slurm.read.partitions import read_limits

NODE = "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUEfctv=6 CPUTot=8 OS=Linux 6.1 #1 SMP  RealMemory=16000 Sockets=8"
KEPT = " CoreSpecCount=2 CPUSpecList=6-7 MemSpecLimit=4000 State=IDLE ThreadsPerCore=2 TmpDisk=900"


def test_the_cpus_and_the_memory_that_a_node_keeps_are_read():
    text = f"{NODE}{KEPT}\n{NODE.replace('=n1', '=n2').replace('=6 ', '=8 ')} State=IDLE\n"
    assert read_specs(text) == {"n1": NodeSpec(6, 4000, 8, 1, 2, 900.0), "n2": NodeSpec(8, 0, 8, 1)}


def test_what_an_admin_wrote_about_a_node_is_not_taken_for_its_spec():
    comment = "CPUEfctv=1 MemSpecLimit=1 Sockets=9 TmpDisk=1"
    text = f"{NODE}{KEPT} Comment={comment} Reason=CPUEfctv=2 [root@2026-11-27T03:33:41]\n"
    assert read_specs(text) == {"n1": NodeSpec(6, 4000, 8, 1, 2, 900.0)}


@pytest.mark.parametrize(
    ("text", "config", "limits"),
    [
        ("MaxMemPerNode=UNLIMITED", {"MaxMemPerNode": "UNLIMITED"}, (0, 0)),
        ("MaxMemPerNode=9000", {"MaxMemPerNode": "UNLIMITED"}, (9000, 0)),
        ("MaxMemPerCPU=1000", {"MaxMemPerNode": "9000"}, (0, 1000)),
        ("MaxMemPerNode=UNLIMITED", {"MaxMemPerCPU": "1000"}, (0, 1000)),
        ("MaxMemPerNode=9000", {"MaxMemPerCPU": "1000"}, (9000, 0)),
        ("MaxMemPerCPU=9223372036854775807", {"MaxMemPerCPU": "1000"}, (0, 0)),
    ],
)
def test_a_partition_without_a_limit_of_memory_has_that_of_the_cluster(text, config, limits):
    found = read_limits(f"PartitionName=gpu MaxCPUsPerNode=4 {text}\n", config)["gpu"]
    assert (found.node_memory_mib, found.cpu_memory_mib) == limits


@pytest.mark.parametrize(("parameters", "counts"), [("CR_CORE_MEMORY", True), ("CR_CPU", False), ("cr_memory", True)])
def test_memory_is_given_out_where_the_plugin_counts_it(parameters, counts):
    assert counts_memory({"SelectTypeParameters": parameters}) == counts
