"""Each user's record of runs that went far beyond their forecasts, and its effect on the next forecasts.

Short runs under a name make the next forecast under it short, at almost no cost. Abuse of this leaves a trace: much
time goes into runs that were forecast to take a fraction of it. The record weighs runs by their length, so that a short
run counts for as little as it costs, and covers the last WINDOW_S of the history.

Orderings rank a job as no shorter than a floor between its forecast and the length of the user's overruns, in
logarithms. The position of the floor is the product of three shares: the certainty of the record, the share of
overruns in the time of runs with a short forecast, and the share of overruns beside rightly forecast runs under the
job's own name. The forecast itself stays: most runs after a short forecast are short, honest or bait, and only the
order rewards bait. Records of other users have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.job_kind import printable
from .baseline_features import Described, features

RIGHT = 4.0  #: runtime over forecast up to which a run counts as rightly forecast
LEAST_S = 600.0  #: shorter runs are no overruns
WINDOW_S = 30 * 86400.0  #: length of the record, before the last known end
NAME = (0.3, 0.8)  #: ends of the ramp over overruns' share of the time under the job's name, one typical overrun added
WHY = "ranked as longer: the user's runs went far beyond their forecasts"

_BANDS = 16  # of lengths, each twice as long as the one before
_PIECES = 4


class Trust(NamedTuple):
    """The evidence a record needs to raise a floor: where the effect begins, and where it is complete."""

    far: float  #: runtime over forecast from which a run is an overrun
    log_excess: tuple[float, float]  #: sum of log(runtime / forecast) over the overruns
    share: tuple[float, float]  #: of overruns in the time of runs that were forecast to be short
    short: float  #: overruns' length over a forecast from which that forecast was short


#: For medians of the last runs, which a few short runs can steer.
IN_MEDIANS = Trust(16.0, (7.0, 14.0), (0.5, 0.75), 8.0)
#: For trained models, which are more accurate.
IN_TRAINED = Trust(8.0, (7.0, 14.0), (0.5, 0.75), 4.0)


class Record(NamedTuple):
    """Statistics of the overruns of each user."""

    overruns: FloatArray  #: how many
    log_length: FloatArray  #: their mean log runtime, weighted by runtime
    log_beyond: FloatArray  #: their mean log(runtime / forecast)
    weight: FloatArray  #: 0..1, how far up a job under a new name is ranked towards their length


@dataclass(frozen=True)
class Overrunner:
    """A user with runs in the last WINDOW_S that went far beyond their forecasts."""

    user: str
    runs: int  #: number that went far beyond
    times: float  #: their runtime over forecast, geometric mean
    length_s: float  #: their typical runtime
    raised: float  #: 0..1, how far up a job under a new name is ranked towards that, in logarithms


@dataclass(frozen=True, eq=False)
class Sums:
    """Running sums of columns by group, at any moment of a history."""

    keys: IntArray  #: group * (rows + 1) + row, sorted
    running: IntArray  #: in thousandths, shape (columns, rows + 1); integers, so that sums do not depend on rounding

    @classmethod
    def of(cls, groups: IntArray, columns: FloatArray) -> Self:
        """Compute the sums of *columns*, shape (columns, rows), over rows with equal *groups*."""
        order = np.argsort(groups, kind="stable")
        running = np.zeros((len(columns), len(groups) + 1), dtype=np.int64)
        np.cumsum(np.rint(columns[:, order] * 1000.0).astype(np.int64), axis=1, out=running[:, 1:])
        return cls(groups[order] * (len(groups) + 1) + order, running)

    def between(self, groups: IntArray, since: IntArray, ended_before: IntArray) -> FloatArray:
        """Return sums over rows *since* to *ended_before* of *groups*, shape (columns, groups); 0 for group -1."""
        begin, end = (np.searchsorted(self.keys, groups * self.running.shape[1] + row) for row in (since, ended_before))
        sums: FloatArray = (self.running.take(end, axis=1) - self.running.take(begin, axis=1)) / 1000.0
        return np.where(groups >= 0, sums, 0.0)


@dataclass(frozen=True, eq=False)
class Overruns:
    """The records of all users, from runs in the order they ended."""

    user: IntArray  #: of each run, 0 and more
    name: IntArray  #: of each run, 0 and more; no two users have one in common
    ended_s: FloatArray
    log_runtime: FloatArray
    log_forecast: FloatArray  #: at submission; NaN where there was none
    trust: Trust

    @classmethod
    def of(
        cls, runs: Described, ended_s: FloatArray, log_runtime: FloatArray, log_forecast: FloatArray, trust: Trust
    ) -> Self:
        """Compute the records of *runs*, whose names are compared without their numbers."""
        job_features = features(runs)
        users, buckets = (_distinct(texts) for texts in (job_features.user, job_features.bucket))
        names = np.unique(users * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)[1]
        return cls(users, names, ended_s, log_runtime, log_forecast, trust)

    @cached_property
    def beyond(self) -> BoolArray:
        """The runs that are overruns."""
        beyond: BoolArray = (self.log_runtime >= np.log(LEAST_S)) & (self._miss > np.log(self.trust.far))
        return beyond

    def raised(self, user: IntArray, name: IntArray, log_forecast: FloatArray, ended_before: IntArray) -> FloatArray:
        """Return *log_forecast* raised by the records of the first *ended_before* runs; -1 is a new name."""
        if not self.beyond.any():
            return log_forecast
        since = self._since(ended_before)
        return _raised(
            self._record(user, since, ended_before), self._names.between(name, since, ended_before), log_forecast
        )

    def raised_now(self, user: IntArray, name: IntArray, log_forecast: FloatArray) -> FloatArray:
        """Return *log_forecast* raised by the records of all runs, from precomputed sums."""
        if not self.active:
            return log_forecast
        record = Record(*(np.append(column, 0.0).take(user) for column in self.now))
        return _raised(record, self._names_now.take(name, axis=1), log_forecast)

    def overrunners(self, users: Sequence[str]) -> tuple[Overrunner, ...]:
        """Return those of *users*, by their numbers, who have overruns, the highest *raised* first."""
        record = self.now
        rows = np.flatnonzero(record.overruns > 0)
        found = [
            Overrunner(printable(users[row]), int(record.overruns[row]), times, length_s, float(record.weight[row]))
            for row, times, length_s in zip(
                rows.tolist(),
                np.exp(record.log_beyond[rows]).tolist(),
                np.exp(record.log_length[rows]).tolist(),
                strict=True,
            )
        ]
        return tuple(sorted(found, key=lambda one: (-one.raised, -one.runs, one.user)))

    @property
    def active(self) -> bool:
        """True if any record raises a floor when all runs have ended."""
        return bool(self.now.weight.any())

    @cached_property
    def now(self) -> Record:
        """The record of each user when all runs have ended."""
        users = np.arange(int(self.user.max(initial=-1)) + 1)
        ended_before = np.full(len(users), len(self.user))
        return self._record(users, self._since(ended_before), ended_before)

    @cached_property
    def _miss(self) -> FloatArray:
        return np.where(np.isnan(self.log_forecast), 0.0, self.log_runtime - self.log_forecast)

    @cached_property
    def _names_now(self) -> FloatArray:
        """The sums of ``_names`` for each name; the last is for a new one."""
        names = np.append(np.arange(int(self.name.max(initial=-1)) + 1), -1)
        ended_before = np.full(len(names), len(self.name))
        return self._names.between(names, self._since(ended_before), ended_before)

    def _since(self, ended_before: IntArray) -> IntArray:
        """Return the first run that counts when the first *ended_before* ones have ended."""
        if not len(self.ended_s):
            return np.zeros_like(ended_before)
        return np.searchsorted(self.ended_s, self.ended_s[np.maximum(ended_before - 1, 0)] - WINDOW_S).astype(np.int64)

    def _record(self, user: IntArray, since: IntArray, ended_before: IntArray) -> Record:
        sums = self._users.between(user, since, ended_before)
        count, length_s, weighted, log_excess = sums[:_PIECES]
        count = np.rint(count)
        log_length = np.where(count > 0, weighted / np.maximum(length_s, 1.0), 0.0)
        short_s = sums[_PIECES:][np.clip(_band(log_length), 0, _BANDS - 1), np.arange(len(count))]
        share = length_s / np.maximum(length_s + short_s, 1.0)
        weight = _ramp(share, self.trust.share) * _ramp(log_excess, self.trust.log_excess)
        return Record(count, log_length, log_excess / np.maximum(count, 1.0), np.where(count > 0, weight, 0.0))

    @cached_property
    def _users(self) -> Sums:
        """Sums by user: of overruns the columns of a Record, of others the time of those forecast below a band."""
        length_s = np.exp(self.log_runtime)
        pieces = (np.ones(len(length_s)), length_s, length_s * self.log_runtime, self._miss)
        band = _band(self.log_runtime - self._miss + np.log(self.trust.short))
        others = [np.where((self._miss <= np.log(self.trust.far)) & (band < at), length_s, 0.0) for at in range(_BANDS)]
        return Sums.of(self.user, np.array([*(np.where(self.beyond, piece, 0.0) for piece in pieces), *others]))

    @cached_property
    def _names(self) -> Sums:
        """Sums by name: the seconds of overruns, and of rightly forecast runs."""
        return Sums.of(self.name, np.where([self.beyond, self._miss <= np.log(RIGHT)], np.exp(self.log_runtime), 0.0))


def floored(forecast: Forecast, log_raised: FloatArray, most_s: FloatArray) -> Forecast:
    """Set floors of *forecast* where *log_raised* is above its middle; none is above *most_s*."""
    floor_s = np.minimum(np.exp(log_raised), most_s)
    higher = floor_s > forecast.runtime_s * (1.0 + 1e-9)
    if not higher.any():
        return forecast
    texts = forecast.source.names
    source = Labels(forecast.source.codes + len(texts) * higher, (*texts, *(f"{text}, {WHY}" for text in texts)))
    return replace(forecast, floor_s=np.where(higher, floor_s, forecast.floor_s), source=source)


def _raised(record: Record, of_name: FloatArray, log_forecast: FloatArray) -> FloatArray:
    """Move forecasts towards the lengths in *record*; *of_name* are the seconds of `_names` of each job's name."""
    beyond_s = np.exp(record.log_length) + of_name[0]
    weight = record.weight * _ramp(beyond_s / (beyond_s + of_name[1]), NAME)
    return log_forecast + weight * np.maximum(record.log_length - log_forecast, 0.0)


def _band(log_length: FloatArray) -> IntArray:
    """Return the doublings of LEAST_S, rounded down."""
    band: IntArray = np.floor((log_length - np.log(LEAST_S)) / np.log(2.0)).astype(np.int64)
    return band


def _ramp(value: FloatArray, ends: tuple[float, float]) -> FloatArray:
    return np.clip((value - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)


def _distinct(texts: Labels) -> IntArray:
    """Return a number for each text, the same wherever it is listed more than once."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts.names))}
    codes: IntArray = texts.map([numbers[text] for text in texts.names], np.int64)
    return codes
