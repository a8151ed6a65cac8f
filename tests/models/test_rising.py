"""What a site asks of the tables: never to fall with the time limit, GPUs, CPUs or nodes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from outcome_worlds import busy_site, jobs_of

from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.artifact import Artifact
from slurmsched.models.ebm.additive import Additive, AdditiveTerm
from slurmsched.models.ebm.bins import Continuous
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.history_index import HistoryIndex
from slurmsched.models.runtime.mixture import Mixture
from slurmsched.models.runtime.model_inputs import inputs
from slurmsched.models.runtime.name_buckets import NameBuckets
from slurmsched.models.runtime.point_predictors import (
    LAST_OF_USER,
    Ga2m,
    fit_ga2m,
    fit_trees,
    repeating,
    rises_with,
    rising_with,
)
from slurmsched.models.training import train_runtime

pytest.importorskip("interpret")


def shorter_when_wider(runs: int = 420) -> OutcomeTable:
    """A site where jobs with more GPUs run for less time, and whose time limits tell all."""
    site = busy_site(runs)
    columns = {name: getattr(site, name) for name in site.__dataclass_fields__}
    runtime_s = np.ceil(columns["runtime_s"] / site.gpus.astype(np.float64) ** 3)
    ended_s = site.started_s + runtime_s
    return OutcomeTable(**columns | {"runtime_s": runtime_s, "ended_s": ended_s, "time_limit_s": runtime_s})


FALLING = Ga2m(
    Additive(
        (Continuous("gpus", np.array([2.0]), np.array([2.0])),),
        (AdditiveTerm(("gpus",), np.array([0.0, 1.0, -1.0, 0.0]), np.array([0.0, 10.0, 10.0, 0.0])),),
        6.0,
    ),
    Mixture({}),
)


def test_tables_fall_with_gpus_unless_asked_not_to():
    site = shorter_when_wider()
    plain = Estimator.fit(site).center
    risen = Estimator.fit(site, how=partial(fit_ga2m, rising=("gpus", "limit"))).center
    assert not rises_with(plain, ("gpus",))
    assert rises_with(risen, ("gpus",))
    assert rises_with(risen, ("limit",))


@pytest.mark.parametrize("seed", range(5))
def test_a_pair_of_columns_rises_with_both(seed: int):
    random = np.random.default_rng(seed)
    both = tuple(Continuous(name, np.array([2.0]), np.arange(1.0, 6.0)) for name in ("gpus", "limit"))
    pair = AdditiveTerm(
        ("gpus", "limit"), random.normal(size=(8, 8)), random.integers(0, 50, (8, 8)).astype(np.float64)
    )
    risen = rising_with(Additive(both, (pair,), 6.0), ("gpus", "limit", "nodes"))
    known = risen.terms[0].scores[1:-1, 1:-1]
    assert all(np.diff(known, axis=axis).min() >= 0 for axis in (0, 1))
    assert (pair.weights[1:-1, 1:-1] * (known - pair.scores[1:-1, 1:-1])).sum() == pytest.approx(0.0, abs=1e-2)
    assert rises_with(Ga2m(risen, Mixture({})), ("limit", "gpus"))


def test_trees_asked_not_to_fall_with_gpus_do_not():
    pytest.importorskip("lightgbm")
    site = shorter_when_wider()
    columns = dict(inputs(jobs_of(site), HistoryIndex.of(site), NameBuckets.of({})))
    for rising in ((), ("gpus",)):
        trees = Estimator.fit(site, how=partial(fit_trees, rising=rising)).center
        told = [
            trees.log_forecast(columns | {"gpus": np.full(len(site), gpus)}).middle for gpus in (1.0, 2.0, 4.0, 8.0)
        ]
        assert (np.diff(told, axis=0) >= 0).all() == bool(rising)


def test_what_repeats_runs_has_learnt_nothing_that_could_fall():
    assert rises_with(Estimator.fit(busy_site(300), how=repeating(LAST_OF_USER)).center, ("gpus",))
    assert rises_with(FALLING, ())
    assert not rises_with(FALLING, ("gpus",))
    assert rises_with(FALLING, ("nodes",))


@pytest.mark.parametrize("rising", [(), ("gpus",)])
def test_a_model_that_serves_and_falls_need_not_be_beaten_where_none_may_fall(rising: tuple[str, ...]):
    site = shorter_when_wider()
    document = Estimator.fit(site, how=repeating(LAST_OF_USER)).document() | {"center": FALLING.document()}
    outcome = train_runtime(site, Artifact("runtime", 0.0, 1.0, {}, document), rising=rising)
    assert ("serving" in outcome.scores) == (not rising)
    assert outcome.promoted is not None
