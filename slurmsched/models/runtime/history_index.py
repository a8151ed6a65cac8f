"""An index of ended runs: statistics of the last ones of each group a job belongs to, at any moment."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.job_kind import bucket
from ...cluster.jobs import JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from ..ebm.dictionary_column import DictionaryColumn
from .group_windows import Windows
from .training_runs import TELLING

_ROUNDING = 1e-6  # variance that rounding can make of equal values in sums over a long history
_MOST_ASKED = 100_000  # names in the cache of their numbers
_DENSE = 1_000_000  # possible keys up to which a table replaces the search for a group
LAST, SOME, MANY = 2, 5, 20  #: runs of a group in its mean, its median, and its usual value and spread

PAIR = "user and name"  #: the group of level ``name``, as a part of a finer level

#: Groups of runs, by what their members have in common.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "task": (PAIR, "gpus"),
    "name": ("user", "name"),
    "kind": ("user", "stem"),
    "user": ("user",),
    "width": ("user", "gpus"),
    "limit": ("user", "time_limit_s"),
    "gpus": ("gpus",),
    "site": (),
}


STATISTICS = ("last", "median", "usual", "spread", "runs")
ALL = tuple(f"{level}_{statistic}" for level in LEVELS for statistic in STATISTICS)
"""Every column that `HistoryIndex.columns` can compute."""


@dataclass(frozen=True, eq=False)
class GroupIndex:
    """The groups of one level by their keys."""

    keys: IntArray  #: of each group, increasing
    dense: IntArray | None  #: the group of each possible key, the last for key -1; None where there are too many keys

    @classmethod
    def of(cls, keys: IntArray, possible: int) -> tuple[GroupIndex, IntArray]:
        """Group runs with equal *keys*, which are below *possible*; return the groups and the group of each run."""
        distinct, codes = np.unique(keys, return_inverse=True)
        dense = None
        if possible <= _DENSE:
            dense = np.full(possible + 1, -1)
            dense[distinct] = np.arange(len(distinct))
        return cls(distinct, dense), codes

    def codes(self, keys: IntArray) -> IntArray:
        """Return the group of each of *keys*; -1 where there is none."""
        return _places(self.keys, keys) if self.dense is None else self.dense.take(keys)


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one level, by group."""

    places: GroupIndex
    windows: Windows

    @classmethod
    def of(cls, grouped: tuple[GroupIndex, IntArray], values: FloatArray) -> Group:
        """Index *values* by group, given the groups and the group of each run."""
        places, codes = grouped
        return cls(places, Windows.of(codes, len(places.keys), values))

    def columns(self, codes: IntArray, ended_before: IntArray) -> dict[str, FloatArray]:
        """Return the statistics of groups *codes* over the first *ended_before* runs of the history; NaN where none."""
        last, _ = self.windows.means(codes, ended_before, LAST)
        median, _ = self.windows.medians(codes, ended_before, SOME)
        usual, runs = self.windows.means(codes, ended_before, MANY)
        squares, _ = replace(self.windows, values=self.windows.values**2).means(codes, ended_before, MANY)
        variance = squares - usual**2
        spread = np.where(runs > 1, np.sqrt(np.where(variance > _ROUNDING, variance, 0.0)), np.nan)
        nothing = np.where(runs > 0, 0.0, np.nan)
        return {
            "last": last + nothing,
            "median": median + nothing,
            "usual": usual + nothing,
            "spread": spread,
            "runs": runs.astype(np.float64),
        }


class HistoryIndex:
    """Ended runs that are evidence for the next one, each once, in the order they ended. Immutable.

    Runs cut short by a lost node, a preemption or a requeue are left out (`TELLING`), and so are runs that never
    started. Runtimes are natural logarithms of seconds, at least one second.
    """

    def __init__(self, runs: OutcomeTable) -> None:
        self.runs = runs
        self._similar: dict[str, int] = {}

    @classmethod
    def of(cls, history: OutcomeTable, until_s: float = np.inf, most: int | None = None) -> HistoryIndex:
        """Index the runs of *history* that ended before *until_s*, in whatever order its rows come.

        With *most*, only that many of the latest.
        """
        is_dated = np.isfinite(history.started_s) & np.isfinite(history.first_submit_s)
        usable = is_dated & (history.runtime_s >= 0) & (history.ended_s < until_s) & np.isin(history.state, TELLING)
        return cls(_canonical(history.take(usable), most))

    def plus(self, new: OutcomeTable, most: int | None = None) -> HistoryIndex:
        """Return the runs of both; with *most*, only that many of the latest."""
        more = HistoryIndex.of(new)
        return HistoryIndex(_canonical(_both(self.runs, more.runs), most)) if len(more) else self

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def log_runtime(self) -> FloatArray:
        """The natural logarithm of each run's seconds, at least one second."""
        return in_points(np.log(np.maximum(self.runs.runtime_s, 1.0)))

    def known_at(self, moments_s: FloatArray) -> IntArray:
        """Return the number of runs that had ended by each of *moments_s*."""
        return np.searchsorted(self.runs.ended_s, moments_s, side="right").astype(np.int64)

    def columns(
        self, jobs: JobTable | OutcomeTable, wanted: Collection[str], ended_before: IntArray | None = None
    ) -> dict[str, FloatArray]:
        """Return the *wanted* columns of statistics for *jobs* over the first *ended_before* runs (all, by default).

        They are named ``LEVEL_STATISTIC``. Statistics are the mean of the last two runs, the median of the last five,
        the mean (``usual``) and standard deviation (``spread``) of the last twenty, all of log runtime and NaN without
        a run, and ``runs``, their number up to twenty.
        """
        if ended_before is None:
            return {name: column.numbers() for name, column in self.coded(jobs, wanted).items()}
        columns: dict[str, FloatArray] = {}
        for level, codes in self._codes(jobs).items():
            found = self._groups[level].columns(codes, ended_before)
            columns |= {name: found[statistic] for statistic, name in _named(level) if name in wanted}
        return columns

    def coded(self, jobs: JobTable | OutcomeTable, wanted: Collection[str]) -> dict[str, DictionaryColumn]:
        """Return the columns over all runs, dictionary-encoded by group; the arrays of values stay the same."""
        columns: dict[str, DictionaryColumn] = {}
        for level, codes in self._codes(jobs).items():
            table = self._tables[level]
            columns |= {
                name: DictionaryColumn(table[statistic], codes) for statistic, name in _named(level) if name in wanted
            }
        return columns

    def groups(self, jobs: JobTable | OutcomeTable, level: str) -> IntArray:
        """Return the group of each job at a level of LEVELS; -1 where there is none."""
        return self._groups[level].places.codes(self._keys(level, self._parts(jobs)))

    @cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        stems = {bucket(name) for name in self.runs.name.names}
        texts = {"user": self.runs.user.names, "name": self.runs.name.names, "stem": sorted(stems)}
        return {
            part: {text: number for number, text in enumerate(texts_of_part)} for part, texts_of_part in texts.items()
        }

    @cached_property
    def _values(self) -> dict[str, IntArray | FloatArray]:
        return {"gpus": np.unique(self.runs.gpus), "time_limit_s": np.unique(self.runs.time_limit_s)}

    @cached_property
    def _groups(self) -> dict[str, Group]:
        parts = self._parts(self.runs)
        return {level: Group.of(self._places_of(level, parts), self.log_runtime) for level in LEVELS}

    @cached_property
    def _pairs(self) -> GroupIndex:
        """The groups of level ``name``, which are parts of finer levels."""
        return self._places_of("name", self._given_parts(self.runs))[0]

    def _places_of(self, level: str, parts: Mapping[str, IntArray]) -> tuple[GroupIndex, IntArray]:
        possible = math.prod(self._sizes(part) for part in LEVELS[level])
        return GroupIndex.of(self._keys(level, parts), possible)

    @cached_property
    def _tables(self) -> dict[str, dict[str, FloatArray]]:
        """The columns of each group over all runs; the last row is for jobs of no group."""
        tables = {}
        for level, group in self._groups.items():
            codes = np.append(np.arange(len(group.places.keys)), -1)
            tables[level] = group.columns(codes, np.full(len(codes), len(self)))
        return tables

    def _codes(self, jobs: JobTable | OutcomeTable) -> dict[str, IntArray]:
        """Return the group of each job at each level; -1 where there is none."""
        parts = self._parts(jobs)
        return {level: group.places.codes(self._keys(level, parts)) for level, group in self._groups.items()}

    def _parts(self, jobs: JobTable | OutcomeTable) -> dict[str, IntArray]:
        """Return the number of each job's user, name, ... among those of the history; -1 where it is new."""
        given = self._given_parts(jobs)
        return given | {PAIR: self._pairs.codes(self._keys("name", given))}

    def _given_parts(self, jobs: JobTable | OutcomeTable) -> dict[str, IntArray]:
        """Return the parts that come directly from a job's own columns."""
        user, name = compact(jobs.user), compact(jobs.name)
        of_name, of_stem = self._of_names(name.names)
        return {
            "user": _looked_up(self._numbers["user"], user.names).take(user.codes),
            "name": of_name.take(name.codes),
            "stem": of_stem.take(name.codes),
            "gpus": _places(self._values["gpus"], jobs.gpus),
            "time_limit_s": _places(self._values["time_limit_s"], _unlimited(jobs.time_limit_s)),
            "site": np.full(len(jobs), 0 if len(self) else -1),
        }

    def _of_names(self, names: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return the number of each of *names* and that of its stem; -1 where it is new."""
        try:
            codes = np.fromiter(map(self._similar.__getitem__, names), np.int64, len(names))
        except KeyError:  # rare: the same names come every cycle
            codes = np.fromiter(map(self._similar_names(names).__getitem__, names), np.int64, len(names))
        of_name, of_stem = np.divmod(codes, len(self._numbers["stem"]) + 1)
        return of_name - 1, of_stem - 1

    def _similar_names(self, names: Sequence[str]) -> Mapping[str, int]:
        """Cache the numbers of *names* and their stems and return the cache: both in one, each counted from 1."""
        similar, numbers, stems = self._similar, self._numbers["name"], self._numbers["stem"]
        if len(similar) > _MOST_ASKED:
            similar = self._similar = {}  # other threads may still read the old one
        # In the order of the names, which is the order of later look-ups: that suits the processor's caches.
        for name in names:
            if name not in similar:
                of_name, of_stem = numbers.get(name, -1) + 1, stems.get(bucket(name), -1) + 1
                similar[name] = of_name * (len(stems) + 1) + of_stem
        return similar

    def _sizes(self, part: str) -> int:
        if part == PAIR:
            return max(1, len(self._pairs.keys))
        return max(1, len(self._numbers[part] if part in self._numbers else self._values[part]))

    def _keys(self, level: str, parts: Mapping[str, IntArray]) -> IntArray:
        """Return one number per combination of the level's parts; -1 where one is new."""
        first, *others = LEVELS[level] or ("site",)
        keys = parts[first]
        for part in others:
            new = (keys < 0) | (parts[part] < 0)
            keys = np.where(new, -1, keys * self._sizes(part) + parts[part])
        return keys


def _named(level: str) -> list[tuple[str, str]]:
    """Return the statistics of a level, and the columns that hold them."""
    return [(statistic, f"{level}_{statistic}") for statistic in STATISTICS]


def _looked_up(numbers: Mapping[str, int], texts: Sequence[str]) -> IntArray:
    """Return the number of each text; -1 where it has none."""
    return np.fromiter(map(numbers.get, texts, repeat(-1)), np.int64, len(texts))


def compact(texts: Labels) -> Labels:
    """Drop texts that no row has, where there are more texts than rows."""
    if len(texts.names) <= len(texts):
        return texts
    used, codes = np.unique(texts.codes, return_inverse=True)
    return Labels(codes, tuple(map(texts.names.__getitem__, used.tolist())))


def _unlimited(limit_s: FloatArray) -> FloatArray:
    return np.where(np.isnan(limit_s), np.inf, limit_s)


def _places(ended_before: IntArray | FloatArray, wanted: IntArray | FloatArray) -> IntArray:
    """Return the index of each wanted number in the sorted *ended_before*; -1 where it is absent."""
    if not len(ended_before):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(ended_before, wanted), len(ended_before) - 1)
    return np.where(ended_before[places] == wanted, places, -1)


def _canonical(runs: OutcomeTable, most: int | None) -> OutcomeTable:
    """Return the rows in the order they ended, each once, with texts in alphabetical order."""
    order = np.lexsort((runs.runtime_s, runs.first_submit_s, runs.restart, runs.job_id, runs.ended_s))
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for key in (runs.ended_s, runs.job_id, runs.restart, runs.first_submit_s):
        new[1:] |= np.diff(key[order]) != 0
    chosen = order[new] if most is None else order[new][-most:]
    table = runs.take(chosen)
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    columns |= {name: _alphabetical(column) for name, column in columns.items() if isinstance(column, Labels)}
    return OutcomeTable(**columns | {"time_limit_s": _unlimited(table.time_limit_s)})


def _both(first: OutcomeTable, second: OutcomeTable) -> OutcomeTable:
    return OutcomeTable(**{f.name: _joined(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)})


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, Labels):
        return Labels(np.concatenate([first.codes, second.codes + len(first.names)]), first.names + second.names)
    return np.concatenate([first, second])


def _alphabetical(texts: Labels) -> Labels:
    """Drop unused and repeated texts and sort the rest: equal columns get equal codes."""
    used = sorted({texts.names[code] for code in np.unique(texts.codes).tolist()})
    numbers = {name: number for number, name in enumerate(used)}
    return Labels(texts.map([numbers.get(name, -1) for name in texts.names], np.int64), tuple(used))
