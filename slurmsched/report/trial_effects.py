"""What a trial of the policy found: the effect on the waits of all jobs and of each account, with intervals.

A measured block gives the mean number of its waiting jobs. Of each pair of blocks the number with the policy less that
without it is one observation; over the jobs that come in a second it is a wait (Little 1961). The interval is that of
Student's t over the pairs, whose order was drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.records.trial import OfBlock, Trial, TrialSums

CONFIDENCE = 0.95
LEAST_PAIRS = 3
IN_A_ROW = 3  #: pairs after each of which harm must show
LEAST_JOBS = 20  #: of an account, for an interval
COVERED = 0.8  #: the part of the measured time of a block in which a daemon must have counted

Sums = Mapping[OfBlock, TrialSums]


class TrialEffect(TypedDict):
    """The mean wait of the jobs of an account with the policy less that without it; negative is shorter.

    Null where it is not known yet.
    """

    account: str  #: empty for all jobs
    jobs: float  #: that came in measured time
    wait_s: float  #: mean wait without the policy
    change_s: float
    low_s: float  #: of the interval of 95 %
    high_s: float


class TrialFacts(TypedDict):
    """A trial of the policy, and what it found so far."""

    started_s: float
    by: str | None
    seed: int | None
    block_s: float
    washout_s: float
    blocks: int
    holdout: float
    harm_s: float
    until_s: float
    ended_s: float | None
    ending: str
    detail: str
    keeps_off: bool  #: it harmed, and the policy stays off
    block: int | None  #: the present one
    acts: bool | None  #: it has the policy
    block_until_s: float | None
    pairs: int  #: of blocks that count
    left_out: int  #: pairs that are over and do not count: the daemon was away, paused, or did not act
    effects: Sequence[TrialEffect]
    held_out: Sequence[TrialEffect]  #: waits of held-out jobs less those of others in blocks with the policy


def trial_facts(trial: Trial, sums: Sums, now_s: float) -> TrialFacts:
    """Return all about a trial as of *now_s*."""
    pairs, over = _pairs(trial, sums, now_s)
    block = trial.block(now_s)
    return {
        "started_s": trial.started_s,
        "by": trial.by,
        "seed": trial.seed,
        "block_s": trial.block_s,
        "washout_s": trial.washout_s,
        "blocks": trial.blocks,
        "holdout": trial.holdout,
        "harm_s": trial.harm_s,
        "until_s": trial.until_s,
        "ended_s": None if math.isnan(trial.ended_s) else trial.ended_s,
        "ending": trial.ending,
        "detail": trial.detail,
        "keeps_off": trial.keeps_off,
        "block": None if block is None else block.number,
        "acts": None if block is None else block.acts,
        "block_until_s": None if block is None else block.until_s,
        "pairs": len(pairs),
        "left_out": over - len(pairs),
        "effects": list(_effects(sums, pairs)),
        "held_out": list(_held_out(sums, pairs)),
    }


def harm(trial: Trial, sums: Sums, now_s: float) -> str:
    """Return in a sentence whom the policy harms beyond the bound of *trial*; empty where it harms nobody so.

    The mean is beyond the bound and the interval lies above 0, after IN_A_ROW pairs one after the other: it is looked
    at after each pair, and otherwise one in six policies without any effect would end its trial in a week.
    """
    pairs, _ = _pairs(trial, sums, now_s)
    looks = [list(_effects(sums, pairs[: len(pairs) - back])) for back in range(IN_A_ROW)]
    harmed = [{one["account"] for one in effects if _harms(one, trial.harm_s)} for effects in looks]
    for one in looks[0]:
        if trial.harm_s and all(one["account"] in accounts for accounts in harmed):
            whose = f"account {one['account']}" if one["account"] else "all accounts together"
            return (
                f"jobs of {whose} wait {one['change_s']:.0f} s longer with the policy ({one['low_s']:.0f} to "
                f"{one['high_s']:.0f} s), more than the bound of {trial.harm_s:.0f} s"
            )
    return ""


def _harms(effect: TrialEffect, bound_s: float) -> bool:
    return effect["change_s"] > bound_s and effect["low_s"] > 0


def _pairs(trial: Trial, sums: Sums, now_s: float) -> tuple[list[tuple[int, int]], int]:
    """Return the numbers of the blocks with and without the policy of each pair that counts, and how many are over."""
    over = min(trial.blocks, math.floor((now_s - trial.started_s) / trial.block_s)) // 2
    least_s = COVERED * (trial.block_s - trial.washout_s)
    found = []
    for pair in range(max(over, 0)):
        first, second = 2 * pair, 2 * pair + 1
        if all(sums.get(OfBlock(number, ""), TrialSums()).counted_s >= least_s for number in (first, second)):
            found.append((first, second) if trial.numbered(first).acts else (second, first))
    return found, max(over, 0)


def _effects(sums: Sums, pairs: Sequence[tuple[int, int]]) -> Iterator[TrialEffect]:
    """Yield the effect on all jobs, then that on each account, those that wait more first."""
    if not pairs:
        return
    of = {account: _waits(sums, account, pairs) for account in _accounts(sums)}
    seconds = np.array([[sums[OfBlock(number, "")].counted_s for number in pair] for pair in pairs])
    waited_s, came = (np.sum([one[at] for one in of.values()], axis=0) if of else 0.0 * seconds for at in (0, 1))
    yield _effect("", waited_s, came, seconds)
    found = [_effect(account, *waits, seconds) for account, waits in of.items()]
    yield from sorted(found, key=lambda one: (-_known(one["change_s"]), one["account"]))


def _accounts(sums: Sums) -> list[str]:
    return sorted({of.account for of in sums} - {""})


def _waits(sums: Sums, account: str, pairs: Sequence[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
    """Return the seconds waited and the jobs that came, by pair, with and without the policy."""
    each = [[sums.get(OfBlock(number, account), TrialSums()) for number in pair] for pair in pairs]
    return (
        np.array([[one.waited_s for one in pair] for pair in each]),
        np.array([[one.came for one in pair] for pair in each]),
    )


def _effect(account: str, waited_s: FloatArray, came: FloatArray, seconds: FloatArray) -> TrialEffect:
    jobs, rate = float(came.sum()), float(came.sum() / seconds.sum())
    waiting = waited_s / seconds  # the mean number of waiting jobs
    change, half = _mean_and_half(waiting[:, 0] - waiting[:, 1])
    known = rate > 0 and jobs >= LEAST_JOBS
    change_s, half_s = (change / rate, half / rate) if known else (math.nan, math.nan)
    wait_s = float(waiting[:, 1].mean()) / rate if known else math.nan
    return {
        "account": account,
        "jobs": jobs,
        "wait_s": wait_s,
        "change_s": change_s,
        "low_s": change_s - half_s,
        "high_s": change_s + half_s,
    }


def _held_out(sums: Sums, pairs: Sequence[tuple[int, int]]) -> Iterator[TrialEffect]:
    """Yield the mean wait of held-out jobs less that of the others in blocks with the policy, over these blocks."""
    blocks = [[one for of, one in sums.items() if of.block == acts and of.account] for acts, _ in pairs]
    rows = np.array([[sum(each) for each in zip(*one, strict=True)] for one in blocks if one], dtype=np.float64)
    if not len(rows) or not rows[:, 4].sum():
        return
    _, waited_s, came, out_s, out = rows.T
    others_s, others = waited_s - out_s, came - out
    if others.sum() <= 0 or out.sum() < LEAST_JOBS:
        return
    mine, theirs = float(out_s.sum() / out.sum()), float(others_s.sum() / others.sum())
    rest = (out_s - mine * out) / out.mean() - (others_s - theirs * others) / others.mean()  # of two ratios
    half_s = _mean_and_half(rest)[1]
    change_s = mine - theirs
    yield {
        "account": "",
        "jobs": float(out.sum()),
        "wait_s": theirs,
        "change_s": change_s,
        "low_s": change_s - half_s,
        "high_s": change_s + half_s,
    }


def _mean_and_half(values: FloatArray) -> tuple[float, float]:
    """Return the mean of independent values, and half the length of its interval; NaN for too few of them."""
    count = len(values)
    if count < LEAST_PAIRS:
        return float(values.mean()) if count else math.nan, math.nan
    return float(values.mean()), student_t(count - 1) * float(values.std(ddof=1)) / math.sqrt(count)


def student_t(degrees: int) -> float:
    """Return how many standard errors the interval reaches to either side, for so many degrees of freedom.

    By bisection of the distribution function, whose tail is an integral over an angle (Abramowitz and Stegun 26.7).
    """
    low, high = 1.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, degrees) < CONFIDENCE else (low, middle)
    return high


def _inside(t: float, degrees: int) -> float:
    """Return the probability that a value of Student's distribution lies within *t* of 0."""
    angle = math.atan(t / math.sqrt(degrees))
    cosines, term = 0.0, 1.0
    if degrees % 2:
        term = math.cos(angle)
        for k in range(1, degrees - 1, 2):
            cosines += term
            term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
        return 2 / math.pi * (angle + math.sin(angle) * cosines)
    for k in range(0, degrees - 1, 2):
        cosines += term
        term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
    return math.sin(angle) * cosines


def _known(value: float) -> float:
    return value if value == value else -math.inf
