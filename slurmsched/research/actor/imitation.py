"""Imitation of an order by a linear actor, with PyTorch: the first part of the training.

The loss is that of lists (Cao et al., "Learning to Rank", ICML 2007): the cross entropy between the probabilities with
which the scores of the order and those of the actor would choose each waiting job first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...cluster.columns import FloatArray
from ...policies.ordering.mlfs_rl import Actor
from .week_loop import Decisions

if TYPE_CHECKING:
    import torch

STEPS = 200
RIDGE = 1e-6  #: so that of several features that say the same none grows against the others

Imitator = Callable[[Decisions, Actor, FloatArray], FloatArray]
"""Return linear weights from decisions, an actor to imitate, and the deviation of each feature, which is their unit."""


def imitated(decisions: Decisions, teacher: Actor, deviation: FloatArray) -> FloatArray:
    """Return the weights whose choices in *decisions* are nearest to those of *teacher*; always the same."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of sums would depend on their number
    try:
        varies = deviation > 0
        rows = torch.as_tensor(np.where(varies, decisions.rows / np.where(varies, deviation, 1.0), 0.0))
        lists = torch.as_tensor(np.repeat(np.arange(len(decisions.first) - 1), np.diff(decisions.first)))
        count = len(decisions.first) - 1
        wanted = _log_shares(torch.as_tensor(teacher.scores(decisions.rows)), lists, count).exp()
        weights = torch.zeros(rows.shape[1], dtype=rows.dtype, requires_grad=True)
        optimizer = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            found = -(wanted * _log_shares(rows @ weights, lists, count)).sum() / count + RIDGE * weights.square().sum()
            torch.autograd.backward(found)
            return found

        optimizer.step(loss)
        return np.asarray(weights.detach().numpy(), dtype=np.float64)
    finally:
        torch.set_num_threads(threads)


def _log_shares(scores: torch.Tensor, lists: torch.Tensor, count: int) -> torch.Tensor:
    """Return the logarithm of the softmax of *scores* within each of so many *lists*."""
    import torch

    highest = torch.full((count,), -torch.inf, dtype=scores.dtype).scatter_reduce(0, lists, scores.detach(), "amax")
    above = scores - highest[lists]
    total = torch.zeros(count, dtype=scores.dtype).index_add(0, lists, above.exp())
    return above - total.log()[lists]
