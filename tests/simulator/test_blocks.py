"""Nodes in blocks: a simulated job on several nodes is in as few blocks as hold it, whatever the placement."""

from __future__ import annotations

import pytest
from worlds import simulate, trace

from slurmsched.errors import ConfigError
from slurmsched.policies.contract import PLACEMENTS
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.setup import Setup

JOBS = ((0.0, 100.0, 4), (1.0, 10.0, 4), (2.0, 100.0, 4), (20.0, 10.0, 8))
"""Jobs that leave the second and the last of four nodes free, and one on two nodes."""


def cluster(tmp_path, block=""):
    path = tmp_path / "cluster.toml"
    path.write_text(f"[[nodes]]\ncount = 4\ngpus = 4\n{block}\n")
    return read_cluster(path)


@pytest.mark.parametrize(
    "placement",
    sorted(name for name, one in PLACEMENTS.items() if name != "pool" and not one.measured and not one.by_jobs),
)
def test_a_job_waits_until_the_nodes_of_one_block_are_free(tmp_path, placement):
    setup = Setup.of("fifo", "backfill", placement=placement)
    whole = simulate(trace(*JOBS), cluster(tmp_path), setup)
    assert whole.start_s.tolist() == [0.0, 1.0, 2.0, 20.0]
    blocks = simulate(trace(*JOBS), cluster(tmp_path, "block = 2"), setup)
    assert blocks.start_s.tolist() == [0.0, 1.0, 2.0, 100.0]


def test_in_a_pool_neither_nodes_nor_blocks_count(tmp_path):
    replay = simulate(trace(*JOBS), cluster(tmp_path, "block = 2"), Setup.of("fifo", "backfill", placement="pool"))
    assert replay.start_s.tolist()[-1] == 20.0


@pytest.mark.parametrize("placement", ["tiresias-plus", "fgd", "fgd-filled"])
def test_a_placement_by_what_was_measured_or_by_other_jobs_is_refused(tmp_path, placement):
    with pytest.raises(ConfigError, match="nodes in blocks"):
        simulate(trace(*JOBS), cluster(tmp_path, "block = 2"), Setup.of("fifo", placement=placement))


def test_a_job_larger_than_a_block_has_several(tmp_path):
    fleet = cluster(tmp_path, "block = 2")
    assert simulate(trace((0.0, 5.0, 12), (0.0, 5.0, 16)), fleet, Setup.of("fifo")).start_s.tolist() == [0.0, 5.0]


@pytest.mark.parametrize("block", ["block = 0\n[[nodes]]\ngpus = 1\nblock = 2", "block = -1", "block = 'b'"])
def test_blocks_that_are_none_are_refused(tmp_path, block):
    with pytest.raises(ConfigError, match="block"):
        cluster(tmp_path, block)
