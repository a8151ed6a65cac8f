"""What the releases print of their topology, and what jobs ask of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.topology import FLAT, Topology, TopologyRequest, UnitRule, read_topology_request, rule_of
from slurmsched.slurm.read.topology import JOBS_MOST, TopologyRequests, is_flat, read_topology, request_in

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/topology-tree.txt")), ids=lambda path: path.parent.name)
def test_the_switches_of_a_tree_are_read_from_what_each_release_prints(path):
    topology = read_topology(path.read_text())
    assert topology.plugin == "tree"
    leaves, *above = topology.levels
    assert {unit.name: unit.nodes for unit in leaves} == {
        "s1": ("n1", "n2", "n3", "n4"),
        "s2": ("n5", "n6", "n7", "n8"),
        "s3": ("n9", "n10", "n11", "n12"),
        "s4": ("n13", "n14", "n15", "n16"),
    }
    assert [[unit.name for unit in level] for level in above] == [["top"]]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/topology-block.txt")), ids=lambda path: path.parent.name)
def test_blocks_and_those_of_several_are_read_from_what_each_release_prints(path):
    topology = read_topology(path.read_text())
    assert topology.plugin == "block"
    assert [[len(unit.nodes) for unit in level] for level in topology.levels] == [[4, 4, 4, 4], [8, 8]]
    assert [{unit.size for unit in level} for level in topology.levels] == [{4}, {8}]
    assert topology.numbers(["n5", "n16", "elsewhere"]).tolist() == [[1, 3, -1], [0, 1, -1]]


def test_switches_that_nothing_connects_are_networks_at_the_last_level():
    lines = ["SwitchName=a Level=0 LinkSpeed=1 Nodes=n1", "SwitchName=b Level=0 LinkSpeed=1 Nodes=n2"]
    lines += ["SwitchName=alone Level=0 LinkSpeed=1 Nodes=n3", "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2]"]
    lines[-1] += " Switches=a,b"
    two = read_topology("\n".join(lines) + "\n")
    assert [[unit.name for unit in level] for level in two.levels] == [["a", "b", "alone"], ["top"], ["top", "alone"]]
    assert rule_of(two, TopologyRequest(), 2) == UnitRule(0, 2, 1, 0, 1, False)
    assert rule_of(two, TopologyRequest(switches=1), 2) == UnitRule(0, 2, 1, 1, 1, False)
    assert rule_of(two, TopologyRequest(), 1) is None
    leaves = read_topology("\n".join(lines[:2]) + "\n")
    assert [[unit.name for unit in level] for level in leaves.levels] == [["a", "b"]]
    one = read_topology("\n".join([*lines[:2], lines[3]]) + "\n")
    assert rule_of(one, TopologyRequest(), 2) is None


def test_of_rings_and_toruses_it_is_known_that_they_are_there():
    ring = "RingName=r1 Nodes=n[1-2,4,3] RingSize=4\n"
    torus = "TorusName=pod1 Dims=2x2x1 Nodes=n[1-4]\n  TorusName=pod1 PlacementDims=1x1x1(1) Anchors=4\n"
    assert [read_topology(text) for text in (ring, torus)] == [Topology("ring"), Topology("torus")]


@pytest.mark.parametrize("text", ["", "No topology information available\n"])
def test_what_has_no_blocks_or_switches_is_flat(text):
    assert read_topology(text) == FLAT


def test_plugins_without_units_are_not_asked_about():
    assert [is_flat(name) for name in ("topology/flat", "topology/none", "topology/default", "", "topology/tree")] == [
        *[True] * 4,
        False,
    ]


LINE = (
    "JobId=7 JobName={name} NumNodes=4-4 OverSubscribe={shares} Contiguous=0 Command=(null)"
    " WorkDir={where}{rest} Power= \n"
)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, TopologyRequest()),
        ({"rest": " Switches=2@00:05:00"}, TopologyRequest(2, 300.0)),
        ({"rest": " Switches=1@1-00:00:00 SegmentSize=4"}, TopologyRequest(1, 86400.0, 4)),
        ({"shares": "TOPO"}, TopologyRequest(whole=True)),
        ({"name": "x SegmentSize=9", "rest": " SegmentSize=2"}, TopologyRequest(segment=2)),
        ({"name": "x\nJobId=8 SegmentSize=9"}, TopologyRequest()),
    ],
)
def test_what_a_job_asks_of_the_topology_is_read_from_its_own_line(fields, says):
    line = LINE.format(**{"name": "train", "shares": "NO", "where": "/home", "rest": ""} | fields)
    assert read_topology_request(request_in(line, 7)) == says
    assert request_in(line, 8) == ""


def test_each_job_on_several_nodes_is_asked_about_once_and_few_at_a_time():
    jobs = job_table(3 * JOBS_MOST, job_id=np.arange(1, 3 * JOBS_MOST + 1), nodes=np.tile([1, 2, 4], JOBS_MOST))
    asked: list[int] = []

    def query(argv):
        job = argv[argv.index("job") + 1]
        asked.append(int(job))
        return f"JobId={job} JobName=x SegmentSize=2 \n"

    requests = TopologyRequests()
    filled = requests.filled(jobs, query)
    assert len(asked) == JOBS_MOST
    requests.filled(jobs, query)
    assert len(asked) == len(set(asked)) == 2 * JOBS_MOST
    assert requests.filled(jobs, query).topology_request.nonempty().sum() == 2 * JOBS_MOST
    assert filled.topology_request.nonempty().sum() == JOBS_MOST
    requests.forget_all_but([jobs.take(slice(0, 3))])
    asked.clear()
    requests.filled(jobs.take(slice(0, 6)), query)
    assert asked == [5, 6]
