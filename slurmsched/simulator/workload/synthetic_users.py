"""Generated users, recurrent job names and generous time limits, for traces published without them.

What is attached is evidence of the runtime, as real names are: a user submits the same kind of job repeatedly, with
similar runtimes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from .workload import Workload

_WORDS = (
    *("train", "eval", "debug", "finetune", "pretrain", "sweep", "bert", "resnet", "gan", "rl"),
    *("lstm", "asr", "nmt", "seg", "det", "rec", "vae", "graph", "baseline", "ablation"),
)
_HOUR_S = 3600.0
#: Common requests; longer ones are whole days.
_USUAL_S = np.array([1 / 6, 0.5, 1, 2, 4, 8, 12, 24, 48, 72, 120, 168, 336, 672]) * _HOUR_S
_CAMPAIGN = 12  #: jobs of one user under one name in a row, on average


@dataclass(frozen=True)
class SyntheticUsers:
    """The behaviour of users. ValueError for an invalid figure."""

    users: int = 300
    skew: float = 1.1  #: exponent of the Zipf law of submissions per user; 0 if all submit alike
    recurrence: float = 0.6  #: share of the variance of log runtime explained by user and name, VC and time apart
    slack: float = 1.5  #: median of a time limit over the longest of the runs that share it
    limits: bool = True  #: True if jobs have time limits

    def __post_init__(self) -> None:
        if self.users < 1:
            raise ValueError(f"users = {self.users}: accepted are 1 and more")
        if not 0 <= self.recurrence <= 1:
            raise ValueError(f"recurrence = {self.recurrence}: accepted are shares from 0 to 1")
        if not (self.slack >= 1 and self.skew >= 0):
            raise ValueError(f"slack = {self.slack}, skew = {self.skew}: accepted are slack from 1 and skew from 0 on")


def semisynthetic(jobs: Workload, habits: SyntheticUsers, random: np.random.Generator) -> Workload:
    """Attach users, names and time limits to *jobs*; the same input and seed give the same output."""
    if not len(jobs):
        return jobs
    virtual = jobs.partition.codes
    campaign, stratum = _campaigns(jobs, habits, random)
    user = _users(campaign, virtual, len(jobs.partition.names), habits, random)
    width = max(len(str(int(user.max()))), 3)
    attached = replace(
        jobs,
        user=Labels.of(f"u{number:0{width}}" for number in user.tolist()),
        name=Labels.of(_names(campaign, stratum, user, random)),
    )
    return replace(attached, time_limit_s=_limits(jobs, campaign, habits, random)) if habits.limits else attached


def _campaigns(jobs: Workload, habits: SyntheticUsers, random: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Group jobs into campaigns, numbered from 0, and return the quantile (0..1) of each job's kind within its VC."""
    length, virtual = len(jobs), jobs.partition.codes
    log = np.log(np.maximum(jobs.runtime_s, 1.0))
    standardised = (log - log.mean()) / (log.std() or 1.0)
    kind = np.sqrt(habits.recurrence) * standardised + np.sqrt(1 - habits.recurrence) * random.standard_normal(length)
    order = np.lexsort((kind, virtual))
    sizes = np.bincount(virtual, minlength=len(jobs.partition.names))
    place = np.empty(length)
    place[order] = (np.arange(length) - np.repeat(np.cumsum(sizes) - sizes, sizes)) / np.repeat(
        np.maximum(sizes, 1), sizes
    )
    strata = np.clip(sizes // (4 * _CAMPAIGN), 1, 4 * len(_WORDS))
    number = virtual * (4 * len(_WORDS)) + (place * strata[virtual]).astype(np.int64)
    # In a stratum jobs come in order of submission; a campaign is a stretch of them.
    queue = np.lexsort((np.arange(length), number))
    new = random.random(length) < 1 / _CAMPAIGN
    new[0] = True
    new[1:] |= np.diff(number[queue]) != 0
    campaign = np.empty(length, dtype=np.int64)
    campaign[queue] = np.cumsum(new) - 1
    return campaign, (place * strata[virtual]).astype(np.int64) / strata[virtual]


def _users(
    campaign: IntArray, virtual: IntArray, virtuals: int, habits: SyntheticUsers, random: np.random.Generator
) -> IntArray:
    """Return the user of each job: one for a campaign, each VC with users of its own."""
    each = max(habits.users // virtuals, 1)
    weights = 1 / np.arange(1, each + 1) ** habits.skew
    drawn = random.choice(each, size=int(campaign.max()) + 1, p=weights / weights.sum())
    return np.asarray(drawn[campaign] * virtuals + virtual, dtype=np.int64)


def _names(campaign: IntArray, stratum: FloatArray, user: IntArray, random: np.random.Generator) -> Iterator[str]:
    """Yield names like ``train_07_v3``: a user's word for a kind of job, the campaign, and the attempt in it."""
    turn = random.permutation(int(user.max()) + 1)  # different users call different jobs "train"
    word = ((stratum * len(_WORDS)).astype(np.int64) + turn[user]) % len(_WORDS)
    tries = np.zeros(int(campaign.max()) + 1, dtype=np.int64)
    for which, name in zip(campaign.tolist(), word.tolist(), strict=True):
        tries[which] += 1
        yield f"{_WORDS[name]}_{which % 100:02}_v{tries[which]}"


def _limits(jobs: Workload, campaign: IntArray, habits: SyntheticUsers, random: np.random.Generator) -> FloatArray:
    """Return time limits: one for a campaign, longer than its longest run, rounded up to a common request."""
    longest_s = np.zeros(int(campaign.max()) + 1)
    np.maximum.at(longest_s, campaign, jobs.runtime_s)
    wanted_s = longest_s * np.maximum(random.lognormal(np.log(habits.slack), 0.8, len(longest_s)), 1.02)
    usual = np.searchsorted(_USUAL_S, wanted_s)
    days_s = np.ceil(wanted_s / (24 * _HOUR_S)) * 24 * _HOUR_S
    limit_s = np.where(usual < len(_USUAL_S), _USUAL_S[np.minimum(usual, len(_USUAL_S) - 1)], days_s)
    return np.asarray(limit_s[campaign])
