"""The accuracy of predicted starts and finishes, beside Slurm's own estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.records.prediction_records import PredictionRecords
from .completion_calibration import size_of

DAY_S = 86400.0
DAYS = (1.0, 7.0, 30.0)


@dataclass(frozen=True)
class Side:
    """The accuracy of starts, or of finishes: their number, the error of the median, and the coverage of the ends."""

    jobs: int
    error_s: float  #: median of |actual - predicted|; NaN where none came, as all below
    relative: float  #: mean of |actual - predicted| over the predicted time from then on (PCS section 2)
    by: float  #: the share that came by the high end, which is meant for nine in ten
    within: float  #: the share between both ends
    width_s: float  #: median distance of the ends


@dataclass(frozen=True)
class PredictionAccuracy:
    """Accuracy of the first predictions of the jobs whose start or finish came in the last *days*."""

    days: float
    partition: str  #: empty for all
    size: str  #: empty for all
    starts: Side
    finishes: Side
    slurm_jobs: int  #: starts for which Slurm gave an estimate beforehand
    slurm_error_s: float  #: median of |actual - Slurm's estimate|
    ours_there_s: float  #: the same for our own predictions of these jobs


def accuracy(records: PredictionRecords, now_s: float, days: Sequence[float] = DAYS) -> tuple[PredictionAccuracy, ...]:
    """Compute the rows for each span of *days*: over all, per partition and per size, where any moment came."""
    first = records.take(np.flatnonzero(records.number == 0))
    sizes = np.array([size_of(many) for many in first.gpus.tolist()], dtype=object)
    parts = np.array(list(first.partition), dtype=object)
    return tuple(row for span in days for row in _rows(first, now_s, span, parts, sizes))


def _rows(
    first: PredictionRecords, now_s: float, days: float, parts: NDArray[np.object_], sizes: NDArray[np.object_]
) -> Iterator[PredictionAccuracy]:
    since_s = now_s - days * DAY_S
    came = (first.started & (first.started_s >= since_s)) | (first.settled & (first.ended_s >= since_s))
    if not came.any():
        return
    yield _row(first, since_s, days, "", "", came)
    for name in sorted(set(parts[came].tolist())):
        yield _row(first, since_s, days, name, "", came & (parts == name))
    for size in sorted(set(sizes[came].tolist())):
        yield _row(first, since_s, days, "", size, came & (sizes == size))


def _row(
    first: PredictionRecords, since_s: float, days: float, partition: str, size: str, rows: BoolArray
) -> PredictionAccuracy:
    starts = first.take(rows & first.started & (first.started_s >= since_s))
    finishes = first.take(rows & first.settled & (first.ended_s >= since_s))
    theirs = starts.take(np.isfinite(starts.slurm_start_s))
    return PredictionAccuracy(
        days,
        partition,
        size,
        _side(starts.started_s, starts.made_s, starts.start_from_s, starts.start_s, starts.start_by_s),
        _side(finishes.ended_s, finishes.made_s, finishes.finish_from_s, finishes.finish_s, finishes.finish_by_s),
        len(theirs),
        _median(np.abs(theirs.started_s - theirs.slurm_start_s)),
        _median(np.abs(theirs.started_s - theirs.start_s)),
    )


def _side(came_s: FloatArray, made_s: FloatArray, from_s: FloatArray, at_s: FloatArray, by_s: FloatArray) -> Side:
    off_s = np.abs(came_s - at_s)
    by, inside = came_s <= by_s, (came_s >= from_s) & (came_s <= by_s)
    relative = off_s / np.maximum(at_s - made_s, 1.0)
    return Side(len(came_s), _median(off_s), _mean(relative), _mean(by), _mean(inside), _median(by_s - from_s))


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else np.nan


def _mean(values: FloatArray | BoolArray) -> float:
    return float(np.mean(values)) if len(values) else np.nan
