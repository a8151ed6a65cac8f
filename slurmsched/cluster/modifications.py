"""Changes of jobs by users, admins and Slurm between two observations of the cluster."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels
from .events import JobModified, Value
from .job_record import units_in
from .job_tracker import SAME_TIME_S
from .jobs import JobState, JobTable
from .text.comment import owner_request

#: The most changes of one kind recorded of a job, so that a user who changes a comment every second fills no database.
MOST = 20


class ModificationTracker:
    """The comparison of each job's settings with the last observation; without clock or database.

    Jobs are compared while they wait and while they run. Changes at a start or requeue come from Slurm itself, such
    as the choice of one of several partitions and the default time limit.
    """

    def __init__(self) -> None:
        self._looks: tuple[_Look, ...] = ()
        self._counts: dict[int, Counter[str]] = {}

    @property
    def empty(self) -> bool:
        """True before the first observation."""
        return not self._looks

    def observe(
        self, pending: JobTable, running: JobTable, now_s: float, ours: Collection[tuple[int, str]] = ()
    ) -> list[JobModified]:
        """Return the changes since the last observation, without those (job id, what) that are *ours*."""
        before, self._looks = self._looks, tuple(_Look.of(jobs) for jobs in (pending, running))
        units = {unit for look in self._looks for unit in look.unit.tolist()} if self._counts else set()
        self._counts = {unit: counts for unit, counts in self._counts.items() if unit in units}
        pairs = zip(before, self._looks, strict=False)
        return [
            JobModified(job_id, now_s, what, old, new, last=count == MOST, first_submit_s=first_s)
            for then, now in pairs
            for unit, job_id, first_s, what, old, new in _differences(then, now)
            if (job_id, what) not in ours and (count := self._count(unit, what)) <= MOST
        ]

    def _count(self, unit: int, what: str) -> int:
        counts = self._counts.setdefault(unit, Counter())
        counts[what] += 1
        return counts[what]


@dataclass(frozen=True, eq=False)
class _Look:
    """The compared fields of jobs, one row each, by rising unit."""

    unit: IntArray
    job_id: IntArray
    first_submit_s: FloatArray
    restarts: IntArray
    state: IntArray
    time_limit_s: FloatArray
    nice: IntArray
    partition: Labels
    qos: Labels
    comment: Labels

    @classmethod
    def of(cls, jobs: JobTable) -> Self:
        """Take the compared fields of *jobs*."""
        unit = units_in(jobs)
        order = np.argsort(unit, kind="stable")
        return cls(
            unit=unit[order],
            job_id=jobs.job_id[order],
            first_submit_s=jobs.first_submit_s[order],
            restarts=jobs.restarts[order],
            state=jobs.state[order],
            time_limit_s=jobs.time_limit_s[order],
            nice=jobs.nice[order],
            partition=jobs.partition.take(order),
            qos=jobs.qos.take(order),
            comment=jobs.comment.take(order),
        )

    def rows_of(self, other: _Look) -> tuple[IntArray, IntArray]:
        """Return the rows of the runs that both observations have: here and in *other*."""
        if not len(self.unit):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        here = np.minimum(np.searchsorted(self.unit, other.unit), len(self.unit) - 1)
        same = (self.unit[here] == other.unit) & (self.restarts[here] == other.restarts)
        same &= ~(np.abs(self.first_submit_s[here] - other.first_submit_s) > SAME_TIME_S)
        there = np.flatnonzero(same)
        return here[there], there


def _differences(before: _Look, now: _Look) -> Iterator[tuple[int, int, float, str, Value, Value]]:
    """Yield unit, job id, first submit time, name of the changed setting, old and new value."""
    then_rows, now_rows = before.rows_of(now)
    if not len(now_rows):
        return
    for what, changed in _changed(before, now, then_rows, now_rows):
        for pick in np.flatnonzero(changed).tolist():
            old, new = then_rows[pick], now_rows[pick]
            # Columns have no gpus, which nothing acts on yet, nor the text around the tokens.
            if what != "comment" or owner_request(before.comment[old]) != owner_request(now.comment[new]):
                values = _value(what, before, old), _value(what, now, new)
                yield (int(now.unit[new]), int(now.job_id[new]), float(now.first_submit_s[new]), what, *values)


def _changed(before: _Look, now: _Look, then_rows: IntArray, now_rows: IntArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield each kind of change with a mask of the pairs of rows that have it."""
    old_s, new_s = before.time_limit_s[then_rows], now.time_limit_s[now_rows]
    yield "limit", (old_s != new_s) & ~(np.isnan(old_s) | np.isnan(new_s))
    yield "nice", before.nice[then_rows] != now.nice[now_rows]
    for what in _TEXTS:
        yield what, _texts_differ(getattr(before, what).take(then_rows), getattr(now, what).take(now_rows))
    was, is_now = before.state[then_rows], now.state[now_rows]
    if (was == is_now).all():
        return
    yield "suspended", (was == JobState.RUNNING) & (is_now == JobState.SUSPENDED)
    yield "resumed", (was == JobState.SUSPENDED) & (is_now == JobState.RUNNING)


_TEXTS = ("partition", "qos", "comment")


def _texts_differ(old: Labels, new: Labels) -> BoolArray:
    if old.names == new.names:
        return np.asarray(old.codes != new.codes)
    numbers = {name: number for number, name in enumerate(old.names)}
    return np.asarray(new.map([numbers.get(name, -1) for name in new.names], np.int64) != old.codes, dtype=np.bool_)


def _value(what: str, look: _Look, row: int) -> Value:
    """Return a setting as in a story; of a comment only the request to slurmsched, None for no limit."""
    if what == "limit":
        limit_s = float(look.time_limit_s[row])
        return limit_s if math.isfinite(limit_s) else None
    if what == "comment":
        return owner_request(look.comment[row])[0]
    if what in ("suspended", "resumed"):
        return None
    return str(getattr(look, what)[row]) if what in _TEXTS else int(getattr(look, what)[row])
