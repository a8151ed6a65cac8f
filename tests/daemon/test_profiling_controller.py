"""The forecast of submissions in a daemon, and moves of nodes that a rule prevents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from daemon_worlds import ended, report
from decide.views import NOW_S, jobs, view
from models.outcome_worlds import history as ended_runs

from slurmsched.cluster.actions import MoveNodes, NodeChange, Refusal
from slurmsched.daemon.profiling_controller import ProfilingController
from slurmsched.models.registry import ArtifactRegistry

STEP_S, DAY = 600.0, 144


@pytest.fixture
def flow(tmp_path):
    """The flow of a daemon whose history is two quiet days, in which each job ran twice."""
    made = ProfilingController(ArtifactRegistry(tmp_path))
    submitted_s, runs = np.repeat(NOW_S - STEP_S * np.arange(2 * DAY, 0, -1), 2), 4 * DAY
    made.learn(ended_runs([5.0] * runs, restart=np.arange(runs) % 2, first_submit_s=submitted_s))
    return made


def test_each_job_of_the_history_counts_once_and_those_of_a_cycle_are_added(flow):
    assert flow.outlooks(NOW_S)["jobs"].now == 1.0
    waiting = view(jobs(60, first_submit_s=np.full(60, NOW_S - 30)))
    flow.after(report(view=replace(waiting, now_s=NOW_S), ended=ended()))
    assert flow.outlooks(NOW_S + STEP_S)["jobs"].now == pytest.approx((6 + 60) / 6, abs=0.2)


def test_a_move_of_nodes_that_a_rule_prevents_is_logged_once_until_the_reason_changes(flow, caplog):
    move = MoveNodes((NodeChange("gpu", "n1", "n1", "n1"),))
    nothing = report(view=view(jobs(0)), ended=ended())
    for detail in ("gpu and profile have nodes in common", "gpu and profile have nodes in common", "another"):
        flow.after(
            replace(nothing, plan=replace(nothing.plan, refusals=(Refusal(move, "partitions_are_apart", detail),)))
        )
    assert [record.getMessage() for record in caplog.records] == [
        "no nodes were lent: gpu and profile have nodes in common",
        "no nodes were lent: another",
    ]


def test_a_model_that_cannot_be_read_leaves_the_rolling_median(flow, tmp_path, caplog):
    (tmp_path / "throughput.json").write_text("nonsense")
    assert flow.outlooks(NOW_S)["jobs"].ahead == 1.0
    assert "arrivals are forecast by their rolling median" in caplog.text
