"""Limits, CPUs and memory that cover most runs of a kind, from runs that ended.

A limit starts from the upper tenth of the last runs of the narrowest group that has enough of them. How far such a
start fell short before, for runs that were submitted later, is known of the history itself: the suggested limit adds
what 95 % of these needed (split conformal prediction, by the level and the size of the group).
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TypedDict

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.job_kind import kind_of
from ...cluster.jobs import JobState
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.usage import KeptUsage
from ..runtime.training_runs import TELLING

SHARE = 0.95  #: of runs that a suggestion covers
START = 0.9  #: the quantile of a group that a limit starts from
LAST = 100  #: runs of a group that count
SHORTFALLS = 1000  #: of a level that count
LEAST_SHORTFALLS = 60  #: below which those of all levels count
LEAST_USE = 10  #: measured runs below which no CPUs and no memory are suggested
LEVELS = ((5, "runs of {kind} with {gpus} GPUs"), (5, "runs of {kind}"), (10, "runs of {user} with {gpus} GPUs"),
          (10, "runs of {user}"), (20, "runs with {gpus} GPUs"), (20, "all runs"))  # fmt: skip
_SIZES = (10, 20, 50)  #: of groups, between which shortfalls are told apart


class Suggestion(TypedDict):
    """What covers 95 % of runs like a job; None where too few are known. CPUs and memory are those of a node."""

    limit_s: float | None
    limit_by: str  #: the runs behind the limit, in words
    limit_runs: int
    at_limit: int  #: of these, runs that ended at their limit and would have needed more
    asked_covers: float | None  #: share of these runs that lasted no longer than the limit that was asked for
    cpus: int | None
    memory_mib: int | None
    use_runs: int  #: behind CPUs and memory


class _Group:
    """The last runs of a group: their log runtimes, sorted, and in order, with whether each ended at its limit."""

    __slots__ = ("order", "sorted")

    def __init__(self) -> None:
        self.order: deque[tuple[float, bool]] = deque()
        self.sorted: list[float] = []

    def add(self, log_s: float, cut: bool) -> None:
        self.order.append((log_s, cut))
        insort(self.sorted, log_s)
        if len(self.order) > LAST:
            del self.sorted[bisect_left(self.sorted, self.order.popleft()[0])]

    @property
    def start(self) -> float:
        """The START quantile of log runtimes, between two runs interpolated."""
        at = START * (len(self.sorted) - 1)
        low = int(at)
        high = min(low + 1, len(self.sorted) - 1)
        return self.sorted[low] + (at - low) * (self.sorted[high] - self.sorted[low])


class Suggester:
    """Suggests what jobs should ask for; made of the runs that ended, and what was measured of them."""

    def __init__(self, history: OutcomeTable, use: KeptUsage) -> None:
        self._groups: dict[Hashable, _Group] = {}
        self._short: dict[Hashable, deque[float]] = {}
        self._use: dict[Hashable, list[tuple[float, float]]] = {}
        self._learn(history)
        self._measure(history, use)

    def suggest(self, user: str, name: str, gpus: int, asked_s: float = math.inf) -> Suggestion:
        """Return what covers 95 % of runs like those of this job, of which *asked_s* is the limit asked for."""
        keys = _keys(user, name, gpus)
        cpus, memory_mib, use_runs = self._node_use(keys)
        found = self._group(keys)
        if found is None:
            return {
                "limit_s": None,
                "limit_by": "",
                "limit_runs": 0,
                "at_limit": 0,
                "asked_covers": None,
                "cpus": cpus,
                "memory_mib": memory_mib,
                "use_runs": use_runs,
            }
        level, group = found
        words = LEVELS[level][1].format(kind=kind_of(user, name), user=user, gpus=gpus)
        more = self._shortfall(level, len(group.sorted))
        within = bisect_left(group.sorted, math.log(max(asked_s, 1.0)) + 1e-9) if math.isfinite(asked_s) else None
        return {
            "limit_s": None if more is None else 60.0 * math.ceil(math.exp(group.start + more) / 60.0),
            "limit_by": words,
            "limit_runs": len(group.sorted),
            "at_limit": sum(cut for _, cut in group.order),
            "asked_covers": None if within is None else within / len(group.sorted),
            "cpus": cpus,
            "memory_mib": memory_mib,
            "use_runs": use_runs,
        }

    def _learn(self, history: OutcomeTable) -> None:
        """Add runs as they ended, and what each needed beyond the start that was known when it was submitted."""
        known = np.isin(history.state, TELLING) & np.isfinite(history.started_s) & (history.runtime_s >= 1.0)
        runs = history.take(known)
        log_s, cut = np.log(runs.runtime_s), runs.state == JobState.TIMEOUT
        keys = [_keys(*each) for each in zip(runs.user, runs.name, runs.gpus.tolist(), strict=True)]
        by_end, by_submit = (np.argsort(times_s, kind="stable") for times_s in (runs.ended_s, _submitted(runs)))
        ended, submitted_s, place = runs.ended_s.tolist(), _submitted(runs).tolist(), 0
        ends = by_end.tolist()
        for row in by_submit.tolist():
            while place < len(ends) and ended[ends[place]] <= submitted_s[row]:
                self._add(keys[ends[place]], float(log_s[ends[place]]), bool(cut[ends[place]]))
                place += 1
            found = self._group(keys[row])
            if found is not None:
                level, group = found
                short = float(log_s[row]) - group.start
                for key in ((level, _size(len(group.sorted))), level, None):
                    self._short.setdefault(key, deque(maxlen=SHORTFALLS)).append(short)
        for at in ends[place:]:
            self._add(keys[at], float(log_s[at]), bool(cut[at]))

    def _add(self, keys: Sequence[Hashable], log_s: float, cut: bool) -> None:
        for key in keys:
            self._groups.setdefault(key, _Group()).add(log_s, cut)

    def _group(self, keys: Sequence[Hashable]) -> tuple[int, _Group] | None:
        """Return the narrowest group with enough runs, and its level."""
        for level, key in enumerate(keys):
            group = self._groups.get(key)
            if group is not None and len(group.sorted) >= LEVELS[level][0]:
                return level, group
        return None

    def _shortfall(self, level: int, runs: int) -> float | None:
        """Return what 95 % of runs needed beyond such a start, in log time; None where too few are known."""
        for key in ((level, _size(runs)), level, None):
            short = self._short.get(key, ())
            if len(short) >= LEAST_SHORTFALLS:
                return _covering(list(short))
        return None

    def _measure(self, history: OutcomeTable, use: KeptUsage) -> None:
        rows = {key: row for row, key in enumerate(zip(history.job_id.tolist(), _whole(history.ended_s), strict=True))}
        for place, key in enumerate(zip(use.job_id.tolist(), _whole(use.ended_s), strict=True)):
            row = rows.get(key)
            if row is not None:
                measured = float(use.cpus[place]), float(use.memory_mib[place])
                for group in _keys(history.user[row], history.name[row], int(history.gpus[row]))[:2]:
                    self._use.setdefault(group, []).append(measured)

    def _node_use(self, keys: Sequence[Hashable]) -> tuple[int | None, int | None, int]:
        for key in keys[:2]:
            measured = self._use.get(key, [])[-LAST:]
            if len(measured) >= LEAST_USE:
                cpus, memory = ([one[at] for one in measured if math.isfinite(one[at])] for at in (0, 1))
                return (
                    math.ceil(_covering(cpus) - 0.05) or 1 if len(cpus) >= LEAST_USE else None,
                    256 * math.ceil(_covering(memory) / 256.0) if len(memory) >= LEAST_USE else None,
                    len(measured),
                )
        return None, None, 0


def _keys(user: str, name: str, gpus: int) -> tuple[Hashable, ...]:
    """Return the groups of a job, by level."""
    kind = kind_of(user, name)
    return ("kind", kind, gpus), ("kind", kind), ("user", user, gpus), ("user", user), ("gpus", gpus), ("site",)


def _covering(values: list[float]) -> float:
    """Return the least of *values* that 95 % of as many and one more do not exceed; the largest of few."""
    values.sort()
    return values[min(math.ceil(SHARE * (len(values) + 1)), len(values)) - 1]


def _size(runs: int) -> int:
    return sum(runs >= size for size in _SIZES)


def _submitted(runs: OutcomeTable) -> IntArray:
    return np.nan_to_num(np.fmin(runs.first_submit_s, runs.started_s)).astype(np.int64)


def _whole(times_s: np.ndarray) -> Iterator[int]:
    return map(int, np.nan_to_num(times_s).tolist())
