"""Themis (Mahajan et al., NSDI'20): leases of GPUs, auctioned among the jobs that are farthest behind a fair finish.

The ratio of a job is the time from its submission to its end, on the GPUs that it has, over the time that it would take
on an equal share of the cluster. GPUs whose leases have ended are offered to the jobs with the worst ratios, which bid
one over the ratio that they would have with 0, 1, 2, ... of them. What the winners do not keep goes to the other jobs,
one GPU at a time, and what these cannot use to the bidders again: no GPU is idle while a job would be faster with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import Allocations, TrainingView
from ...policies.contract import scaling
from ...policies.parameters import defaults_of, of_numbers
from .auction import hold_auction
from .placing import placed

LEASE_S = 1_200.0
FAIRNESS = 0.8
"""The part of the jobs that sees no offer (f)."""


@dataclass(frozen=True)
class Themis:
    """The auctions with leases of *lease_s*, offered to the worst part 1 - *fairness* of the jobs."""

    lease_s: float = LEASE_S
    fairness: float = FAIRNESS

    def __call__(self, view: TrainingView) -> Allocations:
        """Return the allocation of each job. The memo has the end of its lease, and the iterations it began with."""
        jobs, total = view.jobs, int(view.nodes.gpus.sum())
        assert view.step_times is not None
        until_s, whole = jobs.memo.T if jobs.memo.size else np.full((2, len(jobs)), np.nan)
        whole = np.where(np.isnan(whole), jobs.left, whole)
        held = np.where(until_s > view.now_s, jobs.held.sum(axis=1), 0)
        most = np.minimum(jobs.most_gpus, total)
        ratio = finish_ratios(view.now_s - jobs.submit_s, jobs.left, whole, view.step_times.seconds, most, total)
        free = total - int(held.sum())
        gpus = held + self.divided(ratio, held, free)
        leased = (held == 0) & (gpus > 0)
        until_s = np.where(leased, view.now_s + self.lease_s, until_s)
        order = np.argsort(-gpus, kind="stable")
        return Allocations(placed(gpus, jobs.held, view.nodes.gpus, order), memo=np.stack([until_s, whole], axis=1))

    def divided(self, ratio: FloatArray, held: IntArray, free: int) -> IntArray:
        """Return how many of *free* GPUs each job gets, by the ratio it has on 0, 1, ... GPUs and the GPUs it holds."""
        has = held.copy()
        behind = np.lexsort((-ratio[:, 1], -ratio[np.arange(len(held)), held]))
        wants = [row for row in behind.tolist() if len(_more(ratio[row], held[row]))]
        if free < 1 or not wants:
            return has - held
        bidders = wants[: max(1, math.ceil((1 - self.fairness) * len(held) - 1e-9))]
        more = np.minimum(held[bidders, None] + np.arange(free + 1), ratio.shape[1] - 1)
        bids = 1 / ratio[np.array(bidders)[:, None], more]
        for row, granted in zip(bidders, hold_auction(bids).granted.tolist(), strict=True):
            while len(wanted := _more(ratio[row], has[row])) and wanted[0] <= held[row] + granted:
                has[row] = wanted[0]
        left = free - int((has - held).sum())
        for takers in (wants[len(bidders) :], bidders):
            served = True
            while left and served:
                served = False
                for row in takers:
                    wanted = _more(ratio[row], has[row])
                    if len(wanted) and wanted[0] - has[row] <= left:
                        left -= int(wanted[0] - has[row])
                        has[row], served = wanted[0], True
        return has - held


def finish_ratios(
    since_s: FloatArray, left: FloatArray, total: FloatArray, step_s: FloatArray, most: IntArray, gpus: int
) -> FloatArray:
    """Return the finish-time ratio of each job on 0, 1, 2, ... GPUs; more than *most* are worth no more than those.

    *step_s* are the seconds of an iteration on as many GPUs, *gpus* those that all jobs would share equally. Infinite
    on 0 GPUs.
    """
    rows = np.arange(len(most))
    columns = np.minimum(np.arange(step_s.shape[1]), most[:, None])
    step_s = np.minimum.accumulate(step_s[rows[:, None], columns], axis=1)
    fair = np.minimum(max(1, gpus // max(1, len(most))), most)
    can = np.maximum(fair, np.argmax(np.isfinite(step_s), axis=1))
    fair_s = step_s[rows, can] * can / fair  # one that needs more than an equal share has them for a part of the time
    ratio: FloatArray = (since_s[:, None] + left[:, None] * step_s) / (total * fair_s)[:, None]
    return ratio


def _more(ratio: FloatArray, has: int) -> IntArray:
    """Return the numbers of GPUs on which a job would be faster than on those it has."""
    return has + 1 + np.flatnonzero(ratio[has + 1 :] < ratio[has])


@scaling("themis", needs=("step_times",), tuned=partial(of_numbers, Themis, "themis"), defaults=defaults_of(Themis))
def themis(view: TrainingView) -> Allocations:
    """Leases of GPUs, auctioned among the jobs that are farthest behind a fair finish (Themis, NSDI'20)."""
    return Themis()(view)
