"""Calibration of predicted starts and finishes: what share came by each quantile, beside Slurm's own estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.records.prediction_records import PredictionRecords
from .completion_calibration import GRACE_S, size_of

SHARES = tuple(tenth / 10 for tenth in range(1, 10))
OURS, SLURMS = "slurmsched", "Slurm"
LEAST = 20  #: predictions without which there are no deciles
_Z = NormalDist().inv_cdf
_MAPPED = {share: _Z(share) / _Z(0.9) for share in SHARES}


@dataclass(frozen=True)
class ReliabilityPoint:
    """The share of starts, and of finishes, that came by the time meant for a share of *nominal*."""

    nominal: float
    starts: int
    started: float  #: share; NaN where nothing came, as below
    finishes: int
    finished: float


@dataclass(frozen=True)
class PredictedWaits:
    """The real waits of a tenth of the jobs: those whose predicted waits were alike."""

    source: str  #: who predicted
    decile: int  #: 1 for the shortest predicted waits
    jobs: int
    predicted_s: float  #: median
    real_p10_s: float
    real_p50_s: float
    real_p90_s: float


@dataclass(frozen=True)
class GroupReliability:
    """The shares of a group that came by the times meant for one, five and nine in ten, and by Slurm's estimate."""

    by: str  #: all, partition, size, promise, hold, window
    name: str
    starts: int
    start_low: float
    start_median: float
    start_high: float
    finishes: int
    finish_low: float
    finish_median: float
    finish_high: float
    slurm_jobs: int  #: starts that Slurm estimated too
    slurm_by: float  #: of them the share that came by its estimate
    ours_by: float  #: of them the share that came by our median


@dataclass(frozen=True)
class Groups:
    """The traits of predictions that reliability is told apart by, one per row."""

    promised: BoolArray  #: of jobs that asked for a deadline
    held: BoolArray  #: of jobs that we held for some time


def points(records: PredictionRecords) -> tuple[ReliabilityPoint, ...]:
    """Return the reliability of first predictions at each tenth.

    Of a prediction one in ten, the median and nine in ten are stored; the tenths between them are interpolated by a
    normal distribution of log time ahead on each side of the median.
    """
    return tuple(_points(_first(records)))


def predicted_waits(records: PredictionRecords) -> tuple[PredictedWaits, ...]:
    """Return real beside predicted waits, by tenths of the predicted ones: ours, then Slurm's."""
    first = _first(records)
    starts = first.take(first.started)
    theirs = starts.take(np.isfinite(starts.slurm_start_s))
    ours = _deciles(OURS, starts.start_s - starts.made_s, starts.started_s - starts.made_s)
    return (*ours, *_deciles(SLURMS, theirs.slurm_start_s - theirs.made_s, theirs.started_s - theirs.made_s))


def by_group(records: PredictionRecords, groups: Groups) -> tuple[GroupReliability, ...]:
    """Return the reliability of all first predictions, by partition, size, promises, holds, windows."""
    rows = np.flatnonzero(records.number == 0)
    first, promised, held = records.take(rows), groups.promised[rows], groups.held[rows]
    sizes = np.array([size_of(many) for many in first.gpus.tolist()], dtype=object)
    parts = np.array(list(first.partition), dtype=object)
    kinds = [("all", "", np.ones(len(first), dtype=np.bool_))]
    kinds += [("partition", name, parts == name) for name in sorted(set(parts.tolist()))]
    kinds += [("size", name, sizes == name) for name in sorted(set(sizes.tolist()))]
    kinds += [("promise", *one) for one in (("with", promised), ("without", ~promised))]
    kinds += [("hold", *one) for one in (("with", held), ("without", ~held))]
    kinds += [("window", *one) for one in (("with", first.windows == 1), ("without", first.windows == 0))]
    made = (_group(by, name, first.take(mask)) for by, name, mask in kinds if mask.any())
    return tuple(group for group in made if group.starts or group.finishes)


def since(records: PredictionRecords, since_s: float) -> BoolArray:
    """Select the records whose start or finish came since then."""
    started = records.started & (records.started_s >= since_s)
    return np.asarray(started | (records.settled & (records.ended_s >= since_s)))


def _first(records: PredictionRecords) -> PredictionRecords:
    return records.take(np.flatnonzero(records.number == 0))


def _points(first: PredictionRecords) -> Iterator[ReliabilityPoint]:
    starts, finishes = first.take(first.started), first.take(first.settled)
    for share in SHARES:
        started = _came(starts.made_s, starts.started_s, starts.start_from_s, starts.start_s, starts.start_by_s, share)
        finished = _came(
            finishes.made_s, finishes.ended_s, finishes.finish_from_s, finishes.finish_s, finishes.finish_by_s, share
        )
        if len(started) or len(finished):
            yield ReliabilityPoint(share, len(started), _mean(started), len(finished), _mean(finished))


def _came(
    made_s: FloatArray, came_s: FloatArray, low_s: FloatArray, at_s: FloatArray, high_s: FloatArray, share: float
) -> BoolArray:
    """Select the predictions whose moment came by the quantile of *share*; those without all three are left out."""
    known = np.isfinite(low_s) & np.isfinite(at_s) & np.isfinite(high_s)
    came, low, at, high = (_log_ahead((each - made_s)[known]) for each in (came_s, low_s, at_s, high_s))
    z = _MAPPED[share]
    quantile = at + z * np.where(z < 0, at - low, high - at)
    return np.asarray(came <= quantile + 1e-9)


def _log_ahead(ahead_s: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(ahead_s, 0.0) + GRACE_S))


def _deciles(source: str, predicted_s: FloatArray, real_s: FloatArray) -> Iterator[PredictedWaits]:
    known = np.isfinite(predicted_s)
    predicted_s, real_s = np.maximum(predicted_s[known], 0.0), np.maximum(real_s[known], 0.0)
    if len(predicted_s) < LEAST:
        return
    order = np.argsort(predicted_s, kind="stable")
    for number, rows in enumerate(np.array_split(order, 10), 1):
        p10, p50, p90 = np.percentile(real_s[rows], (10, 50, 90))
        yield PredictedWaits(
            source, number, len(rows), float(np.median(predicted_s[rows])), float(p10), float(p50), float(p90)
        )


def _group(by: str, name: str, first: PredictionRecords) -> GroupReliability:
    starts, finishes = first.take(first.started), first.take(first.settled)
    theirs = starts.take(np.isfinite(starts.slurm_start_s))
    return GroupReliability(
        by,
        name,
        starts=len(starts),
        start_low=_mean(starts.started_s <= starts.start_from_s),
        start_median=_mean(starts.started_s <= starts.start_s),
        start_high=_mean(starts.started_s <= starts.start_by_s),
        finishes=len(finishes),
        finish_low=_mean(finishes.ended_s <= finishes.finish_from_s),
        finish_median=_mean(finishes.ended_s <= finishes.finish_s),
        finish_high=_mean(finishes.ended_s <= finishes.finish_by_s),
        slurm_jobs=len(theirs),
        slurm_by=_mean(theirs.started_s <= theirs.slurm_start_s),
        ours_by=_mean(theirs.started_s <= theirs.start_s),
    )


def _mean(values: BoolArray | Sequence[bool]) -> float:
    return float(np.mean(values)) if len(values) else np.nan
