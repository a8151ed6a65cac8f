"""Clusters in TOML files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.cluster_spec import Failures

CLUSTER = """\
[[nodes]]
count = 3
gpus = 8
gpu_type = "a100"
cpus = 64
memory_gib = 512
features = ["ib", "nvlink"]
partitions = ["train"]

[[nodes]]
gpus = 4

[[partitions]]
name = "train"
tier = 2
max_time = "2-00:00:00"

[[partitions]]
name = "debug"

[[qos]]
name = "high"
priority = 10

[[accounts]]
name = "astro"
gpus = 6
"""


NODE = "[[nodes]]\ngpus = 4\n[[reservations]]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.toml"


def test_nodes_of_several_kinds_make_one_fleet(file):
    file.write_text(CLUSTER)
    fleet = read_cluster(file)
    nodes = fleet.nodes
    assert list(nodes.name) == ["n1", "n2", "n3", "n4"]
    assert nodes.gpus.tolist() == [8, 8, 8, 4]
    assert nodes.cpus.tolist()[:3] == [64, 64, 64]
    assert nodes.memory_mib.tolist() == [524288, 524288, 524288, math.inf]
    assert list(nodes.gpu_type) == ["a100", "a100", "a100", ""]
    assert list(nodes.features) == ["ib,nvlink", "ib,nvlink", "ib,nvlink", ""]
    assert nodes.usable.all()
    assert (fleet.total, fleet.size, fleet.equal) == (28, 8, False)


def test_nodes_that_name_no_partition_are_in_all(file):
    file.write_text(CLUSTER)
    fleet = read_cluster(file)
    assert list(fleet.nodes.partitions) == ["train", "train", "train", "train,debug"]
    partitions = fleet.partitions
    assert list(partitions.name) == ["train", "debug"]
    assert list(partitions.nodes) == ["n[1-4]", "n4"]
    assert partitions.tier.tolist() == [2, 1]
    assert partitions.max_time_s.tolist() == [172800, math.inf]
    assert partitions.up.all()


def test_qos_and_accounts_come_along(file):
    file.write_text(CLUSTER)
    fleet = read_cluster(file)
    assert (list(fleet.qos.name), fleet.qos.priority.tolist()) == (["high"], [10])
    assert fleet.account_gpus == {"astro": 6}


def test_failures_and_speeds_come_along(file):
    failures = '[failures]\nmtbf = "30-00:00:00"\nrepair = "04:00:00"\nseed = 3\n'
    file.write_text(f"[[nodes]]\ngpus = 8\n{failures}[spread]\nspeeds = [1, 0.5]\n")
    fleet = read_cluster(file)
    assert fleet.failures == Failures(30 * 86400.0, 4 * 3600.0, 3)
    assert fleet.speeds == (1.0, 0.5)
    assert not fleet.equal


def test_pairs_that_may_share_come_from_a_file_beside_it(file):
    file.with_name("pairs.csv").write_text("first,second,first_speed,second_speed\nbert,gan,0.9,0.8\n")
    file.write_text("[[nodes]]\ngpus = 8\n[sharing]\npairs = 'pairs.csv'\n")
    sharing = read_cluster(file).sharing
    assert sharing.names == ("bert", "gan")
    assert sharing.speeds.tolist() == [[0, 0.9], [0.8, 0]]


def test_the_nodes_of_one_partition_have_slots_of_their_gpus(file):
    file.with_name("pairs.csv").write_text("first,second,first_speed,second_speed\na,b,0.9,0.8\n")
    text = "[[nodes]]\ngpus = 8\npartitions = ['gpu']\n[[nodes]]\ngpus = 2\npartitions = ['shared']\n"
    text += "[[partitions]]\nname = 'gpu'\n[[partitions]]\nname = 'shared'\n[sharing]\npairs = 'pairs.csv'\n"
    file.write_text(text + "partition = 'shared'\n")
    assert read_cluster(file).slots.tolist() == [0, 0b11]
    file.write_text(text + "partition = 'nowhere'\n")
    with pytest.raises(ConfigError, match="partition = 'nowhere' is none of the"):
        read_cluster(file)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("first,second\na,b\n", "line 2: accepted are columns first, second, first_speed, second_speed"),
        ("first,second,first_speed,second_speed\na,b,fast,1\n", "line 2: accepted are columns"),
        ("first,second,first_speed,second_speed\na,b,1.5,1\n", "speeds are 0 to 1"),
        (None, "pairs = 'pairs.csv' cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_of_pairs_is_named(file, pairs, said):
    if pairs is not None:
        file.with_name("pairs.csv").write_text(pairs)
    file.write_text("[[nodes]]\ngpus = 8\n[sharing]\npairs = 'pairs.csv'\n")
    with pytest.raises(ConfigError, match=said):
        read_cluster(file)


def test_equal_nodes_without_partitions_are_a_pool(file):
    file.write_text("[[nodes]]\ncount = 2\ngpus = 4\n[[nodes]]\ngpus = 4\n")
    assert read_cluster(file).equal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"\[\[nodes\]\] make no nodes"),
        ("[nodes]\ngpus = 4\n", r"'nodes' must be written as \[\[nodes\]\]"),
        ("[[racks]]\n", r"accepted are \[\[nodes\]\], \[\[partitions\]\], \[\[qos\]\]"),
        (
            "[[nodes]]\ngpus = 4\n[[nodes]]\ncards = 4\n",
            r"\[\[nodes\]\] 2: 'cards' is no key; accepted are count, gpus",
        ),
        ("[[nodes]]\ngpus = 4\ncount = 0\n", "count = 0: accepted are whole numbers from 1 on"),
        ("[[nodes]]\ngpus = 4\ncount = 100001\n", "more than 100000"),
        ("[[nodes]]\ngpus = 4\nmemory_gib = 0\n", "memory_gib = 0.0: accepted are numbers above 0"),
        ("[[nodes]]\ngpus = 4\nload = 8\n", r"load goes with cpus and memory_gib of all \[\[nodes\]\]"),
        ("[[nodes]]\ngpus = 4\nload = -1\n", "load = -1.0: accepted are numbers from 0 on"),
        ("[[nodes]]\ngpus = 4\nfeatures = 'ib'\n", "features = 'ib': accepted is a list of texts"),
        ("[[nodes]]\ncpus = 4\n", "have gpus"),
        ("[[nodes]]\ngpus = 4\npartitions = ['a']\n", "partition 'a' has no .* table; there are: none"),
        ("[[nodes]]\ngpus = 4\n[[partitions]]\ntier = 2\n", r"1: name = '': accepted is a name of its own"),
        ("[[nodes]]\ngpus = 4\n[[qos]]\nname = 'a'\n[[qos]]\nname = 'a'\n", r"\[\[qos\]\] 2: name = 'a'"),
        ("[[nodes]]\ngpus = 4\n[[partitions]]\nname = 'a'\nmax_time = 'long'\n", "max_time: 'long' is no time"),
        ("[[nodes]]\ngpus = 4\n[spread]\nspeeds = [2]\n", r"speeds = \[2\]: accepted are numbers above 0 up to 1"),
        ("[[nodes]]\ngpus = 4\n[failures]\nmtbf = '1-0'\n", "must have mtbf and repair"),
        (f"{NODE}name = 'x'\nstart = '1:00:00'\n", "reservations.* x must have start and duration"),
        (f"{NODE}name = 'x'\nstart = '1:00:00'\nduration = 'soon'\n", "x must have start and duration"),
        (f"{NODE}name = 'x'\nstart = '0'\nduration = '1:00:00'\nnodes = 'n7'\n", "nodes has 'n7'; there are: n1"),
        (f"{NODE}name = 'x'\nstart = '0'\nduration = '1:00:00'\nrepeat = 'hourly'\n", "accepted are daily, weekly"),
        (f"{NODE}name = 'x'\nstart = '0'\nduration = '0'\n", "a finite duration above 0"),
        (f"{NODE}start = '0'\nduration = '1:00:00'\n", "accepted is a name of its own"),
        ("[[nodes]]\ngpus = 4\n[[accounts]]\nname = 'a'\n", "accounts.* a: gpus must be there"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_accepted(file, text, said):
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_cluster(file)


def test_reservations_are_windows_after_the_first_submission(file):
    first = "name = 'repair'\nstart = '1-00:00:00'\nduration = '2:00:00'\n"
    night = "[[reservations]]\nname = 'night'\nstart = '0'\nduration = '60'\nnodes = 'n1'\nrepeat = 'daily'\n"
    file.write_text(f"{NODE}{first}{night}times = 3\nusers = ['alice', 'bob']\n")
    fleet = read_cluster(file)
    table = fleet.dated(1000.0).reservations
    assert list(table.name) == ["repair", "night", "night", "night"]
    assert (table.start_s - 1000.0).tolist() == [86_400.0, 0.0, 86_400.0, 172_800.0]
    assert (table.end_s - table.start_s).tolist() == [7200.0, 3600.0, 3600.0, 3600.0]
    assert list(table.flags) == ["MAINT", *["MAGNETIC"] * 3]
    assert list(table.users) == ["", *["alice,bob"] * 3]
    assert (len(fleet.reservations), fleet.equal) == (0, False)
