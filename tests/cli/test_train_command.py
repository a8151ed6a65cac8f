"""``slurmsched train`` and ``slurmsched models`` on a site with history in its database, and in the daemon."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.tracking.story import StoryEvent
from slurmsched.models.artifact import Artifact
from slurmsched.models.ebm.additive import Additive, AdditiveTerm
from slurmsched.models.ebm.bins import Continuous
from slurmsched.models.registry import ACTOR, RUNTIME
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.mixture import Mixture
from slurmsched.models.runtime.point_predictors import LIMIT, Ga2m, repeating
from slurmsched.policies.ordering.mlfs_rl import FEATURES
from slurmsched.research.actor.learning import static_actor

DAY_S = 86400.0


class Site(FakeSite):
    def say(self, text: str) -> None:
        with self.file.open("a") as file:
            file.write(text)


def runs(length: int = 420) -> OutcomeTable:
    """Runs of the last ten days whose time limits tell how long they take, and nothing else does."""
    random = np.random.default_rng(1)
    runtime_s = np.ceil(np.exp(random.normal(5, 2, length)))
    submit_s = np.sort(random.uniform(NOW_S - 11 * DAY_S, NOW_S - 2 * DAY_S, length))
    user = Labels.of([f"user{number % 7}" for number in range(length)])
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), submit_s)
    more = {"job_id": 1 + np.arange(length), "gpus": np.ones(length, np.int64), "ended_s": submit_s + runtime_s}
    told = {"runtime_s": runtime_s, "time_limit_s": runtime_s, "user": user}
    return table_of(OutcomeTable, length, {"state": JobState.COMPLETED}, times | more | told)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.make_tables()
    store = site.open_store()
    store.add_outcomes(site.cluster_name(), runs())
    store.close()
    return site


# Training


def test_a_dry_run_lets_nothing_serve_and_the_real_one_does(site: Site):
    pytest.importorskip("interpret")
    tried = json_of(site, "train", "--model", "runtime", "--dry-run")
    assert [(row["model"], row["decision"]) for row in tried["models"]] == [("runtime", "would be promoted")]
    assert not site.artifacts().path(RUNTIME).exists()
    result = run(site, "train", "--model", "runtime")
    assert result.exit_code == 0, result.output
    assert "promoted" in result.output
    assert "requested limit" in result.output
    serving, judged = site.artifacts().read(RUNTIME), tried["models"][0]["scores"]
    assert serving.scores == judged["requested limit"] | {"baseline_pinball": judged["baseline"]["pinball"]}
    assert serving.digest == tried["models"][0]["digest"]
    assert site.artifacts().directory == Path(site.settings().daemon.state_dir, "models")


def test_too_little_history_is_no_failure_and_is_said(site: Site):
    site.clock.now_s = NOW_S
    result = run(site, "train", "--model", "throughput")
    assert result.exit_code == 0
    assert "too early" in result.output
    assert "at least 28 are needed" in result.output
    assert [row["decision"] for row in json_of(site, "train", "--model", "throughput")["models"]] == ["too early"]


def test_a_database_without_runs_is_no_failure_either(tmp_path: Path):
    site = Site(tmp_path)
    site.make_tables()
    result = run(site, "train")
    assert result.exit_code == 0, result.output
    assert "history import" in result.output
    assert [row["decision"] for row in json_of(site, "train")["models"]] == ["too early"] * 2


def test_a_cluster_without_runs_that_was_named_is_status_3(site: Site):
    result = run(site, "train", "--cluster-name", "elsewhere")
    assert result.exit_code == 3
    assert "history import" in result.stderr


def test_two_trainings_at_once_are_refused(site: Site):
    with site.artifacts().training():
        result = run(site, "train", "--model", "throughput")
    assert result.exit_code == 1
    assert "another training holds" in result.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--model", "sharing", "--configs", __file__), "needs --configs FILE and --pairs FILE, or the database"),
        (("--model", "sharing", "--trace", "synthetic:9"), "needs --configs FILE and --pairs FILE, or the database"),
        (("--trace", "x.csv", "--from-db", "3d"), "exclude each other"),
        (("--configs", __file__), "go with --model sharing"),
    ],
)
def test_options_that_do_not_go_together_are_refused(site: Site, words, why):
    result = run(site, "train", *words)
    assert result.exit_code == 2
    assert why in result.stderr


# Showing


def kept(site: Site, limit_factor: float = 1.0, length: int = 420) -> None:
    """A model on the shelf that takes a factor of e for each unit above 5 in the logarithm of the limit."""
    site.artifacts().directory.mkdir(exist_ok=True)
    limit = Continuous("limit", np.array([5.0]), np.array([5.0]))
    term = AdditiveTerm(("limit",), limit_factor * np.array([0.0, -1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]))
    other = AdditiveTerm(("gpus",), np.array([0.0, 0.1, 0.2, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]))
    tables = Additive((limit, Continuous("gpus", np.array([1.5]), np.array([1.5]))), (term, other), 5.0)
    document = Estimator.fit(runs(length), how=repeating(LIMIT)).document()
    document = document | {"center": Ga2m(tables, Mixture({})).document()}
    site.artifacts().put(Artifact(RUNTIME, NOW_S - 10 * DAY_S, NOW_S, {"pinball": 0.3}, document))


def test_the_list_says_what_is_there_and_what_is_not(site: Site):
    kept(site)
    rows = {row["kind"]: row for row in json_of(site, "models", "list")["models"]}
    assert rows["runtime"]["data"] == "data from 2023-11-04 to 2023-11-14"
    assert "there is no model" in rows["throughput"]["unusable"]
    assert rows["sharing"]["digest"]


def test_a_model_is_shown_with_what_it_looks_at(site: Site):
    kept(site, length=1200)
    result = run(site, "models", "show", "runtime")
    assert "time limit" in result.output
    assert "held-out runs below the bounds" in result.output
    assert list(json_of(site, "models", "show", "runtime")["importances"]["log runtime"]) == ["time limit", "GPUs"]
    assert "memory-controller utilisation" in run(site, "models", "show", "sharing").output


def test_a_model_that_is_not_there_is_status_3(site: Site):
    result = run(site, "models", "show", "runtime")
    assert result.exit_code == 3
    assert "slurmsched train --model runtime" in result.stderr


def test_a_damaged_model_is_named_not_shown(site: Site):
    kept(site)
    path = site.artifacts().path(RUNTIME)
    path.write_text(path.read_text().replace('"pinball":0.3', '"pinball":0.1'))
    result = run(site, "models", "show", "runtime")
    assert result.exit_code == 1
    assert "was changed after it was written" in result.stderr


def test_the_page_is_written_and_a_place_that_is_none_is_named(site: Site, tmp_path: Path):
    kept(site)
    assert run(site, "models", "plot", "runtime", "--html", str(tmp_path / "m.html")).exit_code == 0
    assert (tmp_path / "m.html").read_text().startswith("<!DOCTYPE html>")
    result = run(site, "models", "plot", "runtime", "--html", str(tmp_path / "nowhere" / "m.html"))
    assert result.exit_code == 1
    assert "writing the page" in result.stderr


def test_two_files_are_compared(site: Site, tmp_path: Path):
    kept(site)
    (tmp_path / "old.json").write_bytes(site.artifacts().path(RUNTIME).read_bytes())
    kept(site, 2.0)
    files = (str(tmp_path / "old.json"), str(site.artifacts().path(RUNTIME)))
    told = json_of(site, "models", "compare", *files)
    assert [told[side]["importances"]["log runtime"]["time limit"] for side in ("first", "second")] == [1.0, 2.0]
    assert "log runtime: time limit" in run(site, "models", "compare", *files).output
    (tmp_path / "no.json").write_text("{}")
    assert "is not a model" in run(site, "models", "compare", str(tmp_path / "no.json"), files[1]).stderr


# Serving


def once(daemon: Daemon):
    turn = daemon.service.once()
    assert turn.ok, turn.error
    return turn.report


def asked(daemon: Daemon, **question) -> dict:
    return daemon.service.questions.answer(question, 0)


def test_the_daemon_serves_a_model_from_the_cycle_after_it_appears(site: Site):
    site.slurm.submit(5000.0, gpus=16)
    site.slurm.submit(100.0, gpus=16, time_limit_s=np.exp(6.0), user="user1")
    site.clock.now_s = site.slurm.now_s
    daemon = build(site)
    once(daemon)
    assert asked(daemon, ask="status")["model"] == "baseline: no model of runtimes was trained yet"
    kept(site)
    report = once(daemon)
    assert asked(daemon, ask="status")["model"] == "trained: additive"
    job = int(report.view.pending.job_id[-1])
    told = asked(daemon, ask="explain", job_id=job)["explain"]
    assert (
        told["sentences"][1]
        == "Forecast = 2 min (typical runtime) x 2.72 (time limit 6.72 min) x 1.22 (GPUs 16), before the time limit."
    )
    assert told["forecast_s"] <= np.exp(6.0)
    site.slurm.advance(60.0)
    site.clock.now_s = site.slurm.now_s
    report = once(daemon)
    told = asked(daemon, ask="explain", job_id=int(report.view.running.job_id[0]))["explain"]
    assert told["factors"]
    assert told["sentences"][1].endswith(", before the time limit and what it has run already.")
    site.say("[models]\nserve = 'baseline'\n")
    daemon.controller.reload()
    once(daemon)
    assert asked(daemon, ask="status")["model"] == "baseline: models.serve says so"
    assert asked(daemon, ask="explain", job_id=job)["explain"]["factors"] == []
    daemon.close()


def test_a_damaged_model_is_warned_of_once_and_the_cycles_go_on(site: Site, caplog):
    kept(site)
    site.artifacts().path(RUNTIME).write_text("{}")
    daemon = build(site)
    for _ in range(3):
        once(daemon)
    assert caplog.text.count("the baseline forecasts:") == 1
    assert "is not a model that slurmsched wrote" in asked(daemon, ask="status")["model"]
    daemon.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "actor"), "no cycle is recorded yet that has the nodes"),
        (("--model", "actor", "--model", "runtime", "--trace", "synthetic:50"), "by itself"),
        (("--model", "runtime", "--seed", "1"), "--seed goes with --model actor"),
        (("--model", "actor", "--trace", "synthetic:50"), "at least 8 are needed"),
    ],
)
def test_an_actor_is_trained_by_itself_on_a_trace_of_eight_weeks(site: Site, words: tuple[str, ...], message: str):
    found = run(site, "train", *words)
    assert found.exit_code != 0
    assert message in found.output


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_the_training_of_an_actor_names_the_extra(site: Site):
    found = run(site, "train", "--model", "actor", "--trace", "synthetic:4000:0.5")
    assert found.exit_code != 0
    assert "training an actor needs PyTorch" in found.output
    assert "pip install '.[rl]'" in found.output


@pytest.mark.soak
def test_a_promoted_actor_that_was_worse_in_the_last_week_is_withdrawn(tmp_path: Path):
    site, weeks, day = Site(tmp_path), 4, 110
    store, random = site.open_store(), np.random.default_rng(2)
    store.upgrade()
    begin_s = NOW_S - (weeks - np.repeat(np.arange(weeks), day)) * 7 * DAY_S
    submit_s = begin_s + np.sort(random.uniform(0, DAY_S / 2, (weeks, day))).reshape(-1)
    runtime_s = np.ceil(np.exp(random.normal(7, 1.5, len(submit_s))))
    times = {"first_submit_s": submit_s, "eligible_s": submit_s, "started_s": submit_s, "ended_s": submit_s + runtime_s}
    more = {"job_id": 1 + np.arange(len(submit_s)), "gpus": random.choice([4, 8, 16], len(submit_s))}
    told = {"runtime_s": runtime_s, "time_limit_s": runtime_s}
    columns = times | more | told
    store.add_outcomes(
        site.cluster_name(), table_of(OutcomeTable, len(submit_s), {"state": JobState.COMPLETED}, columns)
    )
    store.close()
    daemon = build(site)
    assert daemon.service.once().ok  # whose record has the nodes
    daemon.close()
    longest = static_actor(1.0)
    weights = replace(longest, linear=-longest.linear).text
    model = {"features": list(FEATURES), "actor": weights, "why": "it was the best"}
    site.artifacts().directory.mkdir(exist_ok=True)
    site.artifacts().put(Artifact(ACTOR, 0.0, 1.0, {"promoted": 1.0}, model))
    result = json_of(site, "train", "--model", "throughput")["models"][-1]
    assert (result["model"], result["decision"]) == ("actor", "withdrawn")
    assert site.artifacts().read(ACTOR).scores["promoted"] == 0.0
    assert result["why"] in run(site, "models", "show", "actor").output
    assert len(json_of(site, "train", "--model", "throughput")["models"]) == 1


# Pairs that ran


def test_the_sharing_model_learns_from_the_stories_of_jobs_that_ran_beside_others(site: Site):
    assert "are too few" in run(site, "train", "--model", "sharing").output
    random, store, events = np.random.default_rng(2), site.open_store(), []
    for number in range(90):
        util = float(random.uniform(0.3, 1.9))
        kept = {"speed": f"{1.05 - 0.4 * util:.2f}", "partners": "7", "seconds": "600", "source": "by its iterations"}
        told = {**kept, "kind": f"user{number % 5}/train_#", "util": util}
        events.append(StoryEvent(NOW_S - 90_000.0 + 900.0 * number, "shared with", told, number + 1))
    store.save(site.cluster_name(), PendingWrites(story=events))
    store.close()
    (told,) = json_of(site, "train", "--model", "sharing")["models"]
    assert told["decision"] == "promoted"
    assert told["scores"]["site"]["error"] < told["scores"]["serving"]["error"]
    shown = run(site, "models", "show", "sharing").output
    assert "of this site and before it measured any" in shown
    assert "memory-controller utilisation" in shown
