"""Each user's record of runs that went far beyond their forecasts, and its effect on the next forecasts.

Short runs under a name make the next forecast under it short, at almost no cost. Abuse of this leaves a trace: much
time goes into runs that were forecast to take a fraction of it. The record weighs runs by their length, so that a short
run counts for as little as it costs, and covers the last WINDOW_S of the history.

A run that lasted FAR times its forecast is an overrun. Under a new name, whose first forecast rests on the user alone,
half of that is enough: names that change with every job would otherwise be forecast as short for good.

Orderings rank a job as no shorter than a floor between its forecast and the length of the user's overruns, in
logarithms. The position of the floor is the product of three shares: the certainty of the record, the share of
overruns in the time of runs with a short forecast, and that share among the runs under the job's own name, where only
rightly forecast ones count against. The forecast itself stays: most runs after a short forecast are short, honest or
bait, and only the order rewards bait. Records of other users have no effect.

A run that has lasted far beyond its forecast counts while it goes on: otherwise bait would pay for all jobs that are
submitted before the first of them has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table
from ...cluster.forecast import Forecast
from ...cluster.job_kind import printable
from ...cluster.records.outcomes import OutcomeTable
from .baseline_features import features

RIGHT = 4.0  #: runtime over forecast up to which a run counts as rightly forecast
LEAST_S = 600.0  #: shorter runs are no overruns
WINDOW_S = 30 * 86400.0  #: length of the record, before the last known end
CERTAIN = (7.0, 10.0)  #: ends of the ramp over the sum of log(runtime / forecast) of the user's overruns
SHARE = (0.5, 0.75)  #: ends of the ramp over overruns' share of the time of the user's runs with a short forecast
NAME = (0.3, 0.8)  #: ends of the ramp over that share under the job's name, one typical overrun added
WHY = "ranked as longer: the user's runs went far beyond their forecasts"

#: Runtime over forecast from which a run is an overrun. The medians of the last runs are less accurate than trained
#: models: a few short runs can steer them.
FAR_FOR_MEDIANS, FAR_FOR_TRAINED = 16.0, 8.0
NEW = 0.5  #: part of that under a new name, whose first forecast rests on the user alone

_BANDS = 16  # of lengths, each twice as long as the one before
_PIECES = 4


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
class OngoingRuns(Table):
    """Runs that have not ended."""

    user: IntArray  #: as in `Overruns`; -1 for a user without ended runs
    name: IntArray  #: -1 for a name without ended runs
    submitted_s: FloatArray
    log_runtime: FloatArray  #: of the time until now
    log_forecast: FloatArray  #: at submission; NaN where there was none


@dataclass(frozen=True, eq=False)
class Overruns:
    """The records of all users, from runs in the order they ended."""

    user: IntArray  #: of each run, 0 and more
    name: IntArray  #: of each run, 0 and more; no two users have one in common
    submitted_s: FloatArray
    ended_s: FloatArray
    log_runtime: FloatArray
    log_forecast: FloatArray  #: at submission; NaN where there was none
    far: float  #: runtime over forecast from which a run is an overrun

    @classmethod
    def of(cls, runs: OutcomeTable, log_runtime: FloatArray, log_forecast: FloatArray, far: float) -> Self:
        """Compute the records of *runs*, in the order they ended; names are compared without their numbers."""
        job_features = features(runs)
        users, buckets = (_distinct(texts) for texts in (job_features.user, job_features.bucket))
        names = np.unique(users * (int(buckets.max(initial=0)) + 1) + buckets, return_inverse=True)[1]
        return cls(users, names, runs.first_submit_s, runs.ended_s, log_runtime, log_forecast, far)

    @cached_property
    def beyond(self) -> BoolArray:
        """The runs that are overruns."""
        beyond: BoolArray = (self.log_runtime >= np.log(LEAST_S)) & (self._miss > self._log_far)
        return beyond

    def raised(self, user: IntArray, name: IntArray, log_forecast: FloatArray, ended_before: IntArray) -> FloatArray:
        """Return *log_forecast* raised by the records of the first *ended_before* runs; -1 is a new name."""
        if not self.beyond.any():
            return log_forecast
        since = self._since(ended_before)
        return _raised(
            self._record(user, since, ended_before), self._names.between(name, since, ended_before), log_forecast
        )

    def raised_now(
        self, user: IntArray, name: IntArray, log_forecast: FloatArray, ongoing: OngoingRuns | None = None
    ) -> FloatArray:
        """Return *log_forecast* raised by the records of all runs, and of *ongoing* ones that are overruns already."""
        runs = None if ongoing is None else ongoing.take(self._far_already(ongoing))
        if runs is not None and len(runs):
            record, names = self._with_ongoing(runs)
        elif self.active:
            record, names = self.now, self._names_now
        else:
            return log_forecast
        record = Record(*(np.append(column, 0.0).take(user) for column in record))
        return _raised(record, names.take(name, axis=1), log_forecast)

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
        return _record(self._users_now)

    @cached_property
    def _miss(self) -> FloatArray:
        return np.where(np.isnan(self.log_forecast), 0.0, self.log_runtime - self.log_forecast)

    @cached_property
    def _log_far(self) -> FloatArray:
        """The log(runtime / forecast) from which each run is an overrun."""
        return self._log_far_of(self.name, self.submitted_s)

    def _log_far_of(self, name: IntArray, submitted_s: FloatArray) -> FloatArray:
        """Return the same for runs under these names; names are new until the first run under them has ended."""
        is_new = np.append(self._first_end_s, np.inf)[name] > submitted_s
        return np.log(np.where(is_new, NEW * self.far, self.far)).astype(np.float64)

    @cached_property
    def _first_end_s(self) -> FloatArray:
        """The end of the first run under each name."""
        first_s = np.full(int(self.name.max(initial=-1)) + 1, np.inf)
        np.minimum.at(first_s, self.name, self.ended_s)
        return first_s

    def _far_already(self, ongoing: OngoingRuns) -> BoolArray:
        """Select the *ongoing* runs of users with ended ones that are overruns already."""
        miss = ongoing.log_runtime - ongoing.log_forecast  # NaN is far from nothing
        far = miss > self._log_far_of(ongoing.name, ongoing.submitted_s)
        is_overrun: BoolArray = (ongoing.user >= 0) & (ongoing.log_runtime >= np.log(LEAST_S)) & far
        return is_overrun

    def _with_ongoing(self, overruns: OngoingRuns) -> tuple[Record, FloatArray]:
        """Return the record of each user and the sums of each name with *overruns* that go on."""
        length_s = np.exp(overruns.log_runtime)
        pieces = _pieces(overruns.log_runtime, overruns.log_runtime - overruns.log_forecast)
        users, names = self._users_now.copy(), self._names_now.copy()
        for place, piece in enumerate(pieces):
            np.add.at(users[place], overruns.user, piece)
        has_name = overruns.name >= 0
        np.add.at(names[0], overruns.name[has_name], length_s[has_name])
        return _record(users), names

    @cached_property
    def _users_now(self) -> FloatArray:
        """The sums of ``_users`` for each user."""
        users = np.arange(int(self.user.max(initial=-1)) + 1)
        ended_before = np.full(len(users), len(self.user))
        return self._users.between(users, self._since(ended_before), ended_before)

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
        return _record(self._users.between(user, since, ended_before))

    @cached_property
    def _users(self) -> Sums:
        """Sums by user: of overruns the columns of a Record, of other runs the time by band."""
        overruns = [np.where(self.beyond, piece, 0.0) for piece in _pieces(self.log_runtime, self._miss)]
        return Sums.of(self.user, np.array([*overruns, *self._time_by_band(self._miss <= self._log_far)]))

    @cached_property
    def _names(self) -> Sums:
        """Sums by name: the time of overruns, and of rightly forecast runs the time by band."""
        overruns_s = np.where(self.beyond, np.exp(self.log_runtime), 0.0)
        return Sums.of(self.name, np.array([overruns_s, *self._time_by_band(self._miss <= np.log(RIGHT))]))

    def _time_by_band(self, counted: BoolArray) -> list[FloatArray]:
        """Return the seconds of the *counted* runs whose forecast was short for overruns of each band."""
        band = _band(self.log_runtime - self._miss + np.log(NEW * self.far))
        return [np.where(counted & (band < at), np.exp(self.log_runtime), 0.0) for at in range(_BANDS)]


def _pieces(log_runtime: FloatArray, miss: FloatArray) -> tuple[FloatArray, ...]:
    """Return what each overrun adds to the sums of its user."""
    length_s = np.exp(log_runtime)
    return np.ones(len(length_s)), length_s, length_s * log_runtime, miss


def _record(sums: FloatArray) -> Record:
    """Compute records from sums by user."""
    count, length_s, weighted, log_excess = sums[:_PIECES]
    count = np.rint(count)
    log_length = np.where(count > 0, weighted / np.maximum(length_s, 1.0), 0.0)
    share = length_s / np.maximum(length_s + _short_s(sums, log_length), 1.0)
    weight = _ramp(share, SHARE) * _ramp(log_excess, CERTAIN)
    return Record(count, log_length, log_excess / np.maximum(count, 1.0), np.where(count > 0, weight, 0.0))


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
    """Move forecasts towards the lengths in *record*; *of_name* are the sums of each job's name."""
    beyond_s = np.exp(record.log_length) + of_name[0]
    weight = record.weight * _ramp(beyond_s / (beyond_s + _short_s(of_name, record.log_length)), NAME)
    return log_forecast + weight * np.maximum(record.log_length - log_forecast, 0.0)


def _short_s(sums: FloatArray, log_length: FloatArray) -> FloatArray:
    """Select from *sums* the time of runs whose forecast was short for overruns of *log_length*."""
    short_s: FloatArray = sums[-_BANDS:][np.clip(_band(log_length), 0, _BANDS - 1), np.arange(len(log_length))]
    return short_s


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
