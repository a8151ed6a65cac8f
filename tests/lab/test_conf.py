from __future__ import annotations

from pathlib import Path

import pytest

from slurmsched.errors import LabError
from slurmsched.lab import LabSpec
from slurmsched.lab.conf import gres_conf, overridden, slurm_conf
from slurmsched.lab.layout import Layout

PORTS = {"slurmctld": 21000, "slurmdbd": 21001, "mariadb": 21002, "slurmd": 21003}


def conf_of(**spec: object) -> list[str]:
    text = slurm_conf(Layout(Path("/tmp/a")), LabSpec(**spec), "ss1", PORTS, "root", "host", closed=True)
    return text.splitlines()


def test_a_later_line_replaces_one_that_sets_the_same():
    assert overridden(["KillWait=5", "MinJobAge=300"], ["killwait = 2"]) == ["MinJobAge=300", "killwait = 2"]


def test_a_partition_of_another_name_adds_and_one_of_the_same_name_replaces():
    lines = overridden(["PartitionName=gpu Nodes=n1"], ["PartitionName=debug Nodes=n1", "PartitionName=gpu Nodes=n2"])
    assert lines == ["PartitionName=debug Nodes=n1", "PartitionName=gpu Nodes=n2"]


def test_every_node_has_a_port_of_its_own():
    assert any("Port=[21003-21130]" in line and "NodeName=n[1-128]" in line for line in conf_of(nodes=128))


def test_a_lab_without_gpus_names_none():
    assert not [line for line in conf_of(gpus=0, accounting=False) if "gpu" in line.lower() and "Partition" not in line]
    assert "Name=gpu" not in gres_conf(Layout(Path("/tmp/a")), LabSpec(gpus=0))


def test_nodes_that_share_have_two_slots_of_two_device_files_per_gpu_and_a_partition_of_their_own():
    lines = conf_of(nodes=3, gpus=2, shared_nodes=1)
    assert any("NodeName=n[3-3]" in line and "Gres=gpu:2,slot:i0:2,slot:i1:2 " in line for line in lines)
    assert any("NodeName=n[1-2]" in line and "Port=[21003-21004]" in line for line in lines)
    assert {line.split(" MaxTime")[0] for line in lines if line.startswith("PartitionName")} == {
        "PartitionName=gpu Nodes=n[1-2] Default=YES",
        "PartitionName=shared Nodes=n[3-3]",
    }
    spec = LabSpec(nodes=3, gpus=2, shared_nodes=1)
    lines = gres_conf(Layout(Path("/tmp/a")), spec).splitlines()
    files = [line.rpartition("=")[2] for line in lines if "n[1-2]" not in line]
    assert len(files) == len(set(files)) == 2 + 2 * 2


def test_other_nodes_count_one_slot_of_each_type_where_some_share():
    lines = conf_of(nodes=3, gpus=2, shared_nodes=1)
    assert any("NodeName=n[1-2]" in line and "Gres=gpu:2,slot:i0:1,slot:i1:1 " in line for line in lines)
    counted = gres_conf(Layout(Path("/tmp/a")), LabSpec(nodes=3, gpus=2, shared_nodes=1)).splitlines()[-2:]
    assert counted == [f"NodeName=n[1-2] Name=slot Type=i{gpu} Count=1 Flags=CountOnly" for gpu in range(2)]
    assert not [line for line in conf_of(nodes=3, gpus=2) if "slot" in line]


SHAPES = (
    "CPUs=8 RealMemory=16000 Gres=gpu:a100:2,gpu:v100:1 Feature=ib",
    "CPUs=2 RealMemory=4000",
    "CPUs=4 Gres=gpu:3",
)


def test_each_node_with_a_shape_of_its_own_has_a_line_and_a_port_of_its_own():
    lines = conf_of(nodes=3, gpus=3, shapes=SHAPES)
    where = "NodeHostname=host NodeAddr=127.0.0.1 Port="
    assert [line for line in lines if line.startswith("NodeName=")] == [
        f"NodeName=n{number} {where}{21002 + number} {shape} State=UNKNOWN" for number, shape in enumerate(SHAPES, 1)
    ]
    assert any(line.startswith("PartitionName=gpu Nodes=n[1-3]") for line in lines)


def test_the_types_of_gpus_of_a_shape_have_device_files_one_after_the_other():
    layout = Layout(Path("/tmp/a"))
    lines = gres_conf(layout, LabSpec(nodes=3, gpus=3, shapes=SHAPES)).splitlines()
    assert lines == [
        "AutoDetect=off",
        f"NodeName=n1 Name=gpu Type=a100 File={layout.devices}/gpu[0-1]",
        f"NodeName=n1 Name=gpu Type=v100 File={layout.devices}/gpu[2-2]",
        f"NodeName=n3 Name=gpu File={layout.devices}/gpu[0-2]",
    ]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodes": 2, "shapes": SHAPES}, "each node has its shape, or none has"),
        ({"nodes": 3, "gpu_types": ("a100",), "shapes": SHAPES}, "shapes have the types of GPUs"),
        ({"nodes": 3, "shared_nodes": 1, "shapes": SHAPES}, "got nodes=3 shapes=3 gpu_types= shared_nodes=1"),
    ],
)
def test_shapes_are_for_all_nodes_and_name_their_gpus_themselves(spec, words):
    with pytest.raises(LabError, match=words):
        LabSpec(**spec)


def test_shapes_outlive_the_record_of_a_lab():
    spec = LabSpec(nodes=3, gpus=3, shapes=SHAPES)
    assert LabSpec.from_json(spec.to_json()) == spec


def test_without_accounting_nothing_needs_slurmdbd():
    assert not [line for line in conf_of(accounting=False) if "PriorityWeight" in line or "slurmdbd" in line]


def test_a_directory_too_long_for_a_socket_says_by_how_much():
    with pytest.raises(LabError, match=r"has 1\d\d bytes, the kernel takes 107; choose .* at least \d+ bytes shorter"):
        Layout(Path("/tmp") / ("x" * 100))


def test_a_directory_that_slurm_conf_cannot_quote_is_refused():
    with pytest.raises(LabError, match="cannot quote ' '"):
        Layout(Path("/tmp/my lab"))


def test_a_spec_survives_json():
    spec = LabSpec(nodes=2, extra_conf=("KillWait=2",), users={"eve": "physics"}, operators=())
    assert LabSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"gpus": -1}, {"operators": ("alice",)}, {"shared_nodes": 4}])
def test_a_spec_that_means_nothing_is_refused(wrong):
    with pytest.raises(LabError):
        LabSpec(**wrong)
