"""What is known of ended runs: the last ones of each group a job belongs to, at any moment."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels
from ..cluster.history import OutcomeTable
from ..cluster.jobs import JobTable
from .features import bucket
from .runs import TELLING
from .windows import Windows

_ROUNDING = 1e-6  # variance that sums over a long history may make of equal values
_DENSE = 1_000_000  # possible keys up to which a group is looked up rather than searched for
LAST, SOME, MANY = 2, 5, 20  #: runs of a group behind its mean, its median, and its usual value and spread

#: Groups of runs, by what their members have in common.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "task": ("user", "name", "gpus"),
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
"""Every column that `Past.columns` can make."""


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one level, by group."""

    keys: IntArray  #: of each group, increasing
    windows: Windows
    dense: IntArray | None  #: the group of each possible key, the last for key -1; None where there are too many keys

    @classmethod
    def of(cls, keys: IntArray, possible: int, values: FloatArray) -> Group:
        """The groups of runs that have the same of *keys*, which are below *possible*."""
        distinct, codes = np.unique(keys, return_inverse=True)
        dense = None
        if possible <= _DENSE:
            dense = np.full(possible + 1, -1)
            dense[distinct] = np.arange(len(distinct))
        return cls(distinct, Windows.of(codes, len(distinct), values), dense)

    def codes(self, keys: IntArray) -> IntArray:
        """The group of each of *keys*; -1 where there is none."""
        return _places(self.keys, keys) if self.dense is None else self.dense[keys]

    def columns(self, codes: IntArray, known: IntArray) -> dict[str, FloatArray]:
        """What the first *known* runs of the history say about jobs of groups *codes*; NaN where nothing."""
        last, _ = self.windows.means(codes, known, LAST)
        median, _ = self.windows.medians(codes, known, SOME)
        usual, runs = self.windows.means(codes, known, MANY)
        squares, _ = replace(self.windows, values=self.windows.values**2).means(codes, known, MANY)
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


class Past:
    """Ended runs that say something about the next one, each once, in the order they ended. Immutable.

    Runs that a lost node, a preemption or a requeue cut short are left out (`runs.TELLING`), and so are runs that never
    started. Runtimes are natural logarithms of seconds, at least one second.
    """

    def __init__(self, runs: OutcomeTable) -> None:
        self.runs = runs

    @classmethod
    def of(cls, history: OutcomeTable, until_s: float = np.inf, most: int | None = None) -> Past:
        """What *history* tells about runs that ended before *until_s*, in whatever order its rows come.

        With *most*, only that many latest.
        """
        known = np.isfinite(history.started_s) & np.isfinite(history.first_submit_s)
        told = known & (history.runtime_s >= 0) & (history.ended_s < until_s) & np.isin(history.state, TELLING)
        return cls(_canonical(history.take(told), most))

    def plus(self, new: OutcomeTable, most: int | None = None) -> Past:
        """The runs of both, and with *most* only that many latest."""
        more = Past.of(new)
        return Past(_canonical(_both(self.runs, more.runs), most)) if len(more) else self

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def log_runtime(self) -> FloatArray:
        """Of each run."""
        log: FloatArray = np.log(np.maximum(self.runs.runtime_s, 1.0))
        return log

    def known_at(self, moments_s: FloatArray) -> IntArray:
        """How many runs had ended by each of the *moments_s*."""
        return np.searchsorted(self.runs.ended_s, moments_s, side="right").astype(np.int64)

    def columns(
        self, jobs: JobTable | OutcomeTable, wanted: Collection[str], known: IntArray | None = None
    ) -> dict[str, FloatArray]:
        """The columns *wanted* of what the first *known* runs (all, by default) say about each of *jobs*.

        They are named ``LEVEL_STATISTIC``. Statistics are the mean of the last two runs, the median of the last five,
        the mean (``usual``) and standard deviation (``spread``) of the last twenty, all of log runtime and NaN where
        there is no run, and how many of twenty ``runs`` there are.
        """
        parts = self._parts(jobs)
        columns: dict[str, FloatArray] = {}
        for level in LEVELS:
            codes = self._groups[level].codes(self._keys(level, parts))
            found = self._tables[level] if known is None else self._groups[level].columns(codes, known)
            for statistic, values in found.items():
                if (name := f"{level}_{statistic}") in wanted:
                    columns[name] = values[codes] if known is None else values
        return columns

    @cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        stems = {bucket(name) for name in self.runs.name.names}
        texts = {"user": self.runs.user.names, "name": self.runs.name.names, "stem": sorted(stems)}
        return {part: {text: number for number, text in enumerate(known)} for part, known in texts.items()}

    @cached_property
    def _values(self) -> dict[str, IntArray | FloatArray]:
        return {"gpus": np.unique(self.runs.gpus), "time_limit_s": np.unique(self.runs.time_limit_s)}

    @cached_property
    def _groups(self) -> dict[str, Group]:
        parts = self._parts(self.runs)
        groups = {}
        for level in LEVELS:
            possible = math.prod(self._sizes(part) for part in LEVELS[level])
            groups[level] = Group.of(self._keys(level, parts), possible, self.log_runtime)
        return groups

    @cached_property
    def _tables(self) -> dict[str, dict[str, FloatArray]]:
        """The columns of each group when everything is known; the last row is for jobs of no group."""
        tables = {}
        for level, group in self._groups.items():
            codes = np.append(np.arange(len(group.keys)), -1)
            tables[level] = group.columns(codes, np.full(len(codes), len(self)))
        return tables

    def _parts(self, jobs: JobTable | OutcomeTable) -> dict[str, IntArray]:
        """The number of each job's user, name, ... among those of the history; -1 where it is new."""
        numbers = self._numbers
        user, name = compact(jobs.user), compact(jobs.name)
        return {
            "user": user.map([numbers["user"].get(text, -1) for text in user.names], np.int64),
            "name": name.map([numbers["name"].get(text, -1) for text in name.names], np.int64),
            "stem": name.map([numbers["stem"].get(bucket(text), -1) for text in name.names], np.int64),
            "gpus": _places(self._values["gpus"], jobs.gpus),
            "time_limit_s": _places(self._values["time_limit_s"], _unlimited(jobs.time_limit_s)),
            "site": np.full(len(jobs), 0 if len(self) else -1),
        }

    def _sizes(self, part: str) -> int:
        return max(1, len(self._numbers[part] if part in self._numbers else self._values[part]))

    def _keys(self, level: str, parts: Mapping[str, IntArray]) -> IntArray:
        """One number per combination of the level's parts; -1 where one is new."""
        first, *others = LEVELS[level] or ("site",)
        keys = parts[first]
        for part in others:
            new = (keys < 0) | (parts[part] < 0)
            keys = np.where(new, -1, keys * self._sizes(part) + parts[part])
        return keys


def compact(texts: Labels) -> Labels:
    """The same texts without those that no row has, where these are many."""
    if len(texts.names) <= len(texts):
        return texts
    used, codes = np.unique(texts.codes, return_inverse=True)
    return Labels(codes, tuple(map(texts.names.__getitem__, used.tolist())))


def _unlimited(limit_s: FloatArray) -> FloatArray:
    return np.where(np.isnan(limit_s), np.inf, limit_s)


def _places(known: IntArray | FloatArray, wanted: IntArray | FloatArray) -> IntArray:
    """Where each wanted number stands in the sorted *known* ones; -1 where it does not."""
    if not len(known):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[places] == wanted, places, -1)


def _canonical(runs: OutcomeTable, most: int | None) -> OutcomeTable:
    """The rows in the order they ended, each once, with texts in alphabetical order."""
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
    """The same texts, only those in use, each once and in order: equal columns get equal codes."""
    used = sorted({texts.names[code] for code in np.unique(texts.codes).tolist()})
    numbers = {name: number for number, name in enumerate(used)}
    return Labels(texts.map([numbers.get(name, -1) for name in texts.names], np.int64), tuple(used))
