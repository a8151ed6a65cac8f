"""A daemon whose policy chooses its composition: advice, a switch, its record, its replay, and its end."""

from __future__ import annotations

import json
import os
import pickle

import pytest
from cli.fake_site import ORDERS, FakeSite, json_of, run

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.daemon.synthesis_service import CompositionPlayer, SynthesisFailed
from slurmsched.db.records.policy_choices import PolicyChoice
from slurmsched.decide.policy import Policy
from slurmsched.decide.synthesis import PlayRequest, Scores
from slurmsched.errors import ConfigError
from slurmsched.foresee.synthesis_worker import answer

AUTO = "auto orderings=fifo,sjf loads=all,1.4 rounds=1 dwell=0 arrivals=0"


class Site(FakeSite):
    """A full cluster, before which the longest job waits first."""

    def __init__(self, directory, acts: str = "act", power: str = "") -> None:
        policy = ORDERS.replace("'sjf'", f"'{AUTO}'\nauto = '{acts}'")
        super().__init__(directory, policy.replace("order = true", f"order = true\n{power}"))
        self.slurm.submit(500.0, gpus=16, time_limit_s=500.0)
        self.slurm.advance(1.0)
        for limit_s in (30000.0, 2000.0, 1000.0):
            self.slurm.submit(limit_s, gpus=16, time_limit_s=limit_s)
            self.slurm.advance(1.0)
        self.clock.now_s = self.slurm.now_s
        self.make_tables()


@pytest.fixture
def make(tmp_path):
    """Make sites and their daemons; all are closed in the end."""
    made = []

    def new(*details: str) -> tuple[Site, Daemon]:
        made.append(Site(tmp_path, *details))
        made.append(build(made[-1]))
        return tuple(made[-2:])

    yield new
    for one in reversed(made):
        one.close()


@pytest.fixture
def played_here(monkeypatch):
    """Compositions are played in this process, which has read the code, and not in one of each daemon's own."""

    def play(player: CompositionPlayer, request: PlayRequest) -> Scores:
        error, scores = answer(pickle.loads(pickle.dumps(request)))
        assert scores is not None, error
        return scores

    monkeypatch.setattr(CompositionPlayer, "play", play)


def cycle(site: Site, daemon: Daemon) -> Policy:
    """One cycle and the forecast after it; return the policy of the cycle, from its record."""
    site.clock.now_s += 15.0
    turn = daemon.service.once()
    assert turn.ok, turn.error
    daemon.parts.synthesis.once()
    return Policy.from_json(site.store().latest_decision().settings_json)


def names(site: Site, daemon: Daemon, cycles: int = 3) -> list[str]:
    return [cycle(site, daemon).ordering.name for _ in range(cycles)]


def choices(site: Site) -> list[tuple[str, str, str]]:
    """Who chose which composition, and what was advised instead; the latest first."""
    found = [(one.by, json.loads(one.synthesis)) for one in site.store().choices("fake")]
    return [(by, state["composition"], state["advised"]) for by, state in found]


def test_it_switches_once_and_the_switch_is_shown_replayed_and_told(make):
    site, daemon = make()
    assert names(site, daemon) == ["fifo", "sjf", "sjf"]
    assert choices(site) == [("auto", "sjf", "")]
    facts = json_of(site, "policy", "show", "--all")
    step = facts["choices"][0]["synthesis"]["step"]
    assert (step["before"][0], step["after"][0], step["switched"], step["acts"]) == ("fifo", "sjf", True, True)
    assert {row[0] for row in step["scores"]} == {"fifo", "sjf"}
    assert min(step["scores"], key=lambda row: row[2])[0] == "sjf"
    assert list(facts["auto"]["left_out"].values()) == ["it needs power.hold = true"] * 2
    text = run(site, "policy", "show", "--all").output
    assert "now sjf" in text
    assert "switches by itself" in text
    assert text.count("in force") == 2, "in the last decision, and in that of the switch"

    replayed = json_of(site, "replay", "2")
    assert (replayed["identical"], replayed["auto"]) == (True, step)
    assert f"auto: {step['reason']}" in run(site, "replay", "2").output
    stored = json.loads(site.store().decision(2).settings_json)
    stored["synthesis"]["scores"][0][2] = 1.0
    again = Policy.from_json(json.dumps(stored)).synthesis
    assert again.again() != again, "a replay shows a decision that would be another one now"
    job = min(site.slurm.observe().pending.job_id.tolist())
    assert "auto set the policy to sjf: sjf would take" in run(site, "story", str(job)).output
    status = daemon.service.questions.answer({"ask": "status"}, os.geteuid())
    assert json.dumps(status["policy"]["auto"], allow_nan=False)
    why = daemon.service.questions.answer({"ask": "why", "job_id": job}, os.geteuid())["why"]
    assert f"The order of jobs is sjf, by auto: {step['reason']}." in why["details"]


def test_by_default_it_only_advises_and_says_so_once(make, played_here):
    site, daemon = make("advise")
    assert names(site, daemon, 4) == ["fifo"] * 4
    assert choices(site) == [("auto", "fifo", "sjf")]
    assert "advised: sjf" in run(site, "policy", "show").output
    assert Policy.from_json(site.store().latest_decision().settings_json).synthesis.advised == "sjf"
    job = min(site.slurm.observe().pending.job_id.tolist())
    assert "auto advised sjf in place of fifo" in run(site, "story", str(job)).output


def test_an_admin_freezes_it_and_lets_it_go_on(make, played_here):
    site, daemon = make()
    assert run(site, "policy", "freeze", "--reason", "a deadline").exit_code == 0
    assert names(site, daemon, 2) == ["fifo"] * 2
    assert json_of(site, "policy", "show")["auto"]["frozen"]
    assert "a deadline" in run(site, "policy", "show", "--all").output
    assert json_of(site, "policy", "freeze", "--undo")["frozen"] is False
    assert names(site, daemon, 2)[-1] == "sjf"
    assert run(site, "policy", "freeze").exit_code == 0
    assert names(site, daemon, 2) == ["sjf"] * 2
    run(site, "policy", "set", "qssf")
    assert names(site, daemon, 2) == ["qssf"] * 2
    assert "chooses no composition" in run(site, "policy", "freeze").stderr
    run(site, "policy", "set", *AUTO.split())
    assert names(site, daemon) == ["fifo", "sjf", "sjf"]


def test_a_choice_made_meanwhile_is_not_overwritten_by_a_switch(make, played_here):
    site, daemon = make()
    assert daemon.service.once().ok
    latest = PolicyChoice("qssf", "ann", site.clock.now_s)
    site.store().choose("fake", latest)
    assert not site.store().choose_next("fake", PolicyChoice("", "auto", site.clock.now_s + 1.0), None)
    assert site.store().choices("fake") == [latest]


def test_a_new_daemon_goes_on_in_the_composition_in_force(make, tmp_path, played_here):
    site, daemon = make()
    names(site, daemon, 2)
    daemon.close()
    other = build(site)
    try:
        site.clock.now_s += 15.0
        assert other.service.once().ok
        assert Policy.from_json(site.store().latest_decision().settings_json).ordering.name == "sjf"
    finally:
        other.close()


def test_without_the_database_nothing_is_switched(make, played_here):
    site, daemon = make()
    cycle(site, daemon)
    path = site.directory / "slurmsched.db"
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    site.clock.now_s += 15.0
    assert daemon.service.once().ok
    assert daemon.policy.ordering.name == "fifo"
    assert daemon.policy.synthesis.decision.switched
    assert not daemon.policy.synthesis.acts


def test_a_process_that_dies_costs_one_forecast_and_the_composition_stays():
    player = CompositionPlayer("tests.policies.dying_solver", timeout_s=30.0)
    with pytest.raises(SynthesisFailed, match="the process that makes a forecast of compositions has died"):
        player.play(PlayRequest(AUTO, None, "{}", (), {}, None))
    player.close()


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (f"ordering = '{AUTO}'\nadmission = 'load:1.2'", "auto chooses the admission itself"),
        (f"ordering = '{AUTO}'\npreemption = 'lease 20m'", "leases are not played forward"),
        ("ordering = 'auto orderings=themis'", "its order changes with time alone"),
        ("ordering = 'auto beats=3'", "accepted are orderings="),
    ],
)
def test_settings_that_go_with_no_choice_are_refused(tmp_path, policy, problem):
    powers = "order = true\nhold = true\nrequeue = true"
    site = FakeSite(tmp_path, ORDERS.replace("ordering = 'sjf'", policy).replace("order = true", powers))
    with pytest.raises(ConfigError, match=problem):
        build(site)
    site.close()
