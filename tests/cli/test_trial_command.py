"""``slurmsched trial``, and the daemon that follows it."""

from __future__ import annotations

import getpass
import json

import pytest
from cli.fake_site import FakeSite, json_of, run

from slurmsched.cli.daemon.build import build
from slurmsched.cluster.records.scope import Scope
from slurmsched.report.page import page
from slurmsched.report.summary import summary


@pytest.fixture
def site(tmp_path):
    """Three jobs wait for a full cluster; the settings say sjf."""
    site = FakeSite(tmp_path)
    site.make_tables()
    site.slurm.submit(50_000.0, gpus=16)
    site.slurm.advance(1.0)
    for limit_s in (3000.0, 2000.0, 1000.0):
        site.slurm.submit(limit_s / 2, gpus=8, time_limit_s=limit_s)
    site.clock.now_s = site.slurm.now_s
    yield site
    site.close()


@pytest.fixture
def daemon(site):
    daemon = build(site)
    yield daemon
    daemon.close()


def points(site, daemon):
    """Our points in Slurm after some cycles."""
    for _ in range(3):
        site.clock.now_s += 15.0
        site.slurm.advance(15.0)
        turn = daemon.service.once()
        assert turn.ok, turn.error
    return site.slurm.observe().pending.site_points.tolist()


def blocks(site):
    (trial,) = site.store().trials(site.cluster_name(), 1)
    return trial


def test_points_come_and_go_with_the_blocks_of_a_trial_and_stay_after_it(site, daemon):
    assert any(points(site, daemon))
    started = run(site, "trial", "start", "--days", "2", "--seed", "7")
    assert started.exit_code == 0, started.output
    assert "a trial of 12 blocks of 4h00m00s began" in started.output
    trial = blocks(site)
    assert (trial.seed, trial.by, trial.harm_s) == (7, getpass.getuser(), 1800.0)
    for number in range(4):
        block = trial.numbered(number)
        site.clock.now_s = max(block.from_s + 60.0, site.clock.now_s)
        assert any(points(site, daemon)) is block.acts
        rules = json.loads(site.store().latest_decision().settings_json)
        assert (rules["ordering"] == "sjf") is block.acts
    again = build(site)
    off = next(trial.numbered(number) for number in range(4, 8) if not trial.numbered(number).acts)
    site.clock.now_s = off.from_s + 60.0
    assert not any(points(site, again)), "another daemon finds the same block"
    again.close()
    assert run(site, "trial", "stop").output.startswith("the trial has ended")
    assert any(points(site, daemon))
    stopped = json_of(site, "trial", "status")["trials"][0]
    assert (stopped["ending"], stopped["detail"]) == ("stopped", f"by {getpass.getuser()}")


def test_one_trial_runs_at_a_time_and_without_one_there_is_nothing_to_stop(site):
    nothing = run(site, "trial", "stop")
    assert (nothing.exit_code, "no trial runs" in nothing.output) == (3, True)
    assert run(site, "trial", "status").output == "there was no trial yet\n"
    assert run(site, "trial", "start", "--holdout", "5").exit_code == 0
    second = run(site, "trial", "start")
    assert (second.exit_code, "a trial runs already" in second.output) == (3, True)
    assert "5 % of jobs are held out" in run(site, "trial", "status").output


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ("mode = 'observe'\n", (), 'needs daemon.mode = "act"'),
        ("mode = 'act'\n", ("--days", "0.5"), "three pairs of blocks of 4h00m00s need 1 days"),
        ("mode = 'act'\n", ("--holdout", "11"), "11.0 is not in the range"),
        ("mode = 'act'\n[trial]\nwashout_s = 9000\n", (), "at most half of trial.block_s"),
    ],
)
def test_a_trial_that_could_show_nothing_is_refused(site, settings, words, said):
    site.write(settings)
    site.reload()
    refused = run(site, "trial", "start", *words)
    assert (refused.exit_code in (1, 2), said in refused.output) == (True, True), refused.output


def test_the_report_has_the_trials_of_its_span(site):
    assert run(site, "trial", "start", "--days", "2", "--seed", "7").exit_code == 0
    rows = site.store().report_rows(site.cluster_name(), 0.0, 2e9, Scope())
    answer = summary(rows, Scope(), cluster_name="c", since_s=0.0, until_s=site.clock.now_s + 60)
    assert answer["trials"][0]["seed"] == 7
    assert "Trial of the policy from" in page({**answer, "schema": "", "ask": "report"})
