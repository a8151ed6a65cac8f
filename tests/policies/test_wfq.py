"""The rules of weighted fair queueing: classes, weights, caps, and how GPUs are shared out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.errors import ConfigError
from slurmsched.policies.ordering.wfq import FIFO, LEAST_WEIGHT, NO_LIMIT, Wfq, most_variation, thresholds
from slurmsched.research.elastic.weighted_shares import share_out

SIZES = st.lists(st.floats(1, 1e7), min_size=1, max_size=60).map(np.array)
INF = math.inf


def variation(sizes: np.ndarray) -> float:
    return float(sizes.var() / sizes.mean() ** 2)


@given(SIZES, st.floats(0.01, 5))
def test_sizes_in_a_class_vary_no_more_than_was_asked(sizes, most):
    wfq = Wfq.of(sizes, most, 0.5, 0.8)
    group = wfq.classes(sizes)
    assert all(variation(sizes[group == one]) <= most + 1e-6 for one in np.unique(group))


@given(SIZES, st.floats(0.01, 5))
def test_no_class_is_empty_and_none_could_take_the_first_of_the_next(sizes, most):
    wfq = Wfq.of(sizes, most, 0.5, 0.8)
    group = wfq.classes(sizes)
    assert sorted(set(group.tolist())) == list(range(len(wfq.thresholds)))
    for one in range(len(wfq.thresholds) - 1):
        following = sizes[group == one + 1]
        grown = np.concatenate((sizes[group == one], following[following == following.min()]))
        assert variation(grown) > most - 1e-6


@given(SIZES)
def test_beyond_the_largest_variation_there_is_one_class(sizes):
    assert thresholds(sizes, most_variation(sizes) + 1e-9) == [INF]


def test_a_size_at_a_threshold_belongs_below_it():
    wfq = Wfq((10.0, 20.0, INF), (0.5, 0.25, 0.25), 0.0)
    assert wfq.classes(np.array([1, 10, 10.1, 20, 1e9])).tolist() == [0, 0, 1, 1, 2]


def test_weights_fall_by_e_to_the_w():
    """The published PCS-jct and PCS-bal have the weights of W 0.5 and -0.67, rounded."""
    sizes = np.array([1, 2, 1e3, 2e3, 1e6, 2e6, 1e9, 2e9])
    falling, rising = Wfq.of(sizes, 0.2, 0.5, 0.8), Wfq.of(sizes[:6], 0.2, -0.67, 0.8)
    assert falling.weights == pytest.approx((5 / 11, 276 / 1001, 24 / 143, 102 / 1001), abs=2e-3)
    assert rising.weights == pytest.approx((147 / 1000, 36 / 125, 113 / 200), abs=5e-3)


def test_no_class_starves_however_steep_the_weights_are():
    wfq = Wfq.of(10.0 ** np.arange(12), 0.01, 700.0, 0.8)
    assert min(wfq.weights) == pytest.approx(LEAST_WEIGHT, rel=0.02)


def test_the_cap_is_one_gpu_less_than_the_first_that_is_too_inefficient():
    speed = np.array([[0, 1, 1.8, 2.1, 3.9], [0, 1, 2, 3, 4.0]])  # per GPU: 1, 0.9, 0.7, 0.975 and 1
    assert Wfq((INF,), (1.0,), 0.8, 0.05).limits(speed).tolist() == [[2, NO_LIMIT]] * 2 + [[NO_LIMIT, NO_LIMIT]]
    assert FIFO.limits(speed).tolist() == [[NO_LIMIT, NO_LIMIT]]


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 50)), min_size=1, max_size=8), st.floats(1, 64))
def test_shares_use_all_gpus_that_are_wanted_and_are_in_proportion_to_weights(classes, gpus):
    weights, wanted = (np.array(column) for column in zip(*classes, strict=True))
    share = np.zeros(len(classes))
    share_out(gpus, weights, wanted, share)
    assert share.sum() == pytest.approx(min(gpus, wanted.sum()))
    assert np.all(share <= wanted + 1e-9)
    rate = share / weights
    short = share < wanted - 1e-6
    if short.any():
        assert rate[short].max() == pytest.approx(rate[short].min(), rel=1e-6)
        assert np.all(rate <= rate[short].min() * (1 + 1e-6) + 1e-9), "who got all it wanted got no more than its part"


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: Wfq((5.0, 5.0, INF), (0.5, 0.25, 0.25), 0.5), "thresholds"),
        (lambda: Wfq((5.0,), (1.0,), 0.5), "thresholds"),
        (lambda: Wfq((5.0, INF), (1.0, 0.0), 0.5), "weights"),
        (lambda: Wfq((5.0, INF), (0.7, 0.7), 0.5), "weights"),
        (lambda: Wfq((INF,), (1.0,), 1.5), "zeta"),
        (lambda: Wfq((INF,), (1.0,), 0.5, 0.0), "delta"),
        (lambda: Wfq.of(np.array([1.0, 2.0]), -1.0, 0.5, 0.5), "variation"),
        (lambda: Wfq.of(np.array([1.0, 2.0]), 1.0, math.nan, 0.5), "slope"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(made, named):
    with pytest.raises(ConfigError, match=f"wfq: {named} = .*accepted is"):
        made()
