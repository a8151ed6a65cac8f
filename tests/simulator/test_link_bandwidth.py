"""The bandwidth between the GPUs of jobs in a simulation, by the placement that chooses them."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, simulate, trace

from examples import examples
from slurmsched.cli import main
from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.gpu_numbers import choice_of, gpu_numbers
from slurmsched.simulator.report.link_bandwidth import LinkBandwidth
from slurmsched.simulator.run import simulate as unchecked
from slurmsched.simulator.setup import Setup

P3 = Path(__file__).parents[2] / "examples/p3.toml"
TWO_KINDS = """\
[[nodes]]
gpus = 4
[nodes.links]
counts = ["-1,1,1,2", "1,-1,2,1", "1,2,-1,2", "2,1,2,-1"]
link_gbps = 25
other_gbps = 12
[[nodes]]
count = 2
gpus = 2
"""
FOUR = ["-1,1,1,2", "1,-1,2,1", "1,2,-1,2", "2,1,2,-1"]


def many_jobs():
    """Jobs of 1, 2 and 4 GPUs that come and go at random."""
    random = np.random.default_rng(3)
    count = 600
    return trace(
        *zip(
            np.cumsum(random.exponential(60, count)).round().tolist(),
            random.integers(60, 9000, count).tolist(),
            random.choice([1, 2, 4], count, p=[0.7, 0.2, 0.1]).tolist(),
            strict=True,
        )
    )


JOBS = many_jobs()


def replayed(placement, run=simulate, fleet=None, jobs=JOBS):
    return run(jobs, fleet or read_cluster(P3), Setup.of("fifo", placement=placement), segments=True)


@cache
def with_many_jobs(placement):
    return replayed(placement, unchecked)  # to check its state after each event takes all of the time


def test_pairs_have_more_bandwidth_by_links_and_every_job_ends_when_it_would_without():
    lowest, best = with_many_jobs("consolidate"), with_many_jobs("links")
    assert best.end_s.tolist() == lowest.end_s.tolist()
    before, after = LinkBandwidth.of(lowest), LinkBandwidth.of(best)
    assert after.mean_gbps > 1.1 * before.mean_gbps
    assert after.mean_gbps == after.by_gpus[2]
    assert after.by_gpus[4] == before.by_gpus[4] == 37.5


def test_a_node_chosen_for_its_links_gives_pairs_more_bandwidth_still():
    roomiest, best = (LinkBandwidth.of(with_many_jobs(name)) for name in ("links-roomiest", "links"))
    assert roomiest.mean_gbps > best.mean_gbps


def test_the_daemons_decisions_give_the_same_bandwidth_as_the_fast_loops():
    few = trace(*[(9 * at, 100 + 37 * (at * at % 11), (1, 2, 1, 4, 2)[at % 5]) for at in range(60)])
    for placement in ("links", "links-roomiest"):
        fast, slow = (LinkBandwidth.of(replayed(placement, run, jobs=few)) for run in (simulate, decided))
        assert fast == slow
        assert fast.mean_gbps > 25


def test_nodes_of_several_kinds_have_links_of_their_own(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(TWO_KINDS)
    fleet = read_cluster(file)
    assert [links is not None for links in fleet.links] == [True, False, False]
    jobs = trace((0, 10, 1), (0, 10, 2), (1, 10, 1), (2, 50, 2), (20, 5, 4))
    for run in (simulate, decided):
        bandwidth = LinkBandwidth.of(replayed("links", run, fleet, jobs))
        assert bandwidth.by_gpus == {2: 50.0, 4: 37.5}, "the pairs on nodes without known links do not count"


@examples(40)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=30),
    st.sampled_from(["links", "links-roomiest", "consolidate", "first-free"]),
    st.sampled_from(["strict", "preemptive", "easy"]),
)
def test_at_no_time_do_two_jobs_have_one_gpu(rows, placement, selection):
    jobs, fleet = trace(*rows, time_limit_s=[25.0] * len(rows)), read_cluster(P3)
    fleet = type(fleet)(fleet.nodes.take(np.arange(3)), fleet.partitions, fleet.qos, links=fleet.links[:3])
    runs = simulate(jobs, fleet, Setup.of("srtf", selection, placement=placement), segments=True).segments
    numbers = gpu_numbers(runs, fleet.nodes.gpus.tolist(), choice_of(placement, fleet))
    of = np.repeat(np.arange(len(runs.row)), np.diff(np.append(runs.first, len(runs.node))))
    held = [
        (int(runs.node[pair]), gpu, runs.start_s[of[pair]], runs.end_s[of[pair]])
        for pair, gpus in enumerate(numbers)
        for gpu in gpus
    ]
    lasting = runs.end_s[of] > runs.start_s[of]
    assert len(held) == runs.gpus[lasting].sum()
    held.sort()
    for (node, gpu, _, end_s), (next_node, next_gpu, start_s, _) in pairwise(held):
        assert (node, gpu) != (next_node, next_gpu) or end_s <= start_s


def simulated(tmp_path, *options):
    file = tmp_path / "trace.csv"
    file.write_text("job_id,submit_s,runtime_s,gpus,name\n1,0,100,1,a\n2,5,100,2,a\n3,9,100,2,a\n")
    done = CliRunner().invoke(main, ["simulate", str(file), "--policy", "fifo", "--no-baseline", "--json", *options])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_command_prints_the_bandwidth_of_jobs_and_by_their_gpus(tmp_path):
    facts = simulated(tmp_path, "--cluster", str(P3), "--set", "placement=links")
    assert facts["policies"][0]["links"] == {"mean_gbps": 50.0, "by_gpus": {"2": 50.0}}
    facts = simulated(tmp_path, "--cluster", str(P3))
    assert facts["policies"][0]["links"]["mean_gbps"] == pytest.approx(37.5), "1-2 beside GPU 0, then 0-1"


def test_without_links_there_is_no_bandwidth_and_a_note_says_that_every_gpu_counts_the_same(tmp_path):
    facts = simulated(tmp_path, "--nodes", "2x4", "--set", "placement=links")
    assert facts["policies"][0]["links"] == {"mean_gbps": None, "by_gpus": {}}
    assert facts["notes"] == ["placement links: the cluster has no [nodes.links]; any free GPU of a node serves"]


@pytest.mark.parametrize(
    ("links", "error"),
    [
        (f"counts = {FOUR}", "other_gbps; 'link_gbps' is missing"),
        (f"counts = {FOUR}\nlink_gbps = 0\nother_gbps = 12", "must be above 0"),
        ("counts = ['-1']\nlink_gbps = 25\nother_gbps = 12", "counts: 1 lines for 4 GPUs"),
        ("counts = ['-1,1', '2,-1']\nlink_gbps = 25\nother_gbps = 12", "GPU 0 has 1 links to 1"),
        ("speed = 3", "'speed' is no key; accepted are counts, link_gbps, other_gbps"),
    ],
)
def test_wrong_links_are_refused_by_name(tmp_path, links, error):
    file = tmp_path / "cluster.toml"
    file.write_text(f"[[nodes]]\ngpus = 4\n[nodes.links]\n{links}\n")
    with pytest.raises(ConfigError, match=r"\[\[nodes\]\] 1: \[nodes.links\].*" + error.replace("[", r"\[")):
        read_cluster(file)
