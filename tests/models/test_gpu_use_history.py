"""What was known of the use of GPUs when a job was submitted, and that training and serving know the same."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_worlds import busy_site, history, job, jobs_of

from examples import examples
from slurmsched.cluster.gpu_usage import LAST, Use, mean_use, with_use
from slurmsched.cluster.job_kind import kind_of
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.gpu_use_history import UseHistory
from slurmsched.models.runtime.history_index import HistoryIndex
from slurmsched.models.runtime.model_inputs import PROFILE, inputs, numbers
from slurmsched.models.runtime.name_buckets import NameBuckets
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, Repeat, repeating

NO_BUCKETS = NameBuckets.of({})


def use(end_s: float, util: float, memory_mib: float = 1000.0) -> Use:
    return Use(end_s - 10, end_s, util, util / 2, memory_mib, False)


def test_only_runs_of_its_kind_that_had_ended_count():
    runs = history([60], first_submit_s=[1000.0], name=["train_9"])
    kind, other = kind_of("alice", "train_1"), kind_of("alice", "eval_1")
    known = UseHistory.of(
        [(kind, use(900, 0.2)), (kind, use(1000, 0.4)), (kind, use(1001, 0.9)), (other, use(500, 1.0))]
    )
    found = known(runs)
    assert found.gpu_util[0] == pytest.approx(0.3)
    assert found.gmem_util[0] == pytest.approx(0.15)
    assert found.gmem_mib[0] == 1000


def test_nothing_is_known_of_a_new_kind_or_from_an_empty_history():
    runs = history([60])
    for known in (UseHistory.of([]), UseHistory.of([("bob/train_#", use(0, 0.5))])):
        assert all(np.isnan(getattr(known(runs), name)).all() for name in PROFILE)


def test_the_order_in_which_runs_are_told_changes_nothing():
    told = [(kind_of("alice", "a"), use(end_s, 0.1)) for end_s in (5, 3, 9)]
    assert UseHistory.of(told).digest == UseHistory.of(told[::-1]).digest != UseHistory.of(told[:2]).digest


util = st.one_of(st.floats(0, 1), st.just(float("nan")))
told = st.tuples(st.sampled_from(["a_1", "a_22", "b"]), st.integers(0, 50), util, st.floats(1, 1e5))


@examples(60)
@given(st.lists(told, max_size=20, unique_by=lambda run: run[1]), st.integers(0, 60))
def test_training_and_serving_know_the_same_of_a_job(runs, submit_s):
    measured = [(kind_of("alice", name), use(float(end_s), share, mib)) for name, end_s, share, mib in runs]
    name = "a_7"
    trained = UseHistory.of(measured)(history([60], first_submit_s=[float(submit_s)], name=[name]))
    ended = sorted((one for kind, one in measured if kind == kind_of("alice", name) and one.end_s <= submit_s),
                   key=lambda one: one.end_s)[-LAST:]  # fmt: skip
    by_kind = {kind_of("alice", name): mean_use(ended)} if ended else {}
    waiting = with_use(job(name=name, first_submit_s=float(submit_s)), {}, by_kind)
    past = HistoryIndex.of(history([60]))
    served = inputs(waiting, past, NO_BUCKETS)
    then = inputs(history([60], name=[name]), past, NO_BUCKETS, np.array([1]), trained)
    for column in PROFILE:
        assert numbers(served, column)[0] == pytest.approx(numbers(then, column)[0], nan_ok=True)


BY_USE = repeating(Repeat("by use", ("gpu_util", "site_usual")))  # the share of the GPU is the logarithm of the runtime


def known_use(outcomes: OutcomeTable) -> tuple[UseHistory, JobTable]:
    """Every kind of job measured long ago, and the jobs as they wait."""
    kinds = dict.fromkeys(kind_of(user, name) for user, name in zip(outcomes.user, outcomes.name, strict=True))
    share = dict(zip(kinds, np.linspace(0.05, 0.95, len(kinds)).tolist(), strict=True))
    uses = {kind: use(-1.0, value) for kind, value in share.items()}
    return UseHistory.of(uses.items()), with_use(jobs_of(outcomes), {}, uses)


def short_runs() -> OutcomeTable:
    """None is long enough to be held against its user."""
    site = busy_site(300)
    runtime_s = np.minimum(site.runtime_s, 500.0)
    return replace(site, runtime_s=runtime_s, ended_s=site.started_s + runtime_s)


def test_a_model_that_looks_at_use_serves_from_the_columns_of_jobs():
    outcomes = short_runs()
    known, jobs = known_use(outcomes)
    model = Estimator.fit(outcomes, profiles=known, how=BY_USE)
    some = jobs.take(np.argsort(jobs.gpu_util)[[0, -1]])
    told = np.log(model.forecast(some).runtime_s)
    assert told == pytest.approx([0.05, 0.95])
    assert model.reasons(some, 1)[0].words == "GPU utilisation of earlier runs"


def test_what_is_judged_later_is_judged_by_the_same_use():
    outcomes = short_runs()
    known, jobs = known_use(outcomes)
    model = Estimator.fit(outcomes, profiles=known, how=BY_USE)
    then = model.backtest(outcomes)[1]
    served = np.log(model.forecast(jobs).runtime_s)
    seen = np.isfinite(then) & (model.past.known_at(outcomes.first_submit_s) > 200)
    assert seen.any()
    assert then[seen] == pytest.approx(served[seen])


def test_the_digest_knows_the_use():
    outcomes = busy_site(300)
    known, _ = known_use(outcomes)
    document = json.loads(json.dumps(Estimator.fit(outcomes, profiles=known, how=repeating(LAST_OF_NAME)).document()))
    again = [Estimator.of_document(document, outcomes, one).digest for one in (known, known, None)]
    assert again[0] == again[1] != again[2]


def test_a_model_trained_without_use_serves_jobs_that_were_measured():
    model = Estimator.fit(busy_site(300), how=repeating(LAST_OF_NAME))
    one = job(user="user1", name="a_1")
    measured = with_use(one, {}, {kind_of("user1", "a_1"): use(0.0, 0.7)})
    assert np.array_equal(model.forecast(measured).runtime_s, model.forecast(one).runtime_s)
