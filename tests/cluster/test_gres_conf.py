"""The lines of gres.conf about the GPUs of a node."""

from __future__ import annotations

import pytest

from slurmsched.cluster.text.gres_conf import GresGpu, gpus_of_node

GRES = """\
# all nodes
AutoDetect=off
NodeName=gpu[1-2] Name=gpu Type=v100 File=/dev/nvidia0 Cores=0-1,4 Links=-1,2
NodeName=gpu[1-2] name=GPU type=v100 file=/dev/nvidia1 CPUs=[2-3]  # the other socket
NodeName=share1 Name=gpu File=/dev/nvidia[0-1]
NodeName=share1 Name=slot Type=i0 File=/dev/nvidia0
NodeName=gpu[3-8] AutoDetect=nvml
Name=mps Count=100
"""


def test_a_node_has_the_gpus_of_its_own_lines():
    gpu1 = gpus_of_node(GRES.splitlines(), "gpu1")
    assert gpu1.gpus == {
        "/dev/nvidia0": GresGpu("gpu[1-2]", "v100", frozenset({0, 1, 4}), "-1,2"),
        "/dev/nvidia1": GresGpu("gpu[1-2]", "v100", frozenset({2, 3}), ""),
    }
    assert not gpu1.detected
    shared = gpus_of_node(GRES.splitlines(), "share1")
    assert shared.gpus == dict.fromkeys(("/dev/nvidia0", "/dev/nvidia1"), GresGpu("share1"))
    assert gpus_of_node(GRES.splitlines(), "gpu7").detected


def test_a_line_for_a_gpu_keeps_the_name_and_type_that_it_has():
    typed = GresGpu("gpu[1-2]", "v100")
    assert typed.line("/dev/nvidia0", "0-1", "-1,2") == (
        "NodeName=gpu[1-2] Name=gpu Type=v100 File=/dev/nvidia0 Cores=0-1 Links=-1,2"
    )
    assert GresGpu().line("/dev/nvidia0", "", "-1,2") == "Name=gpu File=/dev/nvidia0 Links=-1,2"


def test_a_list_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="nvidia"):
        gpus_of_node(["Name=gpu File=/dev/nvidia[0-"], "n1")


def test_quoted_values_are_those_within_the_quotes():
    lines = ['NodeName="n[1-2]" Name=gpu Type="a100" File="/dev/nvidia[0-3]" Cores="0-7"']
    found = gpus_of_node(lines, "n1").gpus
    assert list(found) == [f"/dev/nvidia{number}" for number in range(4)]
    assert {(gpu.node_name, gpu.kind, gpu.cores) for gpu in found.values()} == {("n[1-2]", "a100", frozenset(range(8)))}
