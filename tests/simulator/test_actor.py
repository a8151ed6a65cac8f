"""The training of the actor on a small trace: what it learns from is what serves, and the same seed gives the same."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from decide.views import nodes

from slurmsched.errors import TooLittleHistory
from slurmsched.models.artifact import Artifact
from slurmsched.models.model_card import model_card
from slurmsched.models.registry import ACTOR
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor
from slurmsched.research.actor.imitation import imitated
from slurmsched.research.actor.judgement import ActorComparison, TrainedActor, _against, reviewed, train_actor
from slurmsched.research.actor.learning import STARTS, TrainingBudget, learn, static_actor
from slurmsched.research.actor.week_loop import Decisions, play
from slurmsched.research.actor.weeks import FLEET, WEEK_S, Weeks, drawn_week
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import workload

WEEKS = 8
QUICK = TrainingBudget(updates=2, arrivals=1, draws=1, choosing=1, tuning=1)


def trace(weeks: int = WEEKS, jobs_a_week: int = 110, **columns):
    random = np.random.default_rng(1)
    begin_s = np.repeat(np.arange(weeks) * WEEK_S, jobs_a_week)
    submit_s = begin_s + np.sort(random.uniform(0, WEEK_S / 20, (weeks, jobs_a_week))).reshape(-1)  # so that they queue
    submit_s[0] = 0.0
    runtime_s = np.exp(random.normal(8, 1.5, len(submit_s)))
    return workload(len(submit_s), job_id=np.arange(len(submit_s)), submit_s=submit_s, runtime_s=runtime_s, **columns)


def site(weeks: int = WEEKS) -> Weeks:
    """The history of a site with 3 nodes of 8 GPUs, and one job that asked for more."""
    jobs = trace(weeks)
    gpus = np.random.default_rng(3).choice([1, 2, 8], len(jobs))
    gpus[5] = 64
    return Weeks.of_site(replace(jobs, gpus=gpus, time_limit_s=2 * jobs.runtime_s), nodes((8, 8, 8)))


def some_actor() -> Actor:
    random, wide = np.random.default_rng(2), len(FEATURES)
    weights = (random.normal(size=shape) for shape in (wide, (wide, 3), 3, 3))
    linear, into, offset, out = weights
    return Actor.of_text(Actor(linear, np.full(wide, -9.0), np.full(wide, 9.0), into, offset, out).text)


def copied(decisions: Decisions, teacher: Actor, deviation):
    """The weights of the order itself, where PyTorch is missing."""
    return teacher.linear * deviation


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("actor", [some_actor(), static_actor(0.5)], ids=["network", "static"])
@pytest.mark.parametrize("weeks", [Weeks.of_trace(trace()), site()], ids=["trace", "site"])
def test_the_loop_of_the_training_starts_every_job_when_simulate_does(weeks, actor):
    week = weeks.draw(weeks.train[0], 3)
    setup = Setup.of(f"mlfs-rl actor={actor.text}", "easy", forecast="told")
    assert np.array_equal(play(week, weeks.fleet, actor).start_s, simulate(week, weeks.fleet, setup).start_s)


def test_a_static_actor_is_the_static_order():
    week = drawn_week(trace(), Weeks.of_trace(trace()).train[0], 3)
    line = Setup.of("mlfs-h late=0 urgency=0 gain=0 gpus=-0.25", "easy", forecast="told")
    assert np.array_equal(play(week, FLEET, static_actor(-0.25)).start_s, simulate(week, FLEET, line).start_s)


def test_decisions_are_kept_whole_and_only_of_several_jobs():
    weeks, actor = Weeks.of_trace(trace()), some_actor()
    week = weeks.draw(weeks.train[0], 3)
    every = play(week, weeks.fleet, actor, 10_000).decisions
    some = play(week, weeks.fleet, actor, 100).decisions
    assert 10 < len(some.first) < len(every.first)
    assert (np.diff(every.first) > 1).all()
    assert some.first[-1] == len(some.rows) <= 100
    assert np.array_equal(every.rows[: len(some.rows)], some.rows)
    assert len(play(week, weeks.fleet, actor).decisions.rows) == 0


def test_unseen_weeks_are_the_last_ones_and_too_few_are_too_few():
    jobs = trace()
    weeks = Weeks.of_trace(jobs)
    assert [len(part) for part in (weeks.train, weeks.choose, weeks.unseen)] == [1, 3, 4]
    assert jobs.submit_s[weeks.unseen[0][0]] >= 4 * WEEK_S
    with pytest.raises(TooLittleHistory, match="7 weeks"):
        Weeks.of_trace(trace(7))


def test_a_week_is_thinned_to_its_load():
    random = np.random.default_rng(4)
    jobs = workload(9000, submit_s=np.sort(random.uniform(0, WEEK_S, 9000)), runtime_s=random.uniform(1, 80000, 9000))
    week = drawn_week(jobs, np.arange(9000), 0)
    load = float((week.runtime_s * week.gpus).sum()) / (FLEET.total * WEEK_S)
    assert load == pytest.approx(1.2, abs=0.03)


def test_the_jobs_of_a_site_stay_as_they_were_but_for_the_minute_of_their_arrival():
    weeks = site()
    assert (weeks.fleet.total, len(weeks.jobs)) == (24, WEEKS * 110 - 1)
    week, other = (weeks.draw(weeks.unseen[0], seed) for seed in (0, 1))
    rows = weeks.unseen[0]
    assert np.sort(week.runtime_s) == pytest.approx(np.sort(weeks.jobs.runtime_s[rows]))
    assert (np.diff(week.submit_s) >= 0).all()
    assert not np.array_equal(week.submit_s, other.submit_s)
    forecast_s = weeks.jobs.estimate_s  # from what had ended before, and no more exact than that
    assert np.isfinite(forecast_s).all()
    assert (forecast_s != weeks.jobs.runtime_s).mean() > 0.9


def test_four_weeks_of_a_site_judge_an_actor_that_another_trace_trained():
    weeks, own = Weeks.of_trace(trace()), site(4)
    found = train_actor(weeks, 5, judged_on=own, effort=QUICK, executor="direct", imitate=copied)
    assert found.to_dict()["unseen"]["site"]
    assert "in 4 unseen weeks of this site" in found.why
    with pytest.raises(TooLittleHistory, match="4 weeks, which are enough to judge on: --trace"):
        train_actor(own, 5, effort=QUICK, imitate=copied)
    with pytest.raises(TooLittleHistory, match="3 weeks"):
        site(3)


def test_the_same_seed_gives_the_same_weights_and_the_judgement_names_every_order():
    weeks = Weeks.of_trace(trace())
    first = train_actor(weeks, 5, effort=QUICK, executor="direct", imitate=copied)
    assert first.actor.text == learn(weeks, 5, QUICK, lambda doing: None, copied)[0].text
    assert list(first.against) == ["qssf", "sjf", "mlfs-h", "static"]
    facts, artifact = first.to_dict(), first.artifact(weeks.jobs)
    assert (facts["unseen"]["weeks"], artifact.scores["promoted"]) == (4, float(first.promoted))
    for one in first.against.values():
        assert one.low <= one.jct_ratio <= one.high
    assert 0.5 < facts["unseen"]["tree"]["pairs"] <= 1
    assert "if " in model_card(artifact).text


@needs_torch
@pytest.mark.parametrize("teacher", [static_actor(1.5), STARTS[9]], ids=["static", "mixture"])
def test_an_imitation_chooses_as_the_order_that_it_imitates(teacher):
    weeks = Weeks.of_trace(trace())
    decisions = play(weeks.draw(weeks.train[0], 3), weeks.fleet, teacher, 10_000).decisions
    deviation = decisions.rows.std(axis=0)
    weights = imitated(decisions, teacher, deviation)
    assert np.array_equal(weights, imitated(decisions, teacher, deviation))
    linear = np.divide(weights, deviation, out=np.zeros(len(FEATURES)), where=deviation > 0)
    unseen = play(weeks.draw(weeks.unseen[0], 3), weeks.fleet, teacher, 10_000).decisions
    scores, wanted = unseen.rows @ linear, teacher.scores(unseen.rows)
    lists = list(zip(unseen.first[:-1], unseen.first[1:], strict=True))
    assert len(lists) > 50
    alike = [scores[first:end].argmax() == wanted[first:end].argmax() for first, end in lists]
    assert np.mean(alike) > 0.95


@needs_torch
def test_training_begins_with_the_imitation():
    weeks = Weeks.of_trace(trace())
    first, again = (learn(weeks, 5, QUICK, lambda doing: None)[0] for _ in range(2))
    assert first.text == again.text
    assert first.text != learn(weeks, 6, QUICK, lambda doing: None)[0].text


def test_a_trace_without_a_queue_is_too_little_to_learn_from():
    jobs = trace()
    with pytest.raises(TooLittleHistory, match="no two jobs ever wait"):
        train_actor(Weeks.of_trace(replace(jobs, runtime_s=np.ones(len(jobs)))), 5, effort=QUICK, imitate=copied)


@pytest.mark.parametrize(
    ("high", "deadlines", "promoted"), [(0.99, 0.0, True), (1.01, 0.1, False), (0.99, -0.01, False)]
)
def test_only_a_sure_gain_without_missed_deadlines_promotes(high, deadlines, promoted):
    against = {"qssf": ActorComparison(0.9, 0.8, 0.95, 0.0), "static": ActorComparison(0.95, 0.9, high, deadlines)}
    found = TrainedActor(some_actor(), 8, "mlfs-h", 4, against, 1.0)
    assert found.promoted is promoted
    assert "under static" in found.why


def test_draws_of_one_week_make_a_bound_no_narrower():
    """Four weeks that differ, each drawn often: the weeks alone decide how sure the ratio is."""
    week = np.log([0.8, 0.9, 1.0, 1.1])[:, None]
    ours = np.stack([np.exp(np.repeat(week, 50, axis=1)), np.zeros((4, 50))], axis=2)
    found = _against(ours, np.stack([np.ones((4, 50)), np.zeros((4, 50))], axis=2), 0)
    assert found.jct_ratio == pytest.approx(0.8**0.25 * 0.9**0.25 * 1.1**0.25)
    assert found.high > 1.02


@pytest.mark.parametrize(("sign", "stays"), [(-1.0, True), (1.0, False)])
def test_an_actor_that_was_worse_in_the_last_week_is_withdrawn(sign, stays):
    wide = len(FEATURES)
    linear = sign * np.eye(wide)[0]  # the shortest job first, or the longest
    text = Actor(linear, np.full(wide, -99.0), np.full(wide, 99.0), np.zeros((wide, 0)), np.zeros(0), np.zeros(0)).text
    artifact = Artifact(ACTOR, 0.0, 1.0, {"promoted": 1.0}, {"features": list(FEATURES), "actor": text, "why": "so"})
    found = reviewed(artifact, site(4), "gandiva", executor="direct")
    assert found.stays is stays
    assert found.artifact.scores["promoted"] == float(stays)
    assert "in the last week its JCT was" in found.why
    assert (found.artifact.model["why"] == found.why) is not stays
