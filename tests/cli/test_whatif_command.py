"""``slurmsched what-if``: against a Slurm in memory and a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run

from slurmsched.clock import SystemClock
from slurmsched.cluster.state import ClusterState
from slurmsched.db.store import Store
from slurmsched.foresee import whatif
from slurmsched.lab import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.port import Slurm

SETTINGS = "mode = '{}'\n[power]\norder = true\n[policy]\nordering = '{}'\n[order]\nscope = 'queue'\n"


def site_of(directory: Path, slurm: Slurm, mode: str = "observe", ordering: str = "sjf") -> FakeSite:
    live = isinstance(slurm, SlurmCommand)
    return FakeSite(directory, SETTINGS.format(mode, ordering), slurm, clock=SystemClock() if live else None)


def busy() -> FakeSlurm:
    """Sixteen GPUs that are taken for some while; three jobs wait, long ones first."""
    slurm = FakeSlurm(nodes=1, gpus_per_node=16, now_s=NOW_S - 1.0)
    slurm.submit(3600.0, gpus=16, name="blocker")
    slurm.advance(1.0)
    for base, limit_s, user in ((300, 30000.0, "carol"), (200, 20000.0, "bob"), (100, 1200.0, "alice")):
        slurm.submit(limit_s / 2, gpus=16, time_limit_s=limit_s, user=user, base=base, name="\x1b[31mevil")
    return slurm


@pytest.fixture
def few_draws(monkeypatch):
    """As few draws as of a long queue."""
    monkeypatch.setattr(whatif, "MOST_DRAWS", whatif.FEWEST_DRAWS)


@pytest.fixture
def site(tmp_path, few_draws):
    return site_of(tmp_path, busy())


@pytest.fixture
def unordered(tmp_path, few_draws):
    """The same without an ordering of ours: the answer has only how things are."""
    return site_of(tmp_path, busy(), ordering="fifo")


def test_a_policy_stands_beside_how_things_are_now(site):
    now, sjf, ideal = json_of(site, "what-if", "--policy", "sjf")["rows"]
    assert (now["name"], sjf["name"], ideal["name"]) == ("as now", "sjf", "sjf, ideal")
    assert (now["gain"], sjf["gain"]["ratio"] > 1, ideal["gain"]["ratio"] > 1) == (None, True, True)
    assert now["starts"] == sjf["starts"] == 3
    assert sjf["mean_wait_s"] < now["mean_wait_s"]
    assert (sjf["sooner"], sjf["later"]) == (2, 1)
    assert [one["user"] for one in sjf["worst_off"]] == ["carol"]


def test_people_are_told_what_is_assumed_and_who_loses(tmp_path):
    site = site_of(tmp_path, busy())
    result = run(site, "what-if", "--policy", "sjf")
    assert result.exit_code == 0, result.output
    assert "3 jobs waiting, 1 running, as of " in result.output
    assert "as now: Slurm's own order" in result.output
    assert "runtimes are drawn 20 times from the forecasts, which is what policies know" in result.output
    assert "our order: scope queue" in result.output
    assert "ideal: exact runtimes, no fair share, no cap on points: no site reaches it" in result.output
    assert "the database is away: forecasts are time limits" in result.output
    assert "worst off under sjf, mean wait: carol +" in result.output
    assert "\x1b" not in result.output


def test_what_is_assumed_of_fair_share_comes_first(unordered):
    unordered.slurm.config.update({"PriorityWeightFairShare": "1000", "PriorityFlags": "INCR_ONLY"})
    lines = run(unordered, "what-if").stdout.splitlines()
    assert lines[0].startswith("assumed: no run before this span is known: fair share begins with nobody")
    assert lines[1] == "assumed: Fair Tree over the accounts of the jobs, with equal shares, of GPU-hours"
    assert lines[2] == "not modelled of Slurm's priority: INCR_ONLY"


def test_while_we_act_as_now_is_our_own_policy(tmp_path, few_draws):
    site = site_of(tmp_path, busy(), mode="act")
    now, sjf, _ideal = json_of(site, "what-if", "--policy", "sjf")["rows"]
    assert sjf["gain"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    assert now | {"name": "", "gain": None} == sjf | {"name": "", "gain": None}
    assert "as now: sjf, in act mode" in run(site, "what-if").output


def test_more_nodes_go_with_how_things_are_and_with_each_policy(unordered):
    answer = json_of(unordered, "what-if", "--add-nodes", "2", "--policy", "sjf")
    names = ["as now", "as now + 2 nodes", "sjf", "sjf + 2 nodes", "sjf, ideal"]
    assert [row["name"] for row in answer["rows"]] == names
    assert answer["more_nodes"] == {"count": 2, "gpus": 16, "partitions": "gpu"}
    waits = {row["name"]: row["mean_wait_s"] for row in answer["rows"]}
    assert waits["as now + 2 nodes"] < waits["as now"]
    assert "with as now and with each policy" in run(unordered, "what-if", "--add-nodes", "1").output


def test_history_stands_behind_forecasts(unordered, tmp_path):
    unordered.make_tables()
    assert json_of(unordered, "what-if")["guessed"] == 3
    assert "3 jobs of these have no history" in run(unordered, "what-if").output
    before = FakeSlurm(nodes=1, gpus_per_node=16, now_s=NOW_S - 9000.0)
    before.submit(600.0, gpus=16, user="bob", name="\x1b[31mevil")
    before.advance(8000.0)
    store = Store(f"sqlite:///{tmp_path}/slurmsched.db")
    store.add_outcomes("fake", before.outcomes(0.0, NOW_S))
    store.close()
    answer = json_of(unordered, "what-if")
    assert answer["database"] is True
    assert answer["guessed"] == 0
    assert answer["rows"][0]["last_end_s"] < 20000


def test_nothing_is_written_anywhere(site, tmp_path):
    site.make_tables()
    store = Store(f"sqlite:///{tmp_path}/slurmsched.db")
    before = store.jobs("fake"), store.decision_numbers()
    run(site, "what-if", "--policy", "sjf", "--add-nodes", "1")
    assert site.slurm.written == []
    assert (store.jobs("fake"), store.decision_numbers()) == before == ([], [])
    store.close()


def test_where_nobody_waits_it_says_so(tmp_path):
    site = site_of(tmp_path, FakeSlurm(now_s=NOW_S))
    result = run(site, "what-if", "--policy", "sjf", "--add-nodes", "1")
    assert (result.exit_code, "no job waits" in result.output) == (0, True)
    assert json_of(site, "what-if")["queued"] == 0


def test_nodes_that_slurm_does_not_show_are_said_first(unordered):
    unordered.slurm.unshown = {"gpu": "c[1-2]"}
    unordered.slurm.submit(60.0, gpus=99)
    told = "Slurm does not show c[1-2] of gpu: they count for nothing here, though jobs may run on them."
    assert json_of(unordered, "what-if")["assumed"][0].startswith(told)
    text = run(unordered, "what-if").output
    assert next(line for line in text.splitlines() if "WARNING" not in line).startswith(told)
    assert "left out, which nodes may run that Slurm does not show: 1 job: 5 (" in text


def test_who_is_left_out_is_counted_and_named(unordered):
    unordered.slurm.submit(60.0, held=True, gpus=1)
    unordered.slurm.submit(60.0, gpus=99)
    answer = json_of(unordered, "what-if")
    assert [(one["job_id"], one["kind"]) for one in answer["left_out"]] == [(5, "held"), (6, "unfit")]
    text = run(unordered, "what-if").output
    assert "left out, held by a user or an admin: 1 job: 5 (JobHeldUser)" in text
    assert "left out, requesting resources that the nodes do not have: 1 job: 6 (" in text


def test_slurm_being_away_is_one_line(site):
    site.slurm.away = True
    result = run(site, "what-if")
    assert result.exit_code == 1
    assert result.stderr.startswith("slurmsched: ")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--policy", "magic"), 2, "qssf"),
        (("--like", "n1"), 2, "--like goes with --add-nodes"),
        (("--add-nodes", "0"), 2, "--add-nodes"),
        (("--add-nodes", "1", "--like", "n77"), 1, "no node 'n77'"),
    ],
)
def test_what_makes_no_sense_is_told(site, words, status, text):
    result = run(site, "what-if", *words)
    assert result.exit_code == status
    assert text in result.stderr


class WithoutPast(SlurmCommand):
    """Slurm as it is, but for the jobs of other tests that it still remembers: forecasts would learn from them."""

    def observe(self) -> ClusterState:
        state = super().observe()
        return replace(state, ended=state.ended.take(slice(0, 0)))


@pytest.mark.lab
def test_on_a_real_slurm_a_burst_is_told_to_wait_less_and_nothing_changes(lab, tmp_path, few_draws):
    operator = tuple(lab.command([], user="operator"))
    cluster = WithoutPast(CommandRunner(environment=lab.env(), prefix=operator))
    for _ in range(4):
        lab.submit("--gres=gpu:4", "--time=10", "--output=/dev/null", "--wrap=sleep 600", user="alice")
    wait_until(lambda: len(cluster.observe().running) == 4, 120.0, "four jobs to run")
    for minutes in (300, 240, 180, 120, 20, 20, 10, 10):
        time = f"--time={minutes}"
        lab.submit("--gres=gpu:4", "--nodes=2", "--ntasks=2", time, "--output=/dev/null", "--wrap=sleep 60", user="bob")
    lab.submit("--gres=gpu:1", "--hold", "--output=/dev/null", "--wrap=sleep 60", user="bob")
    wait_until(lambda: len(cluster.observe().pending) == 9, 120.0, "nine to wait")

    def shown() -> list[list[str]]:
        state = cluster.observe()
        jobs = state.pending.joined(state.running)
        jobs = jobs.take(np.argsort(jobs.job_id))
        # not the priority, which grows with age
        columns = ("job_id", "state", "site_points", "nice", "eligible_s", "partition", "required_nodes", "comment")
        return [list(map(str, getattr(jobs, name))) for name in columns]

    site = site_of(tmp_path, cluster)
    before = shown()
    answer = json_of(site, "what-if", "--policy", "sjf", "--add-nodes", "2")
    assert shown() == before
    waits = {row["name"]: row["mean_wait_s"] for row in answer["rows"]}
    assert waits["sjf"] < 0.8 * waits["as now"]
    assert waits["as now + 2 nodes"] < waits["as now"]
    assert [one["kind"] for one in answer["left_out"]] == ["held"]
    assert answer["counted"] == 8
