"""Corrections of play-forwards: what they learn, and for whom it counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.policies.ordering.wfq import FIFO, Wfq
from slurmsched.research.elastic.correction import PRIOR, Correction, least_error
from slurmsched.research.elastic.experiment import ElasticReplay, replay
from slurmsched.research.elastic.samples import automl
from slurmsched.research.pareto.measurement import Bench, Corrected
from slurmsched.research.pareto.objectives import DEFAULT, objectives_of

SHORT_FIRST = Wfq((math.inf,), (1.0,), 0.0, overtake=1.0)


def played(seed: int, policy: Wfq = SHORT_FIRST) -> ElasticReplay:
    return replay(automl(300, 16, 0.9, seed), 16, policy)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_no_other_factor_has_less_error(ratios):
    def error(factor: float) -> float:
        return float(np.abs(np.array(ratios) / factor - 1).mean())

    best = error(least_error(np.array(ratios)))
    assert all(best <= error(other) + 1e-9 for other in (*ratios, *np.linspace(0.1, 12, 50)))


def test_what_is_exact_stays_exact():
    exact = played(1, FIFO)
    assert Correction.of([exact])(played(2, FIFO)).error.max() < 1e-9


def test_jobs_that_were_not_seen_are_predicted_better():
    correction = Correction.of([played(seed) for seed in range(4)], SHORT_FIRST.thresholds)
    for seed in range(10, 13):
        before = played(seed)
        after = correction(before)
        assert after.error.mean() < 0.8 * before.error.mean()
        assert after.jct_s.tolist() == before.jct_s.tolist()


def test_a_group_of_few_is_hardly_corrected():
    """The largest job took twice as long as it was told; it is one of its group beside PRIOR exact ones."""
    exact = played(1, FIFO)
    late = np.where(exact.apps.service_s == exact.apps.service_s.max(), 2.0, 1.0)
    largest = float(np.sort(exact.apps.service_s)[-2])
    correction = Correction.of([replace(exact, jct_s=exact.jct_s * late)], [largest, math.inf])
    assert PRIOR > 1
    assert correction.factors[-1] == pytest.approx([1.0, 1.0, 1.0])


def test_a_sample_never_corrects_itself():
    samples = tuple(automl(200, 16, 0.9, seed) for seed in range(3))
    bench = Bench(samples, 16, objectives_of(DEFAULT))
    jct_s, error = bench.cross_measure(SHORT_FIRST)
    values, correction = bench.learn(SHORT_FIRST)
    assert values == [jct_s, error]
    plain, own = bench.measure(SHORT_FIRST), bench.measure(Corrected(SHORT_FIRST, correction))
    assert jct_s == plain[0] == own[0]
    assert own[1] < error < plain[1]


def test_one_sample_alone_stays_as_it_was_played_forward():
    bench = Bench((automl(200, 16, 0.9, 1),), 16, objectives_of(DEFAULT))
    assert bench.cross_measure(SHORT_FIRST) == bench.measure(SHORT_FIRST)
