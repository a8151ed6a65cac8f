from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from outcome_worlds import busy_site, history

from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.model_selection import (
    BASELINE,
    CANDIDATES,
    READABLE,
    SERVING,
    BacktestForecasts,
    ModelChoice,
    backtest_models,
    elected,
    judge,
    pinball,
    score,
)
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, LAST_OF_USER, LIMIT, repeating

pytest.importorskip("interpret")


def with_limits(outcomes: OutcomeTable, limit_s: np.ndarray) -> OutcomeTable:
    columns = {name: getattr(outcomes, name) for name in outcomes.__dataclass_fields__}
    return OutcomeTable(**columns | {"time_limit_s": limit_s})


@pytest.fixture(scope="module")
def verdict() -> ModelChoice:
    return judge(busy_site(1500))


def test_the_tables_serve_where_they_are_best(verdict: ModelChoice):
    assert verdict.chosen == verdict.model.center.kind == "additive"
    assert verdict.scores["additive"].pinball < verdict.scores[LAST_OF_NAME.kind].pinball
    assert "additive is ahead of" in verdict.why


def test_the_tables_step_aside_where_the_limit_tells_all():
    outcomes = busy_site(600)
    verdict = judge(with_limits(outcomes, outcomes.runtime_s))
    assert verdict.chosen == LIMIT.kind
    assert verdict.scores[LIMIT.kind].r2 == pytest.approx(1)


def test_what_beats_the_baseline_is_promoted(verdict: ModelChoice):
    assert verdict.promoted
    assert verdict.scores["additive"].pinball < verdict.scores[BASELINE].pinball
    assert not replace(verdict, chosen=LAST_OF_USER.kind).beats_baseline


def test_the_winner_is_fitted_to_all_runs(verdict: ModelChoice):
    assert verdict.model.trained_until_s == busy_site(1500).ended_s.max()


def test_a_model_one_cannot_read_is_no_candidate_unless_allowed(verdict: ModelChoice):
    assert set(verdict.scores) == {*READABLE, BASELINE}
    assert set(CANDIDATES) - set(READABLE) == {"trees"}


@pytest.fixture(scope="module")
def simple() -> BacktestForecasts:
    outcomes = busy_site(800)
    return backtest_models(outcomes, repeating(LAST_OF_NAME), (float(outcomes.ended_s[400]),))


def nearer(told: BacktestForecasts, share: float, runs: slice = slice(None)) -> BacktestForecasts:
    """The same forecasts with all three ends of *runs* nearer to the truth by *share* of the way."""
    bounds = told.bounds.copy()
    bounds[:, runs] += share * (told.log_runtime - told.bounds)[:, runs]
    return replace(told, bounds=bounds)


def test_a_model_that_learns_serves_where_it_is_better_beyond_chance(simple: BacktestForecasts):
    chosen, why = elected({LAST_OF_NAME.kind: simple, "additive": nearer(simple, 0.2)})
    assert chosen == "additive"
    assert why.startswith(f"additive is ahead of {LAST_OF_NAME.kind} by ")


def test_the_simple_rule_stays_where_the_lead_may_be_chance(simple: BacktestForecasts):
    chosen, why = elected({LAST_OF_NAME.kind: simple, "additive": nearer(simple, 1.0, slice(2))})
    assert chosen == LAST_OF_NAME.kind
    assert "that may be chance" in why


def test_trees_serve_only_where_they_are_better_than_the_tables_beyond_chance(simple: BacktestForecasts):
    tables = nearer(simple, 0.2)
    told = {LAST_OF_NAME.kind: simple, "additive": tables}
    assert elected(told | {"trees": nearer(tables, 1.0, slice(2))})[0] == "additive"
    assert elected(told | {"trees": nearer(simple, 0.4)})[0] == "trees"


def half(outcomes: OutcomeTable) -> float:
    return float(np.median(outcomes.ended_s))


def test_a_model_that_serves_stays_where_none_is_better():
    outcomes = busy_site(1500)
    perfect = with_limits(outcomes, outcomes.runtime_s)
    serving = Estimator.fit(perfect, until_s=half(outcomes), how=repeating(LIMIT))
    verdict = judge(perfect, serving=serving)
    assert verdict.chosen == SERVING
    assert verdict.model.fitted_until_s == serving.fitted_until_s
    assert verdict.model.trained_until_s == outcomes.ended_s.max()


def test_a_model_that_serves_gives_way_to_a_better_one():
    outcomes = with_limits(busy_site(1500), np.full(1500, 1e6))
    serving = Estimator.fit(outcomes, until_s=half(outcomes), how=repeating(LIMIT))
    verdict = judge(outcomes, serving=serving)
    assert verdict.chosen != SERVING
    assert verdict.scores[verdict.chosen].pinball < verdict.scores[SERVING].pinball


def test_a_forecast_changes_nothing_when_the_future_does():
    outcomes = busy_site(600)
    cut_s = float(np.quantile(outcomes.first_submit_s, 0.8))
    later = outcomes.ended_s > cut_s
    other = {name: getattr(outcomes, name) for name in outcomes.__dataclass_fields__}
    other["runtime_s"] = np.where(later, 7.0 * outcomes.runtime_s, outcomes.runtime_s)
    other["ended_s"] = np.where(later, outcomes.ended_s + 6.0 * outcomes.runtime_s, outcomes.ended_s)
    first = [backtest_models(o, repeating(LAST_OF_USER), (cut_s,)) for o in (outcomes, OutcomeTable(**other))]
    earliest = [told.runs.first_submit_s.min() for told in first]
    middles = [told.bounds[1, told.runs.first_submit_s.argmin()] for told in first]
    assert earliest[0] == earliest[1] >= cut_s
    assert middles[0] == pytest.approx(middles[1])


def test_refits_forecast_each_run_once():
    outcomes = busy_site(800)
    moments = tuple(np.quantile(outcomes.first_submit_s, [0.6, 0.8]).tolist())
    told = backtest_models(outcomes, repeating(LAST_OF_NAME), moments)
    expected = outcomes.job_id[outcomes.first_submit_s >= moments[0]]
    assert sorted(told.runs.job_id.tolist()) == sorted(expected.tolist())
    assert (np.diff(told.runs.ended_s) >= 0).all()


def test_scores_of_perfect_forecasts():
    outcomes = busy_site(800)
    told = backtest_models(with_limits(outcomes, outcomes.runtime_s), repeating(LIMIT), (float(outcomes.ended_s[400]),))
    found = score(told)
    assert (found.runs, found.coverage) == (len(told.runs), 1.0)
    assert (found.r2, found.median_error) == (pytest.approx(1), pytest.approx(0, abs=1e-9))


def test_the_pinball_loss_asks_for_the_share():
    truth = np.arange(1000.0)
    losses = [pinball(truth, np.full((1, 1000), bound), (0.9,)) for bound in (500.0, 900.0, 990.0)]
    assert losses[1] == min(losses)


def test_too_few_runs_to_judge_by_are_refused():
    with pytest.raises(ValueError, match="at least 400"):
        judge(history([60] * 100))
