"""How long jobs waited, beside what Slurm and slurmsched said beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, places_of
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.prediction_records import PredictionRecords
from .answer import Waits
from .gpu_time import keys
from .requests import by_size

MOST = 20  #: accounts that are listed, those with the most starts


def waits(runs: OutcomeTable, predictions: PredictionRecords, since_s: float, until_s: float) -> Iterator[Waits]:
    """Yield the waits of jobs whose first start came in [since_s, until_s): of all, by size, by account."""
    here = (runs.restart == 0) & (runs.started_s >= since_s) & (runs.started_s < until_s)
    here &= np.isfinite(runs.eligible_s)
    starts = runs.take(here)
    if not len(starts):
        return
    told = _first_predictions(starts, predictions)
    yield _waits("all", "", starts, told, np.ones(len(starts), dtype=np.bool_))
    for size, rows in by_size(starts.gpus):
        if rows.any():
            yield _waits("size", size, starts, told, rows)
    codes = starts.account.codes
    many = np.bincount(codes, minlength=len(starts.account.names))
    for code in np.argsort(-many, kind="stable")[:MOST].tolist():
        if many[code]:
            yield _waits("account", starts.account.names[code], starts, told, codes == code)


def rows_of(runs: OutcomeTable, records: PredictionRecords) -> IntArray:
    """Return the row of *records* of the first prediction of each run's job; -1 where there is none."""
    first = np.flatnonzero(records.number == 0)
    known, asked = keys(records.job_id[first], records.first_submit_s[first]), keys(runs.job_id, runs.first_submit_s)
    return np.append(first, -1)[places_of(asked, known, first=True)]


def _first_predictions(starts: OutcomeTable, records: PredictionRecords) -> tuple[FloatArray, FloatArray]:
    """Return Slurm's estimate and our prediction of each start; NaN where Slurm gave none."""
    row = rows_of(starts, records)
    slurm_s, ours_s = np.full(len(starts), np.nan), np.full(len(starts), np.nan)
    known = row >= 0
    slurm_s[known] = records.slurm_start_s[row[known]]
    ours_s[known] = records.start_s[row[known]]
    return slurm_s, np.where(np.isfinite(slurm_s), ours_s, np.nan)


def _waits(by: str, name: str, starts: OutcomeTable, told: tuple[FloatArray, FloatArray], rows: BoolArray) -> Waits:
    waited_s = np.maximum(starts.started_s - starts.eligible_s, 0.0)
    slurm_s, ours_s = told
    both = rows & np.isfinite(slurm_s)
    p50, p90 = np.percentile(waited_s[rows], (50, 90))
    return {
        "by": by,
        "name": name,
        "starts": int(rows.sum()),
        "p50_s": float(p50),
        "p90_s": float(p90),
        "most_s": float(waited_s[rows].max()),
        "slurm_jobs": int(both.sum()),
        "slurm_p50_s": _median(np.maximum(slurm_s - starts.eligible_s, 0.0)[both]),
        "real_p50_s": _median(waited_s[both]),
        "slurm_off_s": _median(np.abs(starts.started_s - slurm_s)[both]),
        "ours_off_s": _median(np.abs(starts.started_s - ours_s)[both]),
    }


def _median(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan
