"""Runtime estimates from earlier runs: the finest level that has runs, shrunk towards the coarser ones.

The levels are the user's runs under a similar name, the user's runs, runs with as many GPUs, and all runs. The fewer
runs a level has, the more it is shrunk towards the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.text.plural import count
from .baseline_features import Features
from .group_windows import Windows
from .training_runs import Runs

LAST_OF_NAME = 3  #: more would react more slowly when a user changes the job
LAST_OF_USER = 5
LAST_OF_ALL = 1000  #: of runs with as many GPUs, and of all runs

# How many runs of a level weigh as much as the coarser level.
_NAME_DOUBT = 1.0
_USER_DOUBT = 1.0
_GPUS_DOUBT = 20.0

NOTHING, ALL, GPUS, USER, NAME_FEW, NAME = KINDS = range(6)
"""Kinds of evidence, the finest last; NAME_FEW rests on fewer than LAST_OF_NAME runs."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each job at every level; -1 where it is new."""

    name: IntArray
    user: IntArray
    gpus: IntArray

    def distinct(self) -> tuple[Groups, IntArray]:
        """Return each combination once, and the index of each job's combination."""
        sizes = [int(codes.max(initial=0)) + 2 for codes in (self.user, self.gpus)]
        keys = ((self.name + 1) * sizes[0] + self.user + 1) * sizes[1] + self.gpus + 1
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return Groups(self.name[first], self.user[first], self.gpus[first]), which


@dataclass(frozen=True, eq=False)
class Estimate:
    """The natural logarithm of the runtime in seconds, the kind of evidence, and the number of runs behind it."""

    log_runtime: FloatArray
    kind: IntArray
    runs: IntArray


class GroupStatistics:
    """The statistics of ended runs by group, from which jobs are estimated."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.users = {name: code for code, name in enumerate(runs.user.names)}
        self.buckets = {name: code for code, name in enumerate(runs.bucket.names)}
        self.sizes, gpus = np.unique(runs.gpus, return_inverse=True)
        self.pairs, names = np.unique(self._pairs(runs.user.codes, runs.bucket.codes), return_inverse=True)
        self.groups = Groups(names, runs.user.codes, gpus)
        self._name = Windows.of(names, len(self.pairs), runs.log_runtime)
        self._user = Windows.of(runs.user.codes, len(self.users), runs.log_runtime)
        self._gpus = Windows.of(gpus, len(self.sizes), runs.log_runtime)
        self._all = Windows.of(np.zeros_like(gpus), min(1, len(gpus)), runs.log_runtime)

    def groups_of(self, jobs: Features) -> Groups:
        """Return the groups that *jobs* belong to."""
        users = jobs.user.map([self.users.get(name, -1) for name in jobs.user.names], np.int64)
        buckets = jobs.bucket.map([self.buckets.get(name, -1) for name in jobs.bucket.names], np.int64)
        names = _places(self.pairs, self._pairs(users, buckets))
        return Groups(np.where((users < 0) | (buckets < 0), -1, names), users, _places(self.sizes, jobs.gpus))

    def estimate(self, groups: Groups, ended_before: IntArray) -> Estimate:
        """Estimate jobs of *groups* from the first *ended_before* runs; logarithm and kind are 0 where none exist."""
        log, runs = self._all.means(np.zeros_like(groups.user), ended_before, LAST_OF_ALL)
        kind = np.where(runs > 0, ALL, NOTHING)
        levels = (
            (GPUS, _GPUS_DOUBT, self._gpus.means(groups.gpus, ended_before, LAST_OF_ALL)),
            (USER, _USER_DOUBT, self._user.medians(groups.user, ended_before, LAST_OF_USER)),
            (NAME, _NAME_DOUBT, self._name.medians(groups.name, ended_before, LAST_OF_NAME)),
        )
        for level, doubt, (value, number) in levels:
            log = (number * value + doubt * log) / (number + doubt)
            kind = np.where(number > 0, level, kind)
            runs = np.where(number > 0, number, runs)
        return Estimate(log, np.where((kind == NAME) & (runs < LAST_OF_NAME), NAME_FEW, kind), runs)

    def backtest(self, last: int) -> tuple[Estimate, IntArray]:
        """Estimate each of the *last* runs as at its submission; return the rows of those runs too."""
        rows = np.arange(max(0, len(self.runs) - last), len(self.runs))
        ended_before = np.searchsorted(self.runs.ended_s, self.runs.submitted_s[rows], side="right")
        groups = Groups(self.groups.name[rows], self.groups.user[rows], self.groups.gpus[rows])
        return self.estimate(groups, ended_before), rows

    def usual(self, user: IntArray, ended_before: IntArray, last: int) -> FloatArray:
        """Return the mean log runtime of each *user*'s *last* runs of the first *ended_before*; NaN where none are."""
        mean, number = self._user.means(user, ended_before, last)
        return np.where(number > 0, mean, np.nan)

    def source(self, groups: Groups, estimate: Estimate) -> Labels:
        """Return the source of each estimate in words."""
        columns = (groups.name, groups.user, groups.gpus, estimate.kind, estimate.runs)
        return Labels.of([self._sentence(*row) for row in zip(*(c.tolist() for c in columns), strict=True)])

    def _sentence(self, name: int, user: int, gpus: int, kind: int, number: int) -> str:
        runs = count(number, "run")
        if kind == NOTHING:
            return "no history: the time limit"
        if kind == ALL:
            return f"geometric mean of {runs} of all users"
        if kind == GPUS:
            return f"geometric mean of {runs} with {self.sizes[gpus]} GPUs"
        owner = self.runs.user.names[user]
        if kind == USER:
            return f"median of {runs} of {owner}"
        return f"median of {runs} of {owner}/{self.runs.bucket.names[self.pairs[name] % max(1, len(self.buckets))]}"

    def _pairs(self, users: IntArray, buckets: IntArray) -> IntArray:
        return users * max(1, len(self.buckets)) + buckets


def _places(ended_before: IntArray, wanted: IntArray) -> IntArray:
    """Return the index of each wanted number in the sorted *ended_before*; -1 where it is absent."""
    if not len(ended_before):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(ended_before, wanted), len(ended_before) - 1)
    return np.where(ended_before[places] == wanted, places, -1)
