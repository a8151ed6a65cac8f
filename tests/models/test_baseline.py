from __future__ import annotations

import csv
import gzip
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_worlds import busy_site, history, job, jobs_of

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.outlook.remaining import UNKNOWN_S
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.port import Model
from slurmsched.models.runtime.baseline import RuntimeModel

TRACE = Path(__file__).parents[3] / "shared" / "data" / "philly_semisynthetic.csv.gz"
OCTOBER_S = (2294959, 2899759)  # its first week, in the trace's own seconds


def forecast_s(model: Model, **columns: object) -> float:
    return float(model.forecast(job(**columns)).runtime_s[0])


def source(model: Model, **columns: object) -> str:
    return model.forecast(job(**columns)).source[0]


def covered(model: Model, outcomes: OutcomeTable) -> float:
    forecast = model.forecast(jobs_of(outcomes))
    return float(np.mean((outcomes.runtime_s >= forecast.low_s) & (outcomes.runtime_s <= forecast.high_s)))


def explained(outcomes: OutcomeTable, runtime_s: np.ndarray) -> float:
    """Share of the variance of log runtime."""
    truth = np.log(np.maximum(outcomes.runtime_s, 1.0))
    return float(1 - np.mean((truth - np.log(runtime_s)) ** 2) / truth.var())


# Where the number comes from


def test_the_users_own_runs_under_such_a_name_count_most():
    model = RuntimeModel.fit(history([600] * 9 + [60], user=["alice"] * 9 + ["bob"]))
    assert forecast_s(model) == pytest.approx(600, rel=0.1)
    assert source(model) == "median of 3 runs of alice/train_#"


def test_equal_runs_are_forecast_exactly():
    model = RuntimeModel.fit(history([600] * 50))
    forecast = model.forecast(job())
    assert [column[0] for column in (forecast.low_s, forecast.runtime_s, forecast.high_s)] == pytest.approx([600] * 3)


def test_a_new_name_of_a_known_user_takes_the_users_runs():
    model = RuntimeModel.fit(history([600] * 9 + [60] * 9, user=["alice"] * 9 + ["bob"] * 9))
    assert source(model, name="eval") == "median of 5 runs of alice"
    assert forecast_s(model, name="eval") > 2 * forecast_s(model, name="eval", user="bob")


def test_a_new_user_takes_runs_with_as_many_gpus():
    model = RuntimeModel.fit(history([60] * 40 + [6000] * 40, gpus=[1] * 40 + [8] * 40))
    assert source(model, user="zoe", gpus=8) == "geometric mean of 40 runs with 8 GPUs"
    assert forecast_s(model, user="zoe", gpus=8) > 10 * forecast_s(model, user="zoe", gpus=1)


def test_a_new_user_with_a_new_gpu_count_takes_all_runs():
    model = RuntimeModel.fit(history([600] * 4))
    assert source(model, user="zoe", gpus=64) == "geometric mean of 4 runs of all users"


def test_without_history_the_time_limit_is_the_forecast():
    model = RuntimeModel.fit(history([]))
    forecast = model.forecast(job(time_limit_s=7200.0))
    assert (forecast.runtime_s[0], forecast.high_s[0]) == (7200, 7200)
    assert forecast.source[0] == "no history: the time limit"
    assert forecast_s(model) == UNKNOWN_S


def test_few_runs_are_drawn_towards_the_users_others():
    names = ["eval"] * 9 + ["train"]
    model = RuntimeModel.fit(history([60] * 9 + [6000], name=names))
    assert 60 < forecast_s(model, name="train") < 6000
    assert source(model, name="train") == "median of 1 run of alice/train"


def test_recent_runs_replace_old_ones():
    model = RuntimeModel.fit(history([60] * 20 + [6000] * 5))
    assert forecast_s(model) == pytest.approx(6000, rel=0.5)


def test_no_forecast_exceeds_the_time_limit():
    forecast = RuntimeModel.fit(history([600] * 9)).forecast(job(time_limit_s=300.0))
    assert max(forecast.runtime_s[0], forecast.high_s[0]) == 300


@pytest.mark.parametrize("state", [JobState.REQUEUED, JobState.NODE_FAIL, JobState.PREEMPTED])
def test_runs_that_others_ended_say_nothing(state: JobState):
    model = RuntimeModel.fit(history([600] * 5 + [6] * 5, state=[int(JobState.COMPLETED)] * 5 + [int(state)] * 5))
    assert model.runs == 5


def test_a_cancelled_run_counts_only_if_it_started():
    started_s = [0.0] * 3 + [np.nan] * 3
    model = RuntimeModel.fit(history([600] * 6, state=[int(JobState.CANCELLED)] * 6, started_s=started_s))
    assert model.runs == 3


def test_runs_after_the_training_time_are_unknown():
    model = RuntimeModel.fit(history([600] * 9), until_s=4 * 3600.0)
    assert (model.runs, model.trained_until_s) == (4, 4 * 3600.0)


# Running jobs


def test_a_running_job_is_never_forecast_to_have_ended_already():
    model = RuntimeModel.fit(busy_site(3000))
    for elapsed_s in (1.0, 600.0, 86400.0, 1e6):
        running = job(user="user1", name="a_1", state=int(JobState.RUNNING), started_s=1000.0)
        forecast = model.forecast(running, 1000.0 + elapsed_s)
        assert elapsed_s <= forecast.low_s[0] <= forecast.runtime_s[0] <= forecast.high_s[0]
        assert forecast.runtime_s[0] > elapsed_s


def test_the_longer_a_job_has_run_the_longer_it_will_have_run():
    model = RuntimeModel.fit(busy_site(3000))
    running = job(user="user1", name="a_1", state=int(JobState.RUNNING), started_s=0.0)
    totals = [float(model.forecast(running, now_s).runtime_s[0]) for now_s in np.geomspace(1, 1e6, 40)]
    assert all(later >= earlier * 0.999 for earlier, later in pairwise(totals))


def test_a_running_job_ends_by_its_limit():
    model = RuntimeModel.fit(history([600] * 30))
    running = job(state=int(JobState.RUNNING), started_s=0.0, time_limit_s=1000.0)
    assert model.forecast(running, 900.0).high_s[0] == 1000
    assert model.forecast(running, 1030.0).runtime_s[0] == 1030


def test_a_pending_job_ignores_the_time():
    model = RuntimeModel.fit(busy_site(500))
    pending = job(started_s=1000.0)  # Slurm's own estimate
    assert model.forecast(pending, 1e6).equals(model.forecast(pending))


# Interval


def test_four_in_five_runs_end_within_the_interval():
    model = RuntimeModel.fit(busy_site(6000))
    assert covered(model, busy_site(3000, seed=1)) == pytest.approx(0.8, abs=0.03)


def test_of_jobs_still_running_four_in_five_end_within_the_interval_too():
    model, later = RuntimeModel.fit(busy_site(6000)), busy_site(3000, seed=1)
    alive = later.take(later.runtime_s > 600)
    queue = jobs_of(alive)
    columns = {name: getattr(queue, name) for name in queue.__dataclass_fields__}
    columns |= {"state": np.full(len(alive), JobState.RUNNING), "started_s": np.zeros(len(alive))}
    forecast = model.forecast(JobTable(**columns), 600.0)
    inside = (alive.runtime_s >= forecast.low_s) & (alive.runtime_s <= forecast.high_s)
    assert inside.mean() == pytest.approx(0.8, abs=0.05)


# One history, one model


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_and_texts_changes_nothing(random):
    outcomes = busy_site(60)
    order = list(range(60))
    random.shuffle(order)
    shuffled = outcomes.take(np.array(order))
    renamed = {name: getattr(shuffled, name) for name in shuffled.__dataclass_fields__}
    renamed |= {name: Labels.of(renamed[name]) for name in ("name", "user")}
    model, other = RuntimeModel.fit(outcomes), RuntimeModel.fit(OutcomeTable(**renamed))
    assert model.digest == other.digest
    assert model.forecast(jobs_of(outcomes)).equals(other.forecast(jobs_of(outcomes)))


@given(st.integers(0, 300), st.booleans())
def test_learning_bit_by_bit_is_the_same_as_fitting_all(cut: int, backwards: bool):
    outcomes = busy_site(300)
    parts = [outcomes.take(slice(None, cut)), outcomes.take(slice(cut, None))][:: -1 if backwards else 1]
    model, whole = RuntimeModel.fit(parts[0]).learn(parts[1]), RuntimeModel.fit(outcomes)
    assert (model.digest, model.trained_until_s) == (whole.digest, whole.trained_until_s)
    assert model.forecast(jobs_of(outcomes)).equals(whole.forecast(jobs_of(outcomes)))


def test_a_run_told_twice_counts_once():
    outcomes = busy_site(50)
    model = RuntimeModel.fit(outcomes)
    assert model.learn(outcomes).digest == model.digest


def test_another_history_has_another_digest():
    assert RuntimeModel.fit(history([600])).digest != RuntimeModel.fit(history([601])).digest


def test_hostile_names_make_harmless_sources():
    name, user = "x\n\x1b[2J\udcff", "m\tallory"
    model = RuntimeModel.fit(history([60] * 3, name=[name] * 3, user=[user] * 3))
    assert source(model, name=name, user=user) == "median of 3 runs of m?allory/x??[#J?"
    assert len(model.digest) == 64


# Order, which is what the demo needs


def test_an_earlier_burst_orders_a_later_one():
    model, burst = RuntimeModel.fit(busy_site(300)), busy_site(70, seed=1)
    told, truth = (
        np.argsort(np.argsort(model.forecast(jobs_of(burst)).runtime_s)),
        np.argsort(burst.runtime_s).argsort(),
    )
    assert np.corrcoef(told, truth)[0, 1] > 0.6


# Speed and size, with room for a busy machine


def test_a_hundred_thousand_jobs_are_forecast_within_a_cycle():
    model, queue = RuntimeModel.fit(busy_site(20_000)), jobs_of(busy_site(100_000, seed=1))
    began = process_time()
    model.forecast(queue)
    assert process_time() - began < 1.0


def test_what_is_kept_is_bounded():
    model = RuntimeModel.fit(busy_site(100_000))
    assert model.runs < 50_000


# The trace, where it is


@pytest.fixture(scope="module")
def trace() -> OutcomeTable:
    if not TRACE.exists():
        pytest.skip(f"the semi-synthetic trace is not at {TRACE}")
    with gzip.open(TRACE, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return history(
        [float(row["duration_s"]) for row in rows],
        job_id=[int(row["job_id"]) for row in rows],
        first_submit_s=[float(row["submit_s"]) for row in rows],
        name=[row["job_name"] for row in rows],
        user=[row["user"] for row in rows],
        gpus=[int(row["gpus"]) for row in rows],
        time_limit_s=[float(row["time_limit_s"]) for row in rows],
    )


def test_a_week_of_the_trace_is_forecast_as_it_goes(trace: OutcomeTable):
    """Learning every hour: the weeks before October are few and short, so a model left alone knows too little."""
    model = RuntimeModel.fit(trace, until_s=OCTOBER_S[0])
    runtime_s, inside, rows = [], [], []
    for hour_s in range(*OCTOBER_S, 3600):
        model = model.learn(trace.take((trace.ended_s >= hour_s - 3600) & (trace.ended_s < hour_s)))
        arrived = np.flatnonzero((trace.first_submit_s >= hour_s) & (trace.first_submit_s < hour_s + 3600))
        jobs = trace.take(arrived)
        forecast = model.forecast(jobs_of(jobs))
        runtime_s.append(forecast.runtime_s)
        inside.append((jobs.runtime_s >= forecast.low_s) & (jobs.runtime_s <= forecast.high_s))
        rows.append(arrived)
    share = explained(trace.take(np.concatenate(rows)), np.concatenate(runtime_s))
    print(f"explains {share:.3f} of the variance of log runtime; {np.mean(np.concatenate(inside)):.3f} in the interval")
    assert share > 0.15
    assert np.mean(np.concatenate(inside)) > 0.7
