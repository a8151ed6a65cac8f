"""Partial allocation auctions (Cole, Gkatzelis and Goel, EC'13), as Themis holds them (Mahajan et al., NSDI'20).

Each bidder says what 0, 1, 2, ... more GPUs are worth to it. The winning division is proportionally fair: it maximises
the product of the values. Of what it wins, a bidder keeps the part by which its presence lowers the product of the
others' values: what it keeps is then worth most to it if it bids its true values, whatever the others bid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.ties import in_points

LEAST_VALUE = 1e-6
"""Smaller values count as this one: a product with a zero would compare nothing."""

_EQUAL = 1e-10  #: logarithms of products that differ by less are equal


class AuctionResult(NamedTuple):
    """The outcome of an auction, a row per bidder."""

    won: IntArray  #: GPUs of the proportionally fair division
    unpaid: FloatArray  #: the part of them that is left after the payment
    granted: IntArray  #: whole GPUs of that part


def hold_auction(values: FloatArray) -> AuctionResult:
    """Divide GPUs among bidders, by the value of 0, 1, 2, ... up to all the GPUs to each, a row per bidder.

    Among equal divisions the lexicographically least is taken.
    """
    bidders, gpus = len(values), values.shape[1] - 1
    worth = in_points(np.log(np.maximum(values, LEAST_VALUE)))
    after = np.zeros((bidders + 1, gpus + 1))  # the best of the bidders from a row on, with so many GPUs
    before = np.zeros((bidders + 1, gpus + 1))  # likewise of those before a row
    for row in range(bidders):
        before[row + 1] = _best_of_two(before[row], worth[row])
        last = bidders - 1 - row
        after[last] = _best_of_two(after[last + 1], worth[last])
    won = np.zeros(bidders, np.int64)
    left = gpus
    for row in range(bidders):
        products = worth[row, : left + 1] + after[row + 1, left::-1]
        won[row] = int(np.argmax(products >= after[row, left] - _EQUAL))
        left -= int(won[row])
    without = (before[:-1] + after[1:, ::-1]).max(axis=1, initial=-np.inf)
    unpaid = np.minimum(in_points(np.exp(after[0, gpus] - worth[np.arange(bidders), won] - without)), 1.0)
    return AuctionResult(won, unpaid, np.floor(unpaid * won + 1e-9).astype(np.int64))


def _best_of_two(some: FloatArray, worth: FloatArray) -> FloatArray:
    """Return the best sum for each number of GPUs that the bidders behind *some* and one more divide."""
    count = len(worth)
    rows, taken = np.tril_indices(count)
    best = np.full((count, count), -np.inf)
    best[rows, taken] = worth[taken] + some[rows - taken]
    return np.asarray(best.max(axis=1))
