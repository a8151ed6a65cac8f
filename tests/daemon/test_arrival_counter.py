"""What is being submitted, and what follows from it for the profiling partition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from daemon_worlds import ended, report
from decide.views import NOW_S, jobs, view

from slurmsched.cluster.actions import MoveNodes, NodeChange, Refusal
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.daemon.profiling.arrival_counter import ArrivalCounter, by_median
from slurmsched.daemon.profiling.profiling_controller import ProfilingController
from slurmsched.decide.policy import Policy
from slurmsched.decide.profiling_nodes import pressure
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.models.registry import ArtifactRegistry
from slurmsched.policies.contract import find_ordering

STEP_S, DAY = 600.0, 144


def history(steps, per_step, until_s=NOW_S, gpus=1):
    """*per_step* jobs in each of the *steps* before *until_s*, all over by then, each with a second run."""
    submitted_s = np.repeat(until_s - STEP_S * np.arange(steps, 0, -1), per_step)
    once = len(submitted_s)
    submitted_s, restart = np.tile(submitted_s, 2), np.repeat([0, 1], once)
    size = 2 * once
    words = {name: Labels.of(["x"] * size) for name in ("name", "user", "account", "qos", "partition")}
    return OutcomeTable(
        job_id=np.arange(size) % max(once, 1),
        restart=restart,
        **words,
        gpus=np.full(size, gpus),
        nodes=np.ones(size, np.int64),
        cpus=np.ones(size, np.int64),
        time_limit_s=np.full(size, 60.0),
        first_submit_s=submitted_s,
        eligible_s=submitted_s,
        started_s=submitted_s,
        ended_s=submitted_s + 5,
        runtime_s=np.full(size, 5.0),
        state=np.full(size, JobState.COMPLETED),
    )


def burst(count, now_s=NOW_S, **known):
    """A cycle that sees *count* new jobs of two GPUs wait."""
    waiting = jobs(count, gpus=np.full(count, 2), first_submit_s=np.full(count, now_s - 30), **known)
    return report(view=view(waiting), now_s=now_s, ended=ended())


def test_each_job_counts_once_however_often_it_is_seen_and_however_often_it_runs():
    arriving = ArrivalCounter()
    arriving.learn(history(DAY, 2, until_s=NOW_S - STEP_S))
    for later_s in (0.0, 15.0, STEP_S):
        arriving.observe(report(view=burst(12).view, now_s=NOW_S + later_s, ended=ended()))
    told = arriving.outlooks(by_median(), NOW_S + STEP_S)
    assert told["jobs"].now == pytest.approx((4 * 2 + 12) / 6), "the last hour: a step without any, and the new ones"
    assert told["gpus"].now == pytest.approx((4 * 2 + 24) / 6)


def test_pending_tasks_of_an_array_are_so_many_jobs():
    arriving = ArrivalCounter()
    arriving.learn(history(DAY, 2, until_s=NOW_S - STEP_S))
    arriving.observe(burst(1, tasks=[9]))
    assert arriving.outlooks(by_median(), NOW_S + STEP_S)["jobs"].now == pytest.approx((4 * 2 + 9) / 6)


def test_nothing_is_said_before_a_day_is_known():
    arriving = ArrivalCounter()
    arriving.learn(history(DAY - 10, 2))
    assert arriving.outlooks(by_median(), NOW_S) == {}


@pytest.fixture
def flow(tmp_path):
    """The flow of a daemon whose history is a quiet day."""
    made = ProfilingController(ArtifactRegistry(tmp_path))
    made.learn(history(2 * DAY, 1))
    return made


POLICY = Policy(
    find_ordering("sjf"),
    Rules(powers=frozenset({"profile", "nodes"}), profiling=ProfilingRules("profile", n_least=2, home="gpu")),
)


def test_a_burst_lowers_the_limits_within_their_bounds_and_is_over_when_it_is(flow):
    assert flow.under_pressure(POLICY, NOW_S) == POLICY
    flow.after(burst(60))
    hurried = flow.under_pressure(POLICY, NOW_S + STEP_S).rules.profiling
    assert (hurried.n_max, hurried.t_s, hurried.pressure) == (5, 130.0, 0.5)
    later_s = NOW_S + 20 * STEP_S
    flow.after(report(view=view(jobs(0)), now_s=later_s, ended=ended()))
    assert flow.under_pressure(POLICY, later_s) == POLICY


def test_without_a_profiling_partition_nothing_changes(flow):
    plain = Policy(find_ordering("sjf"), Rules())
    flow.after(burst(60))
    assert flow.under_pressure(plain, NOW_S + STEP_S) == plain


def test_a_move_of_nodes_that_a_rule_prevents_is_logged_once_until_the_reason_changes(flow, caplog):
    move = MoveNodes((NodeChange("gpu", "n1", "n1", "n1"),))
    for detail in ("gpu and profile have nodes in common", "gpu and profile have nodes in common", "another"):
        plan = replace(burst(1).plan, refusals=(Refusal(move, "partitions_are_apart", detail),))
        flow.after(report(view=view(jobs(0)), plan=plan, now_s=NOW_S, ended=ended()))
    assert [record.getMessage() for record in caplog.records] == [
        "no nodes were lent: gpu and profile have nodes in common",
        "no nodes were lent: another",
    ]


def test_a_model_that_cannot_be_read_leaves_the_rolling_median(flow, tmp_path, caplog):
    (tmp_path / "throughput.json").write_text("nonsense")
    assert flow.under_pressure(POLICY, NOW_S) == POLICY
    assert "arrivals are forecast by their rolling median" in caplog.text


def test_of_two_series_the_one_under_more_pressure_counts():
    arriving = ArrivalCounter()
    arriving.learn(history(2 * DAY, 1))
    arriving.observe(burst(6))
    assert pressure(arriving.outlooks(by_median(), NOW_S + STEP_S)) > 0
