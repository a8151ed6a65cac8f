"""Records of runs that went far beyond their forecasts: whose forecasts they raise, how far, and whose never."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from outcome_worlds import busy_site, history, job, jobs_of

from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.runtime.active import overrunners_of
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.guarded import GuardedModel
from slurmsched.models.runtime.overruns import FAR_FOR_MEDIANS, FAR_FOR_TRAINED, WHY, WINDOW_S, OngoingRuns, Overruns
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, repeating

LONG_S, BAIT_S, DAY_S = 10_800.0, 12.0, 86_400.0
DAYS = 10
SITE = busy_site(600)
SINCE_S = float(SITE.ended_s.max())


def fresh(day: int) -> str:
    return "".join("ghijklmnop"[int(digit)] for digit in f"{day:05d}")


def baited(user: str = "mallory", days: int = DAYS, baits: int = 5, limit_s: float = np.inf) -> OutcomeTable:
    """A long run a day under a name of its own, after short ones under the same."""
    rows = [
        (SINCE_S + day * DAY_S + (n * 60.0 if n < baits else 7200.0), BAIT_S if n < baits else LONG_S, fresh(day))
        for day in range(days)
        for n in range(baits + 1)
    ]
    submit_s, runtime_s, names = (list(column) for column in zip(*rows, strict=True))
    return history(
        runtime_s,
        first_submit_s=submit_s,
        job_id=np.arange(len(rows)) + 50_000_000,
        user=[user] * len(rows),
        name=names,
        time_limit_s=[limit_s] * len(rows),
    )


def next_bait(user: str = "mallory", day: int = DAYS) -> OutcomeTable:
    """The short runs of the day after, which have ended."""
    rows = baited(user, day + 1).take(slice(-6, None))
    return rows.take(slice(0, 5))


def waiting(user: str = "mallory", day: int = DAYS, **columns: object) -> JobTable:
    return job(user=user, name=fresh(day), first_submit_s=SINCE_S + day * DAY_S + 7200.0, **columns)


MODELS = {
    "baseline": RuntimeModel.fit,
    "trained": lambda outcomes: Estimator.fit(outcomes, how=repeating(LAST_OF_NAME)),
}


@pytest.fixture(params=MODELS)
def fit(request):
    return MODELS[request.param]


def test_after_some_days_bait_makes_no_job_rank_as_short(fit):
    forecast = fit(SITE).learn(baited()).learn(next_bait()).forecast(waiting())
    assert forecast.rank_s[0] > LONG_S / 1.5
    assert forecast.source[0].endswith(WHY)


def test_records_change_no_forecast(fit):
    model = fit(SITE).learn(baited()).learn(next_bait())
    forecast = model.forecast(waiting())
    assert forecast.floor_s[0] > 100 * BAIT_S
    assert forecast.low_s[0] <= forecast.runtime_s[0] < 20 * BAIT_S
    said = fit(SITE).learn(next_bait(day=0)).forecast(waiting(day=0))
    assert forecast.runtime_s[0] == pytest.approx(said.runtime_s[0], rel=2.0)


def test_without_a_record_short_runs_make_a_short_forecast(fit):
    forecast = fit(SITE).learn(next_bait(day=0)).forecast(waiting(day=0))
    assert forecast.runtime_s[0] < 20 * BAIT_S
    assert not forecast.source[0].endswith(WHY)


def test_nobody_answers_for_another_user(fit):
    model = fit(SITE).learn(baited())
    before = fit(SITE).learn(next_bait("bob"))
    after = model.learn(next_bait("bob"))
    jobs = waiting("bob")
    assert after.forecast(jobs).rank_s[0] == pytest.approx(before.forecast(jobs).rank_s[0], rel=0.5)
    assert not after.forecast(jobs).source[0].endswith(WHY)


def test_a_hundred_short_runs_a_day_hide_nothing(fit):
    forecast = fit(SITE).learn(baited(baits=100)).forecast(waiting(day=DAYS - 1))
    assert forecast.rank_s[0] > LONG_S / 2


def test_a_name_whose_runs_came_as_forecast_keeps_its_place(fit):
    steady = replace(baited(baits=0, days=60), name=history([1.0] * 60, name=["eval"] * 60).name)
    short = replace(steady, runtime_s=steady.runtime_s / 30, job_id=steady.job_id + 1_000)
    short = replace(short, ended_s=short.started_s + short.runtime_s)
    many = [replace(short, job_id=short.job_id + 100 * n, restart=short.restart + n) for n in range(9)]
    model = fit(SITE).learn(baited())
    for runs in many:
        model = model.learn(runs)
    assert model.forecast(job(user="mallory", name="eval")).rank_s[0] < LONG_S / 10


@pytest.mark.parametrize(("length_s", "rank_s"), [(LONG_S, LONG_S), (LONG_S / 5, BAIT_S)])
def test_only_short_runs_under_a_name_keep_a_short_forecast_in_its_place(length_s, rank_s):
    right = replace(baited(baits=0, days=300), name=history([1.0] * 300, name=["train"] * 300).name)
    runs = baited(baits=0).joined(right)
    log_runtime = np.log(np.where(np.arange(len(runs)) < DAYS, LONG_S, length_s))
    log_forecast = np.where(np.arange(len(runs)) < DAYS, np.log(BAIT_S), log_runtime)
    order = np.argsort(runs.ended_s, kind="stable")[: 3 * DAYS]  # within the window
    overruns = Overruns.of(runs.take(order), log_runtime[order], log_forecast[order], FAR_FOR_TRAINED)
    of_train = overruns.name[[np.flatnonzero(order >= DAYS)[0]]]
    log_rank = overruns.raised_now(np.zeros(1, np.int64), of_train, np.log([BAIT_S]))
    assert np.exp(log_rank) == pytest.approx([rank_s])


NOW_S = SINCE_S + 2 * DAY_S + 7200.0


def going_on(lasted_s: float, user: str = "mallory", **columns: object) -> JobTable:
    """The long job of the second day, which has run for *lasted_s* by NOW_S."""
    started = {"state": int(JobState.RUNNING), "started_s": NOW_S - lasted_s}
    return waiting(user, 1, job_id=7, **started | columns)


def test_a_run_counts_as_soon_as_it_is_an_overrun_and_not_when_it_ends(fit):
    model = fit(SITE).learn(baited(days=1)).learn(next_bait(day=1)).learn(next_bait(day=2))
    pending = waiting(day=2)
    alone_s = model.forecast(pending, NOW_S).rank_s[0]
    assert alone_s < 20 * BAIT_S
    assert model.forecast(pending, NOW_S, going_on(3600.0)).rank_s[0] > LONG_S / 3
    for no_overrun in (going_on(500.0), going_on(3600.0, "bob"), going_on(3600.0, state=int(JobState.PENDING))):
        assert model.forecast(pending, NOW_S, no_overrun).rank_s[0] == alone_s


def test_a_run_that_goes_on_changes_no_forecast_and_nobody_elses_rank(fit):
    model = fit(SITE).learn(baited(days=1)).learn(next_bait(day=1)).learn(next_bait(day=2))
    jobs = jobs_of(SITE).take(slice(0, 50)).joined(waiting(day=2))
    before, after = model.forecast(jobs, NOW_S), model.forecast(jobs, NOW_S, going_on(3600.0))
    assert np.array_equal(before.runtime_s, after.runtime_s)
    assert np.array_equal(before.rank_s[:-1], after.rank_s[:-1])
    assert after.rank_s[-1] > before.rank_s[-1]


@pytest.mark.parametrize("far", [FAR_FOR_MEDIANS, FAR_FOR_TRAINED])
def test_a_run_counts_alike_while_it_goes_on_and_when_it_has_ended(far):
    runs, log_length = baited(baits=0), np.full(DAYS, np.log(LONG_S))
    log_forecast = log_length - np.log(2 * far)
    all_of_them = Overruns.of(runs, log_length, log_forecast, far)
    before = Overruns.of(runs.take(slice(0, -1)), log_length[:-1], log_forecast[:-1], far)
    last = OngoingRuns(
        np.zeros(1, np.int64), np.array([-1]), runs.first_submit_s[-1:], log_length[-1:], log_forecast[-1:]
    )
    new = np.array([-1]), log_forecast[:1]
    ended, ongoing = (
        all_of_them.raised_now(np.zeros(1, np.int64), *new),
        before.raised_now(np.zeros(1, np.int64), *new, last),
    )
    assert ongoing == pytest.approx(ended)


def test_on_a_site_of_steady_habits_running_jobs_raise_no_rank():
    model = RuntimeModel.fit(SITE.take(slice(0, 500)))
    later = SITE.take(slice(500, 600))
    for moment_s in np.quantile(later.started_s, [0.2, 0.5, 0.8]).tolist():
        running = later.take((later.started_s <= moment_s) & (later.ended_s > moment_s))
        known = {
            name: getattr(running, name) for name in ("job_id", "name", "user", "gpus", "first_submit_s", "started_s")
        }
        table = job_table(len(running), state=np.full(len(running), int(JobState.RUNNING)), **known)
        assert not any(source.endswith(WHY) for source in model.forecast(jobs_of(later), moment_s, table).source)


def test_no_job_is_ranked_beyond_its_time_limit(fit):
    model = fit(SITE).learn(baited()).learn(next_bait())
    forecast = model.forecast(waiting(time_limit_s=3600.0))
    assert forecast.rank_s[0] == 3600.0


@pytest.mark.parametrize("far", [FAR_FOR_MEDIANS, FAR_FOR_TRAINED])
def test_names_that_always_run_longer_than_a_new_name_is_forecast_rank_as_long(far):
    runs, log_length = baited(baits=0), np.full(DAYS, np.log(LONG_S))
    log_forecast = log_length - np.log(far) + 0.1
    new = np.full(DAYS, -1)

    def log_rank(of: OutcomeTable) -> np.ndarray:
        overruns = Overruns.of(of, log_length, log_forecast, far)
        return overruns.raised(overruns.user, new, log_forecast, np.arange(DAYS))

    assert log_rank(runs)[:2] == pytest.approx(log_forecast[:2]), "one overrun proves nothing"
    assert log_rank(runs)[-1] == pytest.approx(np.log(LONG_S))
    one_name = replace(runs, name=history([1.0] * DAYS, name=["train"] * DAYS).name)
    assert log_rank(one_name) == pytest.approx(log_forecast)


@pytest.mark.parametrize("share", [0.2, 0.45])
def test_a_new_name_that_came_nearly_as_forecast_counts_for_nothing(share):
    runs, log_length = baited(baits=0), np.full(DAYS, np.log(LONG_S))
    log_forecast = log_length - np.log(share * FAR_FOR_TRAINED)
    overruns = Overruns.of(runs, log_length, log_forecast, FAR_FOR_TRAINED)
    assert not overruns.beyond.any()


def test_a_name_is_new_until_its_first_run_has_ended():
    runs, log_length = baited(baits=0), np.full(DAYS, np.log(LONG_S))
    at_once = replace(
        runs,
        name=history([1.0] * DAYS, name=["train"] * DAYS).name,
        first_submit_s=np.where(np.arange(DAYS) < DAYS / 2, runs.first_submit_s.min(), runs.first_submit_s),
    )
    log_forecast = log_length - np.log(0.9 * FAR_FOR_TRAINED)
    overruns = Overruns.of(at_once, log_length, log_forecast, FAR_FOR_TRAINED)
    assert overruns.beyond.tolist() == [True] * (DAYS // 2) + [False] * (DAYS // 2)


def test_what_is_long_ago_is_forgiven(fit):
    later = next_bait()
    ago_s = WINDOW_S + 2 * DAY_S
    later = replace(
        later,
        **{name: getattr(later, name) + ago_s for name in ("first_submit_s", "eligible_s", "started_s", "ended_s")},
    )
    forecast = fit(SITE).learn(baited()).learn(later).forecast(waiting())
    assert forecast.rank_s[0] < 20 * BAIT_S


def test_a_site_of_steady_habits_ranks_jobs_by_their_forecasts():
    model = RuntimeModel.fit(SITE)
    assert not any(source.endswith(WHY) for source in model.forecast(jobs_of(SITE)).source)


def test_then_and_now_are_raised_alike():
    runs = SITE.joined(baited())
    model = RuntimeModel.fit(runs)
    evidence = model.overruns
    known = np.full(len(evidence.user), len(evidence.user))
    short = np.full(len(known), np.log(BAIT_S))
    then = evidence.raised(evidence.user, evidence.name, short, known)
    assert then == pytest.approx(evidence.raised_now(evidence.user, evidence.name, short))
    new = np.full(len(known), -1)
    assert evidence.raised(evidence.user, new, short, known) == pytest.approx(
        evidence.raised_now(evidence.user, new, short)
    )
    assert (then > short).any()


def test_nothing_raises_nothing():
    empty = np.zeros(0, dtype=np.int64)
    nobody = Overruns(empty, empty, *np.zeros((4, 0)), FAR_FOR_MEDIANS)
    one = np.array([-1])
    assert nobody.raised_now(one, one, np.ones(1)).tolist() == [1.0]
    assert nobody.raised(one, one, np.ones(1), np.zeros(1, np.int64)).tolist() == [1.0]
    assert not nobody.active


def test_whoever_ran_far_beyond_is_named_with_how_often_and_how_far(fit):
    found = fit(SITE).learn(baited()).overrunners()
    assert found[0].user == "mallory"
    assert DAYS - 2 <= found[0].runs <= DAYS
    assert found[0].times > 100
    assert found[0].length_s == pytest.approx(LONG_S, rel=0.01)
    assert found[0].raised > 0.9


def test_who_is_named_depends_on_the_model_that_serves():
    runs = SITE.joined(baited())
    trained, baseline = Estimator.fit(SITE, how=repeating(LAST_OF_NAME)).learn(baited()), RuntimeModel.fit(runs)
    assert overrunners_of(GuardedModel.of(trained, baseline, runs)) == trained.overrunners()
    assert overrunners_of(baseline) == baseline.overrunners()


def test_the_product_of_the_reasons_is_the_forecast_whatever_the_record():
    model = Estimator.fit(SITE, how=repeating(LAST_OF_NAME)).learn(baited()).learn(next_bait())
    reasons = model.reasons(waiting(), 0)
    assert np.prod([reason.factor for reason in reasons]) == pytest.approx(model.forecast(waiting()).runtime_s[0])
