"""What the order changed of waits: the queue replayed in the other order, as a daemon added it up by the hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..cluster.records.hours import HOUR_S, HourTable
from .answer import ReplayedWait
from .hour_names import REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S, named
from .redraws import interval

LEAST_JOBS = 20  #: that started, below which there is no interval

_Hours = Mapping[float, Sequence[float]]


def replayed_waits(table: HourTable, mode: str) -> Iterator[ReplayedWait]:
    """Yield the change of waits in *mode* of all jobs, then of each account: the largest harm first."""
    kinds = [named(what, mode) for what in (REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S)]
    hours: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    rows = zip(table.what, table.account, table.from_s.tolist(), table.value.tolist(), strict=True)
    for what, account, from_s, value in rows:
        if what in kinds:
            for name in ("", account):
                hours[name][from_s][kinds.index(what)] += value
    found = [_wait(name, hours[name]) for name in hours]
    yield from sorted(found, key=lambda one: (one["account"] != "", -_known(one["change_s"]), one["account"]))


def _wait(account: str, hours: _Hours) -> ReplayedWait:
    jobs, longer_s, shorter_s = np.array([hours[hour] for hour in sorted(hours)], dtype=np.float64).T
    many = float(jobs.sum())
    low_s, high_s = interval(longer_s - shorter_s, jobs) if many >= LEAST_JOBS else (np.nan, np.nan)
    return {
        "account": account,
        "hours": len(jobs),
        "jobs": many,
        "change_s": float((longer_s - shorter_s).sum()) / many if many else np.nan,
        "low_s": low_s,
        "high_s": high_s,
        "longer": float(longer_s.sum()) / HOUR_S,
        "shorter": float(shorter_s.sum()) / HOUR_S,
    }


def _known(value: float) -> float:
    return value if value == value else -np.inf
