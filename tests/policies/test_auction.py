"""Partial allocation auctions: the best division of all, payments, and no gain by bidding what is not true."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.research.scaling.auction import LEAST_VALUE, hold_auction

AUCTIONS = json.loads((Path(__file__).parents[1] / "data" / "themis_vectors.json").read_text())["auctions"]

seeds = st.integers(0, 1_000_000)


def rising(random, shape):
    """Values of 0, 1, 2, ... GPUs that never fall, and often stay the same."""
    return np.cumsum(random.random(shape) * (random.random(shape) < 0.7), axis=-1)


@st.composite
def auctions(draw):
    """The values of up to five GPUs to each of up to four bidders."""
    random = np.random.default_rng(draw(seeds))
    return rising(random, (draw(st.integers(1, 4)), draw(st.integers(2, 6))))


def divisions(bidders, gpus):
    return (one for one in itertools.product(range(gpus + 1), repeat=bidders) if sum(one) <= gpus)


def product(values, division):
    return math.prod(max(row[many], LEAST_VALUE) for row, many in zip(values, division, strict=True))


@pytest.mark.parametrize("auction", AUCTIONS)
def test_auctions_end_as_brute_force_says(auction):
    values = np.array([[0.0 if rho is None else 1 / rho for rho in app["rho"]] for app in auction["apps"]])
    found = hold_auction(values)
    assert found.won.tolist() == auction["proportional_fair"]
    assert found.granted.tolist() == auction["granted"]
    assert found.unpaid == pytest.approx(np.array(auction["kept"]), abs=1e-6)


@examples(100)
@given(auctions())
def test_no_division_has_a_larger_product(values):
    gpus = values.shape[1] - 1
    best = max(product(values, one) for one in divisions(len(values), gpus))
    found = hold_auction(values)
    assert product(values, found.won) == pytest.approx(best)
    assert found.won.sum() <= gpus


@examples(100)
@given(auctions())
def test_what_a_bidder_keeps_is_what_its_presence_leaves_to_the_others(values):
    found, gpus = hold_auction(values), values.shape[1] - 1
    for bidder in range(len(values)):
        others = np.delete(values, bidder, axis=0)
        without = max((product(others, one) for one in divisions(len(others), gpus)), default=1.0)
        assert found.unpaid[bidder] == pytest.approx(product(others, np.delete(found.won, bidder)) / without)
    assert (found.granted <= found.won).all()


@examples(200)
@given(auctions(), seeds)
def test_nobody_keeps_more_of_its_true_value_by_another_bid(values, seed):
    bidder = seed % len(values)
    false = values.copy()
    false[bidder] = rising(np.random.default_rng(seed), values.shape[1])

    def worth(found):
        return found.unpaid[bidder] * max(values[bidder, found.won[bidder]], LEAST_VALUE)

    assert worth(hold_auction(values)) >= worth(hold_auction(false)) - 1e-9


def test_of_equal_divisions_the_last_bidders_have_most():
    assert hold_auction(np.ones((3, 5))).won.tolist() == [0, 0, 0]
    assert hold_auction(np.array([[1.0, 2.0], [1.0, 2.0]])).won.tolist() == [0, 1]


def test_an_auction_without_bidders_ends_empty():
    assert hold_auction(np.zeros((0, 4))).won.tolist() == []
