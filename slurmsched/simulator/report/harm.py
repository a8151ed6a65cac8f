"""Harm of a policy: users and virtual clusters whose jobs take longer than under a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, Labels
from ...errors import ConfigError
from ..replay import Replay
from ..setup import STOCK, Setup
from .gain import Gain
from .metrics import Summary

WORSE = 1.1  #: the ratio of mean JCTs above which a user counts as worse off
SHOWN = 10  #: number of the worst and the best that are named


@dataclass(frozen=True)
class GroupChange:
    """The mean JCT of one user or virtual cluster under the baseline and under the policy."""

    name: str
    jobs: int
    baseline_jct_s: float
    jct_s: float
    ratio: float


@dataclass(frozen=True)
class GroupChanges:
    """The changes of all users, or of all virtual clusters; the extremes by name, the most extreme first."""

    count: int
    worse: int  #: number whose mean JCT grew by more than 10 %
    worst: tuple[GroupChange, ...]
    best: tuple[GroupChange, ...]

    @classmethod
    def of(cls, who: Labels, baseline_s: FloatArray, jct_s: FloatArray) -> Self | None:
        """Compute the changes of the names in *who*; None where no job has one. Jobs without a name are left out."""
        size = len(who.names)
        ratio, before_s, after_s = np.full(size, np.nan), np.zeros(size), np.zeros(size)
        jobs = np.bincount(who.codes, minlength=size)
        there = (jobs > 0) & np.array([bool(name) for name in who.names], dtype=bool)
        if not there.any():
            return None
        np.divide(np.bincount(who.codes, baseline_s, size), jobs, out=before_s, where=there)
        np.divide(np.bincount(who.codes, jct_s, size), jobs, out=after_s, where=there)
        np.divide(after_s, before_s, out=ratio, where=there & (before_s > 0))
        rows = np.flatnonzero(np.isfinite(ratio))
        rows = rows[np.lexsort((-jobs[rows], -ratio[rows]))]

        def change(row: int) -> GroupChange:
            return GroupChange(
                who.names[row], int(jobs[row]), float(before_s[row]), float(after_s[row]), float(ratio[row])
            )

        worst, best = tuple(map(change, rows[:SHOWN].tolist())), tuple(map(change, rows[::-1][:SHOWN].tolist()))
        return cls(int(there.sum()), int((ratio[rows] > WORSE).sum()), worst, best)


@dataclass(frozen=True)
class Harm:
    """A replay beside the baseline; None where the trace names no users, or no virtual clusters."""

    baseline: str
    users: GroupChanges | None
    virtual_clusters: GroupChanges | None


@dataclass(frozen=True)
class SimulatedPolicy(Summary):
    """The figures of one policy on one trace, beside the baseline."""

    trace: str
    load: float | None
    seed: int | None
    harm: Harm | None  #: None for the baseline itself, and so is the next
    gain: Gain | None  #: in mean JCT


def harm(replay: Replay, baseline: Replay) -> Harm:
    """Compare users and virtual clusters in two replays; ConfigError where these are of different jobs."""
    jobs = replay.workload
    if jobs is not baseline.workload and not (
        np.array_equal(jobs.job_id, baseline.workload.job_id)
        and np.array_equal(jobs.submit_s, baseline.workload.submit_s)
    ):
        raise ConfigError(
            f"{replay.setup.label} and {baseline.setup.label} cannot be compared: they replayed different jobs"
        )
    before_s, after_s = (one.end_s[one.measured] - jobs.submit_s[one.measured] for one in (baseline, replay))
    jobs = jobs.take(replay.measured)
    return Harm(
        baseline.setup.label,
        GroupChanges.of(jobs.user, before_s, after_s),
        GroupChanges.of(jobs.partition, before_s, after_s),
    )


def baseline_of(setups: Sequence[Setup]) -> int:
    """Return the index of the reference among *setups*: the model of stock Slurm, else the first."""
    names = [setup.label for setup in setups]
    return names.index(STOCK) if STOCK in names else 0
