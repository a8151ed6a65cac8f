"""The training of the actor on a small trace: what it learns from is what serves, and the same seed gives the same."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from slurmsched.errors import MissingExtra, TooLittleHistory
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.studies.actor.drawn_weeks import FLEET, WEEK_S, drawn_week, split_weeks
from slurmsched.simulator.studies.actor.judgement import Against, TrainedActor, train_actor
from slurmsched.simulator.studies.actor.learning import Effort, static_score
from slurmsched.simulator.studies.actor.rollout import rollout
from slurmsched.simulator.workload.workload import workload

WEEKS = 8


def trace(weeks: int = WEEKS, jobs_a_week: int = 110):
    random = np.random.default_rng(1)
    begin_s = np.repeat(np.arange(weeks) * WEEK_S, jobs_a_week)
    submit_s = begin_s + np.sort(random.uniform(0, WEEK_S / 20, (weeks, jobs_a_week))).reshape(-1)  # so that they queue
    submit_s[0] = 0.0
    runtime_s = np.exp(random.normal(8, 1.5, len(submit_s)))
    return workload(len(submit_s), job_id=np.arange(len(submit_s)), submit_s=submit_s, runtime_s=runtime_s)


def some_actor() -> Actor:
    random, wide = np.random.default_rng(2), len(FEATURES)
    weights = (random.normal(size=shape) for shape in (wide, (wide, 3), 3, 3))
    linear, into, offset, out = weights
    return Actor.of_text(Actor(linear, np.full(wide, -9.0), np.full(wide, 9.0), into, offset, out).text)


def test_a_rollout_starts_every_job_when_simulate_does():
    jobs = trace()
    week, actor = drawn_week(jobs, split_weeks(jobs).train[0], 3), some_actor()
    simulated = simulate(week, FLEET, Setup.of(f"mlfs-rl actor={actor.text}", "easy", forecast="told"))
    assert np.array_equal(rollout(week, actor.scores).start_s, simulated.start_s)
    static = simulate(week, FLEET, Setup.of("mlfs-h late=0 urgency=0 gain=0 gpus=-0.25", "easy", forecast="told"))
    assert np.array_equal(rollout(week, static_score(-0.25)).start_s, static.start_s)


def test_recorded_decisions_end_with_the_first_job_that_had_to_wait():
    jobs = trace()
    week = drawn_week(jobs, split_weeks(jobs).train[0], 3)
    found = rollout(week, static_score(0.5), np.random.default_rng(0))
    assert len(found.decisions) > 10
    for decision in found.decisions:
        assert 1 <= len(decision.chosen) <= len(decision.rows)
        assert np.isfinite(decision.rows).all()


def test_unseen_weeks_are_the_last_ones_and_too_few_are_too_few():
    jobs = trace()
    weeks = split_weeks(jobs)
    assert [len(part) for part in weeks] == [1, 3, 4]
    assert jobs.submit_s[weeks.unseen[0][0]] >= 4 * WEEK_S
    with pytest.raises(TooLittleHistory, match="7 weeks"):
        split_weeks(trace(7))


def test_a_week_is_thinned_to_its_load():
    random = np.random.default_rng(4)
    jobs = workload(9000, submit_s=np.sort(random.uniform(0, WEEK_S, 9000)), runtime_s=random.uniform(1, 80000, 9000))
    week = drawn_week(jobs, np.arange(9000), 0)
    load = float((week.runtime_s * week.gpus).sum()) / (FLEET.total * WEEK_S)
    assert load == pytest.approx(1.2, abs=0.03)


def test_the_same_seed_gives_the_same_weights_and_the_judgement_names_every_order():
    pytest.importorskip("torch", reason="the extra rl is not installed")
    effort, jobs = Effort(updates=1, draws=1), trace()
    first, again = (train_actor(jobs, 5, effort=effort, executor="direct") for _ in range(2))
    assert first.actor.text == again.actor.text
    assert list(first.against) == ["qssf", "sjf", "mlfs-h", "static"]
    facts, artifact = first.to_dict(), first.artifact(jobs)
    assert (facts["unseen"]["weeks"], artifact.scores["promoted"]) == (4, float(first.promoted))
    for one in first.against.values():
        assert one.low <= one.jct_ratio <= one.high


def test_a_trace_without_a_queue_is_too_little_to_learn_from():
    pytest.importorskip("torch", reason="the extra rl is not installed")
    jobs = trace()
    with pytest.raises(TooLittleHistory, match="no two jobs ever wait"):
        train_actor(replace(jobs, runtime_s=np.ones(len(jobs))), 5, effort=Effort(updates=1, draws=1))


@pytest.mark.skipif(find_spec("torch") is not None, reason="the extra rl is installed")
def test_without_pytorch_the_training_names_the_extra_before_any_replay():
    with pytest.raises(MissingExtra, match="rl"):
        train_actor(trace(), 5)


@pytest.mark.parametrize(
    ("high", "deadlines", "promoted"), [(0.99, 0.0, True), (1.01, 0.1, False), (0.99, -0.01, False)]
)
def test_only_a_sure_gain_without_missed_deadlines_promotes(high, deadlines, promoted):
    against = {"qssf": Against(0.9, 0.8, 0.95, 0.0), "static": Against(0.95, 0.9, high, deadlines)}
    found = TrainedActor(some_actor(), 8, "mlfs-h", 4, against, 1.0)
    assert found.promoted is promoted
    assert "under static" in found.why
