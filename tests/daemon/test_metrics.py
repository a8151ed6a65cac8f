from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from daemon_worlds import ended, plan, report, view
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from slurmsched import __version__
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.daemon.loop import BeatResult
from slurmsched.daemon.metrics import PARTS_MOST, Metrics
from slurmsched.models.runtime.guarded import Drift
from slurmsched.simulator.cluster_spec import ClusterSpec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def metrics():
    return Metrics(lambda: "sjf", lambda: 400.0)


def families(metrics):
    return list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_a_cycle_is_counted_with_its_phases(metrics):
    metrics.turn(BeatResult(1000.0, 0.3, report(phases_s={"observe": 0.2, "decide": 0.01})))
    assert value(metrics, "slurmsched_cycles_total", result="ok") == 1
    assert value(metrics, "slurmsched_cycle_duration_seconds_sum") == 0.3
    assert value(metrics, "slurmsched_cycle_phase_duration_seconds_sum", phase="observe") == 0.2
    assert value(metrics, "slurmsched_last_cycle_timestamp_seconds") == 1000.0
    assert value(metrics, "slurmsched_model_age_seconds") == 600.0


def test_a_trained_model_is_shown_beside_the_baseline_while_there_is_one():
    found: list[Drift | None] = [None, Drift(300, 0.5, 0.4, 0.8, 0.9, True), None]
    told = iter(found)
    metrics = Metrics(lambda: "sjf", lambda: 400.0, lambda: next(told))
    shown = []
    for _ in found:
        metrics.turn(BeatResult(1000.0, 0.3, report()))
        loss = [value(metrics, "slurmsched_model_pinball_loss", model=model) for model in ("trained", "baseline")]
        shown.append((*loss, value(metrics, "slurmsched_model_drifted")))
    assert shown == [(None, None, 0), (0.5, 0.4, 1), (None, None, 0)]


def test_users_whose_forecasts_are_raised_are_counted_and_not_named():
    metrics = Metrics(lambda: "sjf", lambda: 400.0, raised=lambda: 2)
    metrics.turn(BeatResult(1000.0, 0.3, report()))
    assert value(metrics, "slurmsched_forecast_raised_users") == 2


def test_a_lost_cycle_and_a_bug_are_told_apart_and_move_no_timestamp(metrics):
    metrics.turn(BeatResult(1000.0, 0.3, report()))
    metrics.turn(BeatResult(1015.0, 10.0, error="squeue did not answer"))
    metrics.turn(BeatResult(1030.0, 0.1, error="KeyError: 'x'", bug=True))
    assert [value(metrics, "slurmsched_cycles_total", result=result) for result in ("ok", "failed", "bug")] == [1, 1, 1]
    assert value(metrics, "slurmsched_last_cycle_timestamp_seconds") == 1000.0


def test_what_was_seen_and_done_is_told(metrics):
    promises = promise_table(3, state=[PromiseState.LOST, PromiseState.OPEN, PromiseState.LOST])
    seen = report(
        pending=9,
        running=4,
        ranked=7,
        starving=2,
        refused=1,
        deferred=30,
        actions={"Rank": 5},
        plan=replace(plan(2), promises=promises),
    )
    for _ in range(2):
        metrics.turn(BeatResult(1000.0, 0.3, seen))
    gauges = ("pending_jobs", "running_jobs", "ranked_jobs", "starving_jobs", "writes_deferred")
    assert [value(metrics, f"slurmsched_{name}") for name in gauges] == [9, 4, 7, 2, 30]
    assert value(metrics, "slurmsched_decisions_total", policy="sjf", action="Rank") == 10
    assert value(metrics, "slurmsched_actions_refused_total") == 2
    promised = [value(metrics, "slurmsched_promises", state=state) for state in ("lost", "open", "met")]
    assert promised == [2, 1, 0]


def test_a_fallback_is_told_until_it_ends(metrics):
    metrics.turn(BeatResult(1000.0, 0.3, report(fallbacks=("database",))))
    assert value(metrics, "slurmsched_fallback_active", part="database") == 1
    metrics.turn(BeatResult(1015.0, 0.3, report()))
    assert value(metrics, "slurmsched_fallback_active", part="database") == 0


def test_labels_of_fallbacks_do_not_grow_without_bound(metrics):
    for number in range(PARTS_MOST + 10):
        metrics.turn(BeatResult(1000.0, 0.3, report(fallbacks=(f"part {number}",))))
    fallback = next(family for family in families(metrics) if family.name == "slurmsched_fallback_active")
    assert len(fallback.samples) == PARTS_MOST + 1
    assert value(metrics, "slurmsched_fallback_active", part="other") == 1
    metrics.turn(BeatResult(1000.0, 0.3, report()))
    assert value(metrics, "slurmsched_fallback_active", part="other") == 0


def test_the_stance_is_told(metrics):
    metrics.state(mode="act", paused=False, leader=True, database=True, bug=False)
    metrics.state(mode="observe", paused=True, leader=False, database=False, bug=True)
    assert [value(metrics, "slurmsched_mode", mode=mode) for mode in ("observe", "advise", "act")] == [1, 0, 0]
    names = ("paused", "leader", "database_available")
    assert [value(metrics, f"slurmsched_{name}") for name in names] == [1, 0, 0]
    assert value(metrics, "slurmsched_fallback_active", part="bug") == 1


def test_calls_to_slurm_are_counted(metrics):
    metrics.slurm_call("squeue", "ok", 0.2)
    assert value(metrics, "slurmsched_slurm_calls_total", command="squeue", result="ok") == 1
    assert value(metrics, "slurmsched_slurm_call_duration_seconds_count", command="squeue") == 1


def test_forecasts_are_judged_when_runs_end(metrics):
    metrics.turn(BeatResult(1000.0, 0.3, report(view=view(running={5: "carol", 6: "dave"}, runtime_s=100.0))))
    assert math.isnan(value(metrics, "slurmsched_forecast_interval_coverage_ratio"))
    metrics.turn(BeatResult(1015.0, 0.3, report(ended=ended(j5=100.0, j6=1000.0))))
    assert value(metrics, "slurmsched_forecast_error_ratio_sum") == pytest.approx(0.9)
    assert value(metrics, "slurmsched_forecast_interval_coverage_ratio") == 0.5


def test_gpus_are_counted_by_state_and_jobs_that_share_them(metrics):
    nodes = ClusterSpec.of(3, 4).nodes
    nodes = replace(nodes, gpus_used=np.array([2, 4, 1]), usable=np.array([True, True, False]))
    running = job_table(3, job_id=[1, 2, 3], beside=[0, 1, 0], guest_gpus=[2, 0, 0])
    metrics.turn(
        BeatResult(
            1000.0,
            0.3,
            report(view=replace(view(running=dict.fromkeys([1, 2, 3], "carol")), nodes=nodes, running=running)),
        )
    )
    assert [value(metrics, "slurmsched_gpus", state=state) for state in ("used", "free", "unusable")] == [7, 2, 3]
    assert [value(metrics, f"slurmsched_{name}") for name in ("guest_jobs", "shared_gpus")] == [1, 2]


def test_waits_count_once_for_jobs_that_start_while_the_daemon_runs(metrics):
    before = job_table(1, job_id=[1], started_s=[900.0], first_submit_s=[0.0])
    columns = {"started_s": [900.0, 1000.0, 1000.0], "first_submit_s": [0.0, 880.0, 0.0], "restarts": [0, 0, 1]}
    after = job_table(3, job_id=[1, 2, 3], **columns)
    for running in (before, after, after):
        metrics.turn(
            BeatResult(
                1000.0,
                0.3,
                report(view=replace(view(running=dict.fromkeys(running.job_id.tolist(), "carol")), running=running)),
            )
        )
    assert value(metrics, "slurmsched_wait_seconds_count") == 1
    assert value(metrics, "slurmsched_wait_seconds_sum") == 120.0


def test_errors_of_predictions_and_faults_of_pairs_are_counted(metrics):
    metrics.prediction_errors("finish", np.array([60.0, 600.0]))
    metrics.shared_fault()
    assert value(metrics, "slurmsched_prediction_error_seconds_sum", of="finish") == 660.0
    assert value(metrics, "slurmsched_shared_faults_total") == 1


def test_what_runs_is_told(metrics):
    build = next(family for family in families(metrics) if family.name == "slurmsched_build")
    assert build.samples[0].labels["version"] == __version__


def test_no_label_holds_what_a_user_wrote(metrics):
    metrics.turn(BeatResult(1000.0, 0.3, report(view=view(runtime_s=5.0), ended=ended(j5=1.0))))
    text = generate_latest(metrics.registry).decode()
    assert not re.search("alice|bob|carol|secret", text)
    labels = {label for family in families(metrics) for sample in family.samples for label in sample.labels}
    assert labels <= {
        "phase",
        "policy",
        "action",
        "command",
        "result",
        "mode",
        "part",
        "state",
        "le",
        "version",
        "python",
    }


def test_every_metric_has_its_heading_and_every_heading_its_metric(metrics):
    told = {family.name: family for family in families(metrics)}
    suffix = {"counter": "_total", "info": "_info"}
    names = {name + suffix.get(family.type, "") for name, family in told.items()}
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert set(sections) == names
    for name, family in told.items():
        section = sections[name + suffix.get(family.type, "")]
        assert f"*{family.type}*" in section
        assert family.documentation in section


def test_the_page_lists_every_phase_of_a_cycle():
    source = (Path(__file__).parents[2] / "slurmsched" / "cycle.py").read_text()
    phases = re.findall(r'watch\.enter\("(\w+)"\)', source)
    assert "send" in phases
    section = PAGE.read_text().partition("## slurmsched_cycle_phase_duration_seconds\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section)) - {"phase"} == set(phases)
