"""The trained model beside the baseline: it serves as long as it is not clearly worse."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_worlds import busy_site, job, jobs_of

from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.port import Model
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.guarded import LEAST, WINDOW, GuardedModel
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, LIMIT, repeating

EVERYTHING = busy_site(1600)
SPLIT_S = float(np.sort(EVERYTHING.ended_s)[800])


def with_limits(outcomes: OutcomeTable, limit_s: np.ndarray) -> OutcomeTable:
    columns = {name: getattr(outcomes, name) for name in outcomes.__dataclass_fields__}
    return OutcomeTable(**columns | {"time_limit_s": limit_s})


def served(outcomes: OutcomeTable, repeat=LIMIT) -> GuardedModel:
    """Fitted to the first half, with nothing since."""
    before = outcomes.take(outcomes.ended_s < SPLIT_S)
    model = Estimator.fit(before, how=repeating(repeat))
    return GuardedModel.of(model, RuntimeModel.fit(before), before)


def later(outcomes: OutcomeTable) -> OutcomeTable:
    return outcomes.take(outcomes.ended_s > SPLIT_S)


#: Limits that tell the runtime in the first half, and nothing in the second.
BROKEN = with_limits(EVERYTHING, np.where(EVERYTHING.ended_s < SPLIT_S, EVERYTHING.runtime_s, 1e7))
PERFECT = with_limits(EVERYTHING, EVERYTHING.runtime_s)


def test_it_is_a_model_that_the_daemon_can_serve():
    model: Model = served(PERFECT)
    assert len(model.forecast(job(user="user1"))) == 1
    assert model.trained_until_s < SPLIT_S


def test_a_model_that_has_not_been_tried_is_trusted():
    one = served(BROKEN)
    assert one.drift.runs == 0
    assert one.name == "trained: requested limit"
    queue = jobs_of(later(BROKEN))
    assert list(one.forecast(queue).runtime_s) == list(one.model.forecast(queue).runtime_s)


def test_a_model_that_stays_good_serves_on():
    one = served(PERFECT).learn(later(PERFECT))
    assert one.drift.runs > LEAST
    assert one.drift.model < one.drift.baseline
    assert not one.drift.worse


def test_the_baseline_serves_while_the_model_is_clearly_worse():
    one = served(BROKEN).learn(later(BROKEN))
    assert one.drift.worse
    assert one.name.startswith("baseline: the trained model was worse on the last")
    queue = jobs_of(later(BROKEN))
    assert list(one.forecast(queue).runtime_s) == list(one.baseline.forecast(queue).runtime_s)
    assert one.reasons(queue, 0) == []


def test_the_model_comes_back_when_it_is_good_again():
    fallen = served(BROKEN).learn(later(BROKEN))
    again = busy_site(WINDOW + 50, seed=3)
    back = fallen.learn(with_limits(again, again.runtime_s))
    assert not back.drift.worse
    assert back.drift.runs == WINDOW


def test_too_few_runs_condemn_nobody():
    few = later(BROKEN).take(slice(0, LEAST // 2))
    assert not served(BROKEN).learn(few).drift.worse


def test_a_restart_remembers_how_the_model_did():
    before = served(BROKEN)
    known = GuardedModel.of(before.model.learn(later(BROKEN)), before.baseline.learn(later(BROKEN)), BROKEN)
    assert known.drift.worse


def test_nothing_new_changes_nothing():
    one = served(PERFECT)
    assert one.learn(PERFECT.take(slice(0, 0))) is one


def test_the_digest_is_of_all_that_decides_the_forecast():
    one = served(BROKEN, LAST_OF_NAME)
    digests = {one.digest, one.learn(later(BROKEN)).digest, served(BROKEN).digest}
    assert len(digests) == 3
    assert one.digest == served(BROKEN, LAST_OF_NAME).digest


def test_what_ended_later_does_not_tell_of_a_run():
    one = served(PERFECT, LAST_OF_NAME)
    runs = later(PERFECT)
    first = runs.take(np.argsort(runs.first_submit_s)[:1])
    assert one.learn(runs).model.backtest(first)[1] == pytest.approx(one.model.backtest(first)[1])


def test_both_models_say_of_the_past_what_they_would_have_said():
    one = served(PERFECT)
    queue = later(PERFECT).take(later(PERFECT).first_submit_s > SPLIT_S)
    for model in (one.model, one.baseline):
        said = model.forecast(jobs_of(queue))
        assert np.exp(model.backtest(queue)) == pytest.approx(
            np.array([said.low_s, said.runtime_s, said.high_s]), rel=1e-6
        )
