"""Speeds by number of GPUs, from runs and from iteration times, and what restarts cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.kind_speeds import KindSpeeds
from slurmsched.cluster.nodes import PartitionTable, QosTable
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.restart_costs import RestartCosts
from slurmsched.cluster.speed_texts import read_sizes, write_speeds
from slurmsched.cluster.state import ClusterState
from slurmsched.research.conformance.random_views import nodes

SIZES = "slurmsched:gpus=1-8,ckpt"


def runs(gpus, took_s, *, gpu_type="", state=JobState.COMPLETED, restart=0):
    count = len(gpus)
    texts = {name: Labels.of(["x"] * count) for name in ("account", "qos", "partition")}
    zeros = np.zeros(count)
    return OutcomeTable(
        job_id=np.arange(count),
        restart=np.full(count, restart),
        name=Labels.of(["train"] * count),
        user=Labels.of(["alice"] * count),
        **texts,
        gpus=np.array(gpus),
        nodes=np.ones(count, np.int64),
        cpus=np.ones(count, np.int64),
        **dict.fromkeys(("time_limit_s", "first_submit_s", "eligible_s", "started_s", "ended_s"), zeros),
        runtime_s=np.array(took_s, dtype=np.float64),
        state=np.full(count, state),
        gpu_type=Labels.of([gpu_type] * count),
    )


def state(count=1, **columns):
    """Running jobs of alice of several sizes, and one of the kind that waits."""
    ours = {"user": ["alice"] * count, "name": ["train"] * count, "job_id": np.arange(1, count + 1)}
    ours |= {"comment": [SIZES] * count, "node_list": ["n1"] * count, "ckpt": [True] * count}
    running = job_table(count, **(ours | {"state": [JobState.RUNNING] * count} | columns))
    pending = job_table(1, user=["alice"], name=["train"], job_id=[99], comment=[SIZES], gpus=[1])
    none = job_table(0)
    parts, qos = table_of(PartitionTable, 0, {}, {}), table_of(QosTable, 0, {}, {})
    return ClusterState(pending, running, none, nodes(), parts, qos)


def known(speeds):
    return speeds.filled(state()).pending.size_speeds[0]


def test_two_runs_on_each_of_two_numbers_of_gpus_are_a_speed():
    speeds = KindSpeeds()
    speeds.learn(runs([2, 2, 4], [1000.0, 1200.0, 500.0]))
    assert known(speeds) == ""
    speeds.learn(runs([4], [600.0]))
    assert known(speeds) == "2=1 4=2"
    assert speeds.filled(state()).running.size_speeds[0] == "2=1 4=2"


@pytest.mark.parametrize("odd", [{"state": JobState.FAILED}, {"restart": 1}])
def test_runs_that_failed_or_were_queued_again_tell_nothing(odd):
    speeds = KindSpeeds()
    speeds.learn(runs([2, 2, 4, 4], [1000.0, 1000.0, 500.0, 500.0], **odd))
    assert known(speeds) == ""


def test_short_runs_tell_nothing_and_types_are_not_mixed():
    speeds = KindSpeeds()
    speeds.learn(runs([2, 2, 4, 4], [50.0] * 4))
    speeds.learn(runs([2, 2], [1000.0] * 2, gpu_type="a100"))
    speeds.learn(runs([4, 4], [3000.0] * 2, gpu_type="v100"))
    assert known(speeds) == ""
    speeds.learn(runs([1, 1], [1500.0] * 2, gpu_type="a100"))
    assert known(speeds) == "1=1 2=1.5"


def test_iteration_times_count_before_runtimes_and_those_of_an_earlier_run_do_not():
    speeds = KindSpeeds()
    speeds.learn(runs([2, 2, 4, 4], [1000.0, 1000.0, 900.0, 900.0]))
    speeds.observe(state(gpus=[2], pace_s=[1.0]))
    speeds.observe(state(gpus=[4], pace_s=[1.0], restarts=[1]))
    assert known(speeds) == "2=1 4=1.111", "the comment still has the time on two GPUs"
    speeds.observe(state(gpus=[4], pace_s=[0.55], restarts=[1]))
    assert known(speeds) == "2=1 4=1.818"


def test_what_restarts_cost_is_known_by_kind_else_of_all_jobs():
    costs = RestartCosts()
    assert costs.filled(state()).running.restart_cost_s[0] == 0
    restarted = state(restarts=[1], stop_requested_s=[1000.0], started_s=[1090.0])
    assert costs.filled(restarted).running.restart_cost_s[0] == 90.0
    others = replace(restarted, running=replace(restarted.running, name=Labels.of(["other"]), restarts=np.zeros(1)))
    assert costs.filled(others).running.restart_cost_s[0] == 90.0
    late = state(restarts=[2], stop_requested_s=[1000.0], started_s=[9000.0])
    assert costs.filled(late).running.restart_cost_s[0] == 90.0, "others had come first"


def test_of_a_batch_that_grows_samples_are_compared_where_they_are_reported():
    speeds = KindSpeeds()
    for gpus, pace, samples in ((2, 1.0, 256), (4, 1.0, 384), (8, 9.0, 0)):
        grows = {"comment": [SIZES + ",batch=256-1024"], "pace_s": [pace], "step_samples": [samples]}
        speeds.observe(state(gpus=[gpus], job_id=[gpus], **grows))
    filled = speeds.filled(state())
    assert (filled.pending.sample_speeds[0], filled.running.sample_speeds[0]) == ("2=1 4=1.5", "2=1 4=1.5")
    assert filled.pending.size_speeds[0] == ""


def test_iterations_of_a_batch_that_grows_are_not_compared_without_their_samples():
    speeds = KindSpeeds()
    for gpus, pace in ((2, "2"), (4, "1")):
        for more in ("", ",batch=256-1024"):
            words = {"comment": [f"{SIZES},iterations=100,pace={pace}{more}"], "gpus": [gpus], "job_id": [gpus]}
            if more:
                words |= {"name": ["grows"]}
            speeds.observe(state(**words))
    filled = speeds.filled(state(2, name=["train", "grows"])).running
    assert list(filled.size_speeds) == ["2=1 4=2", ""]
    assert list(filled.sample_speeds) == ["", ""]


@given(st.dictionaries(st.integers(1, 64), st.floats(1.0, 99.0), max_size=5))
@examples(50)
def test_what_is_written_of_speeds_is_read_again(speeds):
    again = read_sizes(write_speeds(speeds))
    assert again.keys() == speeds.keys()
    assert all(abs(again[gpus] - speed) <= 1e-3 * speed for gpus, speed in speeds.items())
