"""Jobs that spreading slows down: the truth of a cluster file, what is declared, and what a policy measures of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, simulate, trace

from examples import examples
from slurmsched.cli import main
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.kind_speeds import LEAST_SPREAD as LEAST
from slurmsched.policies.contract import PLACEMENTS
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.machine.pace import spread_speeds
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.setup import Setup

SLOW = replace(ClusterSpec.of(2, 4), program_speeds={"bert": (1.0, 0.5), "vgg": (1.0,)})


def test_what_was_measured_counts_more_than_what_is_declared_and_declared_is_what_was_not_measured():
    plus, skew = PLACEMENTS["tiresias-plus"], PLACEMENTS["tiresias-skew"]
    declared, speeds = np.array([True, True, True, False, False]), np.array([np.nan, 0.5, 1.0, 0.94, 0.96])
    assert (plus.ways(declared, speeds) == plus.sensitive).tolist() == [True, True, False, True, False]
    assert (skew.ways(declared, speeds) == skew.sensitive).tolist() == declared.tolist()


def test_programs_of_the_cluster_file_slow_down_whatever_is_declared(tmp_path):
    file = tmp_path / "slow.toml"
    file.write_text(
        "[[nodes]]\ncount = 2\ngpus = 4\n[spread]\nspeeds = [1, 0.8]\n[spread.programs]\nbert = [1, 0.5]\nvgg = [1]\n"
    )
    fleet = read_cluster(file)
    assert not fleet.equal
    jobs = trace((0, 10, 3), (0, 10, 2), name=["other", "bert"], sensitive=[False, False])
    first_free = Setup.of("fifo", placement="first-free")
    assert simulate(jobs, fleet, first_free).end_s.tolist() == [10, 20]
    named = replace(jobs, name=Labels.of(["other", "vgg"]), sensitive=np.array([True, True]))
    assert simulate(named, fleet, first_free).end_s.tolist() == [10, 10]
    unnamed = replace(jobs, name=Labels.of(["other", "other"]), sensitive=np.array([True, True]))
    assert simulate(unnamed, fleet, first_free).end_s.tolist() == [10, 12.5]
    assert violations(simulate(unnamed, fleet, first_free)) == []
    assert spread_speeds(named, fleet).tolist() == [0.8, 1.0]


@examples(25)
@given(data=st.data(), selection=st.sampled_from(["strict", "backfill", "easy"]))
def test_a_policy_that_knows_the_truth_is_the_same_in_the_fast_loops_and_in_the_daemons_decisions(data, selection):
    many = data.draw(st.integers(1, 20))
    rows = st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 8))
    drawn = data.draw(st.lists(rows, min_size=many, max_size=many))
    names = data.draw(st.lists(st.sampled_from(["bert", "vgg", "other"]), min_size=many, max_size=many))
    sensitive = data.draw(st.lists(st.booleans(), min_size=many, max_size=many))
    jobs = trace(*drawn, name=names, sensitive=sensitive, time_limit_s=np.full(many, 60.0))
    setup = Setup.of("fifo", selection, placement="tiresias-plus", slowdowns="exact")
    fast, slow = simulate(jobs, SLOW, setup), decided(jobs, SLOW, setup)
    assert fast.decisions.decided_by == "fast"
    assert fast.spread.tolist() == slow.spread.tolist()
    assert fast.end_s == pytest.approx(slow.end_s)


def test_a_policy_that_measures_consolidates_a_kind_once_it_saw_it_both_ways():
    """Pairs of jobs: the first takes three GPUs of a node, so that the second is spread unless it is consolidated."""
    pairs = [(100.0 * at + 1.0 * second, 40, 3 - second) for at in range(2 * LEAST) for second in (0, 1)]
    alone = [(2000.0 + 100.0 * at + 1.0 * second, 40, 2 - second) for at in range(LEAST) for second in (0, 1)]
    late = [(3000.0, 40, 3), (3001.0, 40, 2)]
    jobs = trace(*pairs, *alone, *late)
    jobs = replace(jobs, name=Labels.of("bert" if gpus == 2 else "other" for gpus in jobs.gpus.tolist()))
    measured = simulate(jobs, SLOW, Setup.of("fifo", placement="tiresias-plus"))
    assert measured.decisions.decided_by == "decide"
    berts = measured.spread[jobs.gpus == 2].tolist()
    assert berts == [2] * 2 * LEAST + [1] * LEAST + [1]
    declared = simulate(jobs, SLOW, Setup.of("fifo", placement="tiresias-skew"))
    assert declared.spread[-1] == 2
    exact = simulate(jobs, SLOW, Setup.of("fifo", placement="tiresias-plus", slowdowns="exact"))
    assert exact.spread.tolist() == [1] * len(jobs)


def test_the_command_takes_what_is_known_and_names_what_it_accepts(tmp_path):
    cluster, jobs = Path(tmp_path, "c.toml"), Path(tmp_path, "t.csv")
    cluster.write_text("[[nodes]]\ncount = 2\ngpus = 4\n[spread.programs]\nbert = [1, 0.5]\n")
    jobs.write_text("job_id,submit_s,runtime_s,gpus,name\n1,0,10,3,other\n2,0,10,2,bert\n")
    line = ["simulate", str(jobs), "--cluster", str(cluster), "--no-baseline", "--policy", "fifo", "--json"]
    line += ["--set", "placement=tiresias-plus"]
    facts = [json.loads(CliRunner().invoke(main, [*line, *more]).stdout) for more in ([], ["--set", "slowdowns=exact"])]
    assert [one["policies"][0]["jct_s"]["mean"] for one in facts] == [15.0, 10.0]
    wrong = CliRunner().invoke(main, [*line, "--set", "slowdowns=guessed"])
    assert wrong.exit_code == 2
    assert "there are: measured, exact" in wrong.output
