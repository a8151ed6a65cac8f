"""Figures that a user asks the daemon for, without a database or a models' directory to read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, run
from json_forms import answer_of

from slurmsched.cluster.records.prediction_records import KeptState, kept_table
from slurmsched.daemon.active_policy import ActivePolicy
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.db.records.policy_choices import PolicyChoice


def site_of(run_dir, state_dir):
    """A cluster whose daemon serves in *run_dir* and keeps its records in *state_dir*."""
    state_dir.mkdir()
    return FakeSite(state_dir, "", run_dir=run_dir)


@pytest.fixture
def admins(tmp_path):
    """The admin's side, with runs, predictions and choices."""
    site = site_of(tmp_path, tmp_path / "state")
    site.make_tables()
    for user in ("alice", "alice", "bob"):
        site.slurm.submit(600.0, user=user, gpus=4)
    site.slurm.advance(20_000.0)
    site.clock.now_s = site.slurm.now_s
    assert run(site, "history", "import", "--days", "1").exit_code == 0
    site.store().choose("fake", PolicyChoice("sjf", "carol", NOW_S, "her reason"))
    ended_s = site.clock.now_s - np.array([3600.0, 7200.0])
    times = dict.fromkeys(("made_s", "start_s", "start_from_s", "start_by_s", "started_s"), ended_s - 1000.0)
    ends = dict.fromkeys(("finish_s", "finish_from_s", "finish_by_s", "ended_s"), ended_s)
    settled = np.full(2, int(KeptState.SETTLED))
    predictions = kept_table(2, job_id=[1, 2], gpus=[4, 4], partition=["gpu"] * 2, state=settled, **times, **ends)
    site.store().save_predictions("fake", predictions)
    yield site
    site.close()


@pytest.fixture
def users(tmp_path, admins):
    """The same cluster for somebody who can read nothing of that, beside a daemon that answers."""
    figures = admins.figures()
    nothing = [lambda *_: None for _ in range(4)]
    chosen = ActivePolicy(policy_of, admins.settings(), dict)
    chosen.apply(admins.store().choices("fake", 1)[0])
    sources = Sources(lambda: {"mode": "act", "policy": chosen.status()}, *nothing, figures=figures.answer)
    answers = QueryServer(tmp_path, QueryHandlers(sources, trusted=(0,)))
    answers.start()
    site = site_of(tmp_path, tmp_path / "elsewhere")
    site.clock.now_s = admins.clock.now_s
    yield site
    site.close()
    answers.close()


COMMANDS = [("accuracy",), ("accuracy", "--days", "1"), ("history", "stats"), ("models", "list")]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_user_hears_from_the_daemon_what_an_admin_reads(words, admins, users, tmp_path):
    told = run(users, *words, "--json")
    assert told.exit_code == 0, told.stderr
    theirs = json.loads(told.stdout)
    assert theirs.pop("source") == "daemon"
    (tmp_path / "slurmsched.sock").unlink()
    own = answer_of(words, run(admins, *words, "--json").stdout)
    assert own.pop("source") == "record"
    assert {name: theirs[name] for name in own} == own
    assert "alice" not in told.stdout
    (tmp_path / "slurmsched.sock").touch()


def test_a_user_sees_which_orderings_were_chosen(users):
    shown = answer_of(["policy", "show"], run(users, "policy", "show", "--all", "--json").stdout)
    assert (shown["source"], shown["ordering"]) == ("daemon", "sjf")
    assert [choice["line"] for choice in shown["choices"]] == ["sjf"]
    assert "sjf (set" in run(users, "policy", "show").output


@pytest.mark.parametrize("words", COMMANDS[:3])
def test_without_a_daemon_who_cannot_read_the_records_is_told_so(words, users, tmp_path):
    (tmp_path / "slurmsched.sock").unlink()
    result = run(users, *words)
    assert result.exit_code == 1
    assert "is the slurmsched service running" in result.stderr
    (tmp_path / "slurmsched.sock").touch()


def test_of_one_user_only_their_own_runs_are_counted(admins):
    figures = admins.figures()
    everybody, alice = figures.answer("history"), figures.answer("history", only="alice")
    assert (everybody["runs"], everybody["users"], alice["runs"], alice["users"]) == (3, 2, 2, 1)
    whole = figures.answer("accuracy", 30.0, "alice")
    assert [(row.partition, row.size) for row in whole["rows"]] == [("", "")]


def test_figures_are_read_once_a_minute_however_many_ask(admins):
    figures = admins.figures()
    first = figures.answer("history")
    assert figures.answer("history") is first
    admins.clock.now_s += 61.0
    assert figures.answer("history") is not first
