from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from outcome_worlds import busy_site, history, job, jobs_of

from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.outlook.remaining import UNKNOWN_S
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.port import Model
from slurmsched.models.runtime.estimator import LEAST, Estimator
from slurmsched.models.runtime.mixture import Mixture, Part
from slurmsched.models.runtime.model_inputs import CLASSES, Profiles
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, LIMIT, Ga2m, fit_trees, repeating

PARTS = ("low_s", "runtime_s", "high_s")


@pytest.fixture(scope="module")
def trained() -> Estimator:
    pytest.importorskip("interpret")
    return Estimator.fit(busy_site(1500))


@pytest.fixture(scope="module")
def repeats() -> Estimator:
    return Estimator.fit(busy_site(1500), how=repeating(LAST_OF_NAME))


def error(model: Estimator, outcomes: OutcomeTable) -> float:
    return float(np.abs(np.log(model.forecast(jobs_of(outcomes)).runtime_s) - np.log(outcomes.runtime_s)).mean())


def known(length: int, seed: int = 1) -> OutcomeTable:
    """Runs of the users of the training, under names of the same kinds."""
    return busy_site(length, seed=seed)


# Forecasts


def test_it_is_a_model_that_the_daemon_can_serve(trained: Estimator):
    model: Model = trained
    assert model.trained_until_s == busy_site(1500).ended_s.max()
    assert len(model.forecast(job(user="user1", name="a_1"))) == 1


def test_trained_tables_do_better_than_the_last_two_runs(trained: Estimator, repeats: Estimator):
    later = known(1000)
    assert error(trained, later) < 0.95 * error(repeats, later)


def test_forecasts_are_whole_and_within_the_limit(trained: Estimator):
    queue = [
        job(user="user1", name="a_1", time_limit_s=300.0),
        job(user="nobody", name="", gpus=512, time_limit_s=np.nan),
        job(user="user2", name="never seen \udcff", time_limit_s=0.0),
    ]
    for one in queue:
        values = [float(getattr(trained.forecast(one), part)[0]) for part in PARTS]
        assert values == sorted(values)
        assert values[0] >= 1
        assert not values[2] > max(1.0, np.nan_to_num(one.time_limit_s[0], nan=np.inf))


def test_nine_in_ten_runs_are_done_by_the_upper_bound(trained: Estimator):
    later = known(2000)
    assert (later.runtime_s <= trained.forecast(jobs_of(later)).high_s).mean() == pytest.approx(0.9, abs=0.05)
    assert trained.interval.coverage == pytest.approx(0.9, abs=0.1)


def test_a_running_job_is_never_forecast_to_have_ended_already(trained: Estimator):
    for elapsed_s in (1.0, 600.0, 1e6):
        running = job(user="user1", name="a_1", state=int(JobState.RUNNING), started_s=1000.0)
        forecast = trained.forecast(running, 1000.0 + elapsed_s)
        assert elapsed_s <= forecast.low_s[0] <= forecast.runtime_s[0] <= forecast.high_s[0]


def test_a_new_user_is_forecast_by_what_first_runs_took():
    random = np.random.default_rng(0)
    users, runs = 150, 4
    first = np.arange(users * runs) % runs == 0
    runtime_s = np.where(first, 60.0, 20_000.0) * random.lognormal(0, 0.3, users * runs)
    known = history(
        runtime_s,
        user=[f"user{place // runs}" for place in range(users * runs)],
        name=["train"] * (users * runs),
        first_submit_s=1e5 * np.arange(users * runs),
    )
    new = Estimator.fit(known).forecast(job(user="zoe", name="train"))
    assert new.runtime_s[0] < 600
    assert new.source[0] == "additive"


def test_where_runs_are_repeated_a_new_user_takes_the_usual_runtime_of_jobs_with_as_many_gpus(repeats: Estimator):
    for gpus, usual in ((8, "usual runtime with as many GPUs"), (512, "usual runtime on the site")):
        new = job(user="zoe", gpus=gpus)
        assert [reason.words for reason in repeats.reasons(new, 0)] == [usual]
        assert repeats.reasons(new, 0)[0].factor == pytest.approx(repeats.forecast(new).runtime_s[0])


def test_without_any_run_the_limit_is_the_forecast(repeats: Estimator):
    empty = Estimator.of_document(repeats.document(), history([]))
    forecast = empty.forecast(job(time_limit_s=7200.0))
    assert forecast.source[0] == "no history: the time limit"
    assert forecast.high_s[0] == 7200
    assert empty.forecast(job()).low_s[0] <= UNKNOWN_S


def test_a_limit_that_nobody_set_says_nothing():
    model = Estimator.fit(busy_site(300), how=repeating(LIMIT))
    assert model.forecast(job(user="user1")).source[0] == "requested limit"  # the usual runtime stands in for it
    assert np.isfinite(model.forecast(job(user="user1")).runtime_s[0])


# Reasons


def test_the_reasons_of_a_forecast_multiply_to_it(trained: Estimator):
    queue = jobs_of(known(20))
    products = [np.prod([reason.factor for reason in trained.reasons(queue, row)]) for row in range(20)]
    assert products == pytest.approx(trained.forecast(queue).runtime_s)


def test_reasons_name_what_the_job_has(trained: Estimator):
    words = [reason.words for reason in trained.reasons(job(user="user1", name="a_1", gpus=2), 0)]
    assert words[0] == "typical runtime"
    assert "user user1" in words
    assert "GPUs 2" in words
    assert any(
        text.startswith("median of the last runs of this user ") and text.endswith((" s", " min")) for text in words
    )


def test_reasons_are_fit_for_a_terminal(trained: Estimator):
    odd = job(user="user1", name="a_1", account="a\nb\x1b[31m\udcff")
    assert all(reason.words.isprintable() for reason in trained.reasons(odd, 0))


def test_a_forecast_without_history_has_no_reasons(repeats: Estimator):
    empty = Estimator.of_document(repeats.document(), history([]))
    assert empty.reasons(job(time_limit_s=7200.0), 0) == []


# Learning


def test_it_learns_new_runs_without_training(trained: Estimator):
    changed = history([50_000] * 5, user=["user1"] * 5, name=["a_1"] * 5, first_submit_s=2e7 + 1e5 * np.arange(5))
    later = trained.learn(changed)
    asked = job(user="user1", name="a_1")
    assert later.forecast(asked).runtime_s[0] > 1.5 * trained.forecast(asked).runtime_s[0]
    assert later.center is trained.center
    assert later.trained_until_s == changed.ended_s.max()


def test_the_order_of_learning_changes_nothing(trained: Estimator):
    later = known(200)
    parts = [later.take(slice(0, 50)), later.take(slice(50, None))]
    one, other, whole = (
        trained.learn(parts[0]).learn(parts[1]),
        trained.learn(parts[1]).learn(parts[0]),
        trained.learn(later),
    )
    assert one.digest == other.digest == whole.digest
    assert one.forecast(jobs_of(later)).equals(whole.forecast(jobs_of(later)))


def test_the_interval_follows_what_ended_since(repeats: Estimator):
    later = known(2000)
    longer = {name: getattr(later, name) for name in later.__dataclass_fields__}
    longer |= {"runtime_s": later.runtime_s * np.random.default_rng(0).lognormal(0, 2, 2000)}
    longer |= {"ended_s": later.started_s + longer["runtime_s"]}
    wide = repeats.learn(OutcomeTable(**longer)).interval
    factor = [i.factors(np.array([12]), np.ones(1), np.zeros(1))[2, 0] for i in (repeats.interval, wide)]
    assert factor[1] > 1.5 * factor[0]


def test_what_is_mixed_in_moves_the_middle_and_not_the_interval(trained: Estimator):
    assert isinstance(trained.center, Ga2m)
    blends = Mixture({}), Mixture({kind: Part("user_last", 1.0, 1.0, 1.0) for kind in range(CLASSES)})
    queue = jobs_of(known(200))
    alone, mixed = (replace(trained, center=replace(trained.center, blend=blend)).forecast(queue) for blend in blends)
    inside = (alone.low_s < mixed.runtime_s) & (mixed.runtime_s < alone.high_s)
    assert inside.mean() > 0.5
    assert not np.isclose(mixed.runtime_s, alone.runtime_s).any()
    assert mixed.low_s[inside] == pytest.approx(alone.low_s[inside])
    assert mixed.high_s[inside] == pytest.approx(alone.high_s[inside])


# Documents and bounds


@pytest.mark.parametrize("kind", ["trained", "repeats"])
def test_it_is_the_same_after_writing_and_reading(kind: str, request: pytest.FixtureRequest):
    model: Estimator = request.getfixturevalue(kind)
    again = Estimator.of_document(json.loads(json.dumps(model.document())), busy_site(1500))
    queue = jobs_of(known(100))
    assert again.forecast(queue).equals(model.forecast(queue))
    assert again.digest == model.digest


def test_a_document_that_was_tampered_with_is_refused(repeats: Estimator):
    document = json.loads(json.dumps(repeats.document()))
    document["misses"]["kind"][0] = 99
    with pytest.raises(ValueError, match="classes of evidence"):
        Estimator.of_document(document, busy_site(10))
    document = json.loads(json.dumps(repeats.document())) | {"center": {"kind": "oracle"}}
    with pytest.raises(ValueError, match="oracle"):
        Estimator.of_document(document, busy_site(10))


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match=f"at least {LEAST}"):
        Estimator.fit(busy_site(LEAST - 1))


def test_profiles_are_looked_at_where_there_are_some():
    pytest.importorskip("interpret")
    outcomes = busy_site(800)
    busy = np.random.default_rng(5).uniform(0, 100, 800)
    columns = {name: getattr(outcomes, name) for name in outcomes.__dataclass_fields__}
    columns |= {"runtime_s": np.exp(4 + busy / 20)} | {"user": jobs_of(outcomes).user}
    columns |= {"ended_s": outcomes.started_s + columns["runtime_s"], "job_id": np.arange(800)}

    def measured(runs: OutcomeTable) -> Profiles:
        return Profiles(busy[runs.job_id], np.full(len(runs), np.nan), np.full(len(runs), np.nan))

    model = Estimator.fit(OutcomeTable(**columns), profiles=measured)
    assert isinstance(model.center, Ga2m)
    assert "gpu_util" in model.center.additive.names
    one, nothing = job(user="user1", name="a_1"), np.array([np.nan])
    idle, full = (model.forecast(one, profiles=Profiles(np.array([u]), nothing, nothing)) for u in (5.0, 95.0))
    assert full.runtime_s[0] > 3 * idle.runtime_s[0]
    assert idle.runtime_s[0] < model.forecast(one).runtime_s[0] < full.runtime_s[0]


def test_trees_serve_where_they_are_wanted_and_explain_themselves():
    pytest.importorskip("lightgbm")
    model = Estimator.fit(busy_site(800), how=fit_trees)
    again = Estimator.of_document(json.loads(json.dumps(model.document())), busy_site(800))
    queue = jobs_of(known(50))
    assert again.forecast(queue).equals(model.forecast(queue))
    product = np.prod([reason.factor for reason in model.reasons(queue, 0)])
    assert product == pytest.approx(model.forecast(queue).runtime_s[0])
