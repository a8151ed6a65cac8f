"""From a play-forward to times that keep their promise: rolling conformal calibration on this cluster's past.

How far off a prediction was is log((what came + 30 s) / (what was predicted + 30 s)), both counted from when it was
made; for the finish in units of how uncertain the job's own forecast made it. Quantiles of the last of these, of jobs
of the same partition and size where there are enough, are the median and both ends. As in ``intervals`` the shares
asked of them move while too few or too many jobs stay below what they were told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.kept import KeptState, KeptTable
from ..cluster.predictions import PredictionKind, PredictionTable

GRACE_S = 30.0  #: what matters little: loops of Slurm's, a moment's notice
LEAST_S = 5.0  #: from the median to either end: whole seconds, and when Slurm's loops happen to look
LATE_S = 60.0  #: Slurm ends a job that much after its time limit at most, as a rule
TARGET = 0.9
WINDOW = 1000  #: the last predictions that came true or not, of a class or of all
ENOUGH = 20  #: of them that an interval needs
CLASS_ENOUGH = 50  #: and a class of its own
BATCH = 25  #: predictions between two looks at what stayed below
GAIN = 0.2  #: how far one look moves a share, times how far it was off
GUESS = np.log(3.0)  #: before there are enough: a start within a factor of three
LEAST_SCALE = 0.05
_SHARE_LEAST, _SHARE_MOST = 0.005, 0.995


class Shares(NamedTuple):
    """The shares asked for so that one in ten stays below the low end and nine in ten below the high one."""

    low: float
    high: float


@dataclass(frozen=True)
class Ends:
    """What is known of one kind of moment, starts or finishes: log misses in the order in which they were known."""

    key: tuple[str, ...]  #: class of each
    miss: FloatArray
    shares: Shares

    def quantiles(self, keys: list[str]) -> tuple[FloatArray, IntArray]:
        """Low end, middle and high end for each of *keys*, shape (3, keys), and how many misses they rest on.

        With too few of them nothing is known: NaN, 0.
        """
        asked = (self.shares.low, 0.5, self.shares.high)
        mine = np.array(self.key, dtype=object)
        of: dict[str, tuple[list[float], int]] = {}
        for key in dict.fromkeys(keys):
            own = self.miss[mine == key][-WINDOW:] if len(mine) else self.miss
            some = own if len(own) >= CLASS_ENOUGH else self.miss[-WINDOW:]
            of[key] = ([conformal(some, share) for share in asked], len(some)) if len(some) >= ENOUGH else NOTHING
        values = np.array([of[key][0] for key in keys], dtype=np.float64).reshape(len(keys), 3).T
        return values, np.array([of[key][1] for key in keys], dtype=np.int64)


NOTHING: tuple[list[float], int] = ([np.nan] * 3, 0)


@dataclass(frozen=True)
class Calibration:
    """What the past says about predictions to come."""

    starts: Ends
    finishes: Ends

    @classmethod
    def of(cls, kept: KeptTable, now_s: float = -np.inf) -> Calibration:
        """What is known at *now_s* once *kept* is.

        A job that should have started or ended by now and has not counts as if it did so now: those that have are the
        ones that were early.
        """
        waits = (kept.state == KeptState.OPEN) & np.isnan(kept.started_s)
        starts_s = np.where(kept.started, kept.started_s, np.where(waits, now_s, np.nan))
        is_open = kept.state == KeptState.OPEN
        ends_s = np.where(kept.settled, kept.ended_s, np.where(is_open, now_s, np.nan))
        return cls(
            _ends(kept, starts_s, kept.started, kept.raw_start_s, kept.start_from_s, kept.start_by_s, None),
            _ends(kept, ends_s, kept.settled, kept.raw_finish_s, kept.finish_from_s, kept.finish_by_s, kept.scale),
        )

    def told(self, raw: PredictionTable) -> PredictionTable:
        """*raw* with what people are told: calibrated medians, from and by. Rows of running jobs stay as they are."""
        waits = raw.said & (raw.kind != PredictionKind.RUNNING)
        rows = np.flatnonzero(waits)
        some = raw.take(rows)
        keys, scale = _keys(some.partition, some.gpus), scales(some)
        starts, start_basis = self.starts.quantiles(keys)
        finishes, finish_basis = self.finishes.quantiles(keys)
        start_s = np.array([_later(some.start_s, some.made_s, log) for log in _or_guess(starts, GUESS)])
        unsure = start_s - some.start_s
        bare = np.array([some.finish_from_s, some.finish_s, some.finish_by_s]) + unsure
        finish_s = np.array([_later(some.finish_s, some.made_s, log * scale) for log in finishes])
        finish_s = np.where(np.isnan(finish_s), bare, finish_s)
        last_s = some.time_limit_s + LATE_S
        finish_s = np.clip(finish_s, some.made_s, np.maximum(start_s[2], start_s[1]) + last_s)
        columns: dict[str, Any] = {}
        for name, values in (("start", _apart(start_s, some.made_s)), ("finish", _apart(finish_s, some.made_s))):
            for end, value in zip(("from_s", "s", "by_s"), values, strict=True):
                columns[f"{name}_{end}"] = _put(getattr(raw, f"{name}_{end}"), rows, value)
        columns |= {
            "start_basis": _put(raw.start_basis, rows, start_basis),
            "finish_basis": _put(raw.finish_basis, rows, finish_basis),
        }
        return replace(raw, **columns)


def scales(raw: PredictionTable) -> FloatArray:
    """How uncertain the job's own forecast makes its finish: log of the wider side, seen from now."""
    middle = _span(raw.finish_s, raw.made_s)
    wider = np.maximum(_span(raw.finish_by_s, raw.made_s) / middle, middle / _span(raw.finish_from_s, raw.made_s))
    return np.maximum(LEAST_SCALE, np.log(wider))


def conformal(misses: FloatArray, share: float) -> float:
    """The miss that *share* of the next ones stay below, by the ranks of those that were: the k-th of n.

    k is (n + 1) times the share, rounded up for the upper half and down for the lower, so that both are one-sided
    promises (Vovk et al. 2005).
    """
    place = (len(misses) + 1) * share
    at = int(np.ceil(place)) if share >= 0.5 else int(np.floor(place))
    return float(np.sort(misses)[np.clip(at, 1, len(misses)) - 1])


def keepable(kinds: IntArray) -> BoolArray:
    """Which predictions are kept: of single jobs that wait and can be told a time."""
    return np.isin(kinds, (PredictionKind.PREDICTED, PredictionKind.LEFT_ALONE, PredictionKind.NO_HISTORY))


def _ends(
    kept: KeptTable,
    came_s: FloatArray,
    known: BoolArray,
    raw_s: FloatArray,
    from_s: FloatArray,
    by_s: FloatArray,
    scale: FloatArray | None,
) -> Ends:
    """What is known of moments that came, or are *known* not to have come by *came_s*."""
    rows = np.flatnonzero(known | (came_s > raw_s))
    rows = rows[np.argsort(came_s[rows], kind="stable")]
    miss = _miss(came_s[rows], raw_s[rows], kept.made_s[rows])
    judged = rows[known[rows] | (came_s[rows] > by_s[rows])]
    return Ends(
        tuple(_keys(kept.partition.take(rows), kept.gpus[rows])),
        miss if scale is None else miss / scale[rows],
        _moved(came_s[judged], from_s[judged], by_s[judged]),
    )


def _span(at_s: FloatArray, made_s: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(at_s - made_s, 0.0) + GRACE_S)


def _miss(came_s: FloatArray, said_s: FloatArray, made_s: FloatArray) -> FloatArray:
    return np.log(_span(came_s, made_s) / _span(said_s, made_s))


def _later(at_s: FloatArray, made_s: FloatArray, log: FloatArray) -> FloatArray:
    """The moment that misses *at_s* by *log*, never before now."""
    with np.errstate(over="ignore"):
        return np.asarray(made_s + np.maximum(0.0, _span(at_s, made_s) * np.exp(log) - GRACE_S))


def _or_guess(logs: FloatArray, guess: float) -> FloatArray:
    guesses = np.array([-guess, 0.0, guess])[:, np.newaxis]
    return np.where(np.isnan(logs), guesses, logs)


def _apart(three: FloatArray, made_s: FloatArray) -> FloatArray:
    """Low end, middle and high end in that order, and none before now."""
    low, middle, high = three
    return np.array([np.maximum(made_s, np.minimum(low, middle - LEAST_S)), middle, np.maximum(high, middle + LEAST_S)])


def _put(column: FloatArray | IntArray, rows: IntArray, values: FloatArray | IntArray) -> FloatArray | IntArray:
    changed = column.copy()
    changed[rows] = values
    return changed


def _keys(partition: Labels, gpus: IntArray) -> list[str]:
    """The class of each job: partitions as asked for, and how many GPUs."""
    return [f"{name} {size_of(many)}" for name, many in zip(partition, gpus.tolist(), strict=True)]


def size_of(gpus: int) -> str:
    """The size of a job in words."""
    return "no GPU" if gpus <= 0 else "1 GPU" if gpus == 1 else "2-8 GPUs" if gpus <= 8 else "over 8 GPUs"


def _moved(came_s: FloatArray, from_s: FloatArray, by_s: FloatArray) -> Shares:
    """The shares to ask for now, moved batch by batch by how many came before what they had been told."""
    low, high = 1 - TARGET, TARGET
    for start in range(0, len(came_s) - BATCH + 1, BATCH):
        some = slice(start, start + BATCH)
        high += GAIN * (TARGET - float((came_s[some] <= by_s[some]).mean()))
        low += GAIN * ((1 - TARGET) - float((came_s[some] < from_s[some]).mean()))
        low, high = float(np.clip(low, _SHARE_LEAST, 0.5)), float(np.clip(high, 0.5, _SHARE_MOST))
    return Shares(low, high)
