"""Calibrated start and finish times from simulated ones: rolling conformal calibration on this cluster's past.

The miss of a prediction is log((actual + 30 s) / (predicted + 30 s)), both counted from the time of the prediction, in
units of the prediction's own uncertainty. The median and both ends are quantiles of the latest misses: of jobs of the
same partition and size where there are enough, and of predictions about as far ahead. An open prediction is a censored
observation: its miss is at least its value by now (Kaplan and Meier 1958), since those that came soon are the short
ones. Jobs that wait at the same time for about as long wait for the same things and miss alike, so each counts less,
the more there are (the design effect of Kish 1965). The target shares move while too few or too many jobs stay below
their predictions (adaptive conformal inference, Gibbs and Candes 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.records.prediction_records import KeptState, PredictionRecords
from ...cluster.records.predictions import PredictionKind, PredictionTable
from .moments import as_of

GRACE_S = 30.0  #: a difference of little importance: the intervals of Slurm's loops, a moment's notice
LATE_S = 60.0  #: Slurm ends a job at most about this long after its time limit
TARGET = 0.9
ALIKE = 0.05  #: correlation of the misses of two predictions that are open at the same time, for about as long
SPAN = 2.0  #: difference of the logs of two times, of which those up to the next but one are about as long
WINDOW = 1000.0  #: total weight of the latest predictions that count, of a class or of all
ENOUGH = 20  #: settled predictions needed to call an interval calibrated
CLASS_ENOUGH = 50  #: settled predictions needed for a class to be calibrated on its own
NEAR = 50.0  #: total weight of settled predictions used among those about as far ahead
STEP = 0.25  #: difference of log time ahead within which predictions count as equally far ahead
BATCH = 25  #: predictions per update of the target shares
GAIN = 0.5  #: step of an update, as a multiple of the deviation from the target
GUESS = np.log(3.0)  #: least uncertainty of any prediction: a factor of three
PRIOR = np.array([NormalDist(0.0, 1 / NormalDist().inv_cdf(0.9)).inv_cdf((row + 0.5) / 7) for row in range(7)])
"""Prior misses, of which four in five lie between the ends that a prediction has by itself."""

_LOWER, _UPPER = (0.005, 0.5), (0.5, 0.995)
_TINY = 1e-9


class Shares(NamedTuple):
    """The target shares that leave one in ten below the low end and nine in ten below the high one."""

    low: float
    high: float


@dataclass(frozen=True)
class MomentErrors:
    """The misses of one kind of moment, starts or finishes, the oldest prediction first."""

    key: tuple[str, ...]  #: class of each
    ahead: FloatArray  #: log of the time that was predicted
    miss: FloatArray  #: log miss in units of the uncertainty; of open predictions the miss so far
    came: BoolArray  #: True where the moment came, False where it is open
    worth: FloatArray  #: weight of each, in predictions with independent misses; at most 1
    shares: Shares

    def quantiles(self, keys: list[str], ahead: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return low end, middle and high end for jobs of these classes, that log of time ahead; shape (3, keys).

        The second array holds the number of settled predictions they rest on; 0 for fewer than ENOUGH.
        """
        steps = np.round(ahead / STEP).tolist()
        pairs = list(zip(keys, steps, strict=True))
        rows = {key: self._rows(key) for key in dict.fromkeys(keys)}
        of = {pair: self._near(rows[pair[0]], pair[1] * STEP) for pair in dict.fromkeys(pairs)}
        found = [of[pair] for pair in pairs]
        values = np.array([ends for ends, _ in found], dtype=np.float64).reshape(len(keys), 3).T
        return values, np.array([basis if basis >= ENOUGH else 0 for _, basis in found], dtype=np.int64)

    def _rows(self, key: str) -> IntArray:
        """Select the latest rows of this class, or of all where too few of it are settled."""
        rows = np.flatnonzero(np.array(self.key, dtype=object) == key)
        if self.came[rows].sum() < CLASS_ENOUGH:
            rows = np.arange(len(self.miss))
        return rows[np.cumsum(self.worth[rows][::-1])[::-1] <= WINDOW]

    def _near(self, rows: IntArray, ahead: float) -> tuple[FloatArray, int]:
        """Return the ends from those of *rows* that were about so far ahead, and how many of them are settled.

        Of those that were as far ahead, as all are that were to start at once, the latest come first.
        """
        rows = rows[::-1]
        rows = rows[np.argsort(np.abs(self.ahead[rows] - ahead), kind="stable")]
        rows = rows[: int(np.searchsorted(np.cumsum(self.worth[rows] * self.came[rows]), NEAR)) + 1]
        miss, worth = np.append(self.miss[rows], PRIOR), np.append(self.worth[rows], np.ones(len(PRIOR)))
        came = np.append(self.came[rows], np.ones(len(PRIOR), dtype=np.bool_))
        return survived(miss, came, worth, (self.shares.low, 0.5, self.shares.high)), int(self.came[rows].sum())


@dataclass(frozen=True)
class Calibration:
    """Corrections for new predictions, from the errors of past ones."""

    starts: MomentErrors
    finishes: MomentErrors

    @classmethod
    def of(cls, records: PredictionRecords, now_s: float = -np.inf) -> Calibration:
        """Compute the calibration from *records* at *now_s*.

        A job that has not started or ended counts as censored at *now_s*: otherwise only the early ones would count.
        """
        is_open = records.state == KeptState.OPEN
        starts_s = np.where(records.started, records.started_s, np.where(is_open, now_s, np.nan))
        ends_s = np.where(records.settled, records.ended_s, np.where(is_open, now_s, np.nan))
        unsure = np.full(len(records), GUESS)
        return cls(
            _ends(
                records,
                starts_s,
                records.started,
                records.raw_start_s,
                records.start_from_s,
                records.start_by_s,
                unsure,
            ),
            _ends(
                records,
                ends_s,
                records.settled,
                records.raw_finish_s,
                records.finish_from_s,
                records.finish_by_s,
                records.scale,
            ),
        )

    def calibrated(self, raw: PredictionTable) -> PredictionTable:
        """Return *raw* with calibrated medians, lower and upper ends; running jobs keep theirs, from now on."""
        waits = raw.has_value & (raw.kind != PredictionKind.RUNNING)
        rows = np.flatnonzero(waits)
        some = raw.take(rows)
        keys, scale, from_s = _keys(some.partition, some.gpus), scales(some), _unsure_from_s(some)
        starts, start_basis = self.starts.quantiles(keys, _ahead(some.start_s, from_s))
        finishes, finish_basis = self.finishes.quantiles(keys, _ahead(some.finish_s, from_s))
        start_s = np.array([_later(some.start_s, from_s, log * GUESS) for log in starts])
        finish_s = np.array([_later(some.finish_s, from_s, log * scale) for log in finishes])
        last_s = some.time_limit_s + LATE_S
        finish_s = np.clip(finish_s, some.made_s, np.maximum(start_s[2], start_s[1]) + last_s)
        columns: dict[str, Any] = {}
        for name, values in (("start", start_s), ("finish", finish_s)):
            for end, value in zip(("from_s", "s", "by_s"), values, strict=True):
                columns[f"{name}_{end}"] = _put(getattr(raw, f"{name}_{end}"), rows, value)
        columns |= {
            "start_basis": _put(raw.start_basis, rows, start_basis),
            "finish_basis": _put(raw.finish_basis, rows, finish_basis),
        }
        return as_of(replace(raw, **columns), raw.made_s)


def scales(raw: PredictionTable) -> FloatArray:
    """Return the uncertainty of each finish from the job's own forecast: the log of its wider side, from now."""
    from_s = _unsure_from_s(raw)
    middle = _span(raw.finish_s, from_s)
    wider = np.maximum(_span(raw.finish_by_s, from_s) / middle, middle / _span(raw.finish_from_s, from_s))
    return np.maximum(GUESS, np.log(wider))


def _unsure_from_s(raw: PredictionTable) -> FloatArray:
    """Return from when on the time ahead is uncertain: nothing is before a begin time."""
    return np.asarray(np.fmax(raw.made_s, np.fmin(raw.begins_s, raw.start_s)))


def survived(misses: FloatArray, came: BoolArray, worth: FloatArray, shares: tuple[float, ...]) -> FloatArray:
    """Return the misses that these *shares* of the next ones stay below, where those of open predictions only grow.

    Where all are settled and have weight 1 it is the k-th of n, k being (n + 1) times the share, rounded up for the
    upper half and down for the lower, so that both are one-sided promises (Vovk et al. 2005). The largest where more
    than that share is still open.
    """
    order = np.lexsort((~came, misses))
    left = np.cumsum(worth[order][::-1])[::-1]
    below = 1.0 - np.cumprod(1.0 - came[order] * worth[order] / (left + 1.0))
    at = [
        int(np.searchsorted(below, share - _TINY))
        if share >= 0.5
        else int(np.searchsorted(below, share + _TINY, "right")) - 1
        for share in shares
    ]
    return np.asarray(misses[order][np.clip(at, 0, len(misses) - 1)])


def worths(made_s: FloatArray, until_s: FloatArray) -> FloatArray:
    """Return the weight of each prediction, in independent ones, from how many like it were open when it was made.

    Like it are those that are open for about as long: a job that starts at once does not wait for what the jobs wait
    for that have stood in the queue for days.
    """
    life = np.floor(np.log(_span(until_s, made_s)) / SPAN).astype(np.int64)
    worth = np.ones(len(made_s))
    for span in np.unique(life).tolist():
        like = np.abs(life - span) <= 1
        mine_s = made_s[life == span]
        made = np.searchsorted(np.sort(made_s[like]), mine_s, side="right")
        over = np.searchsorted(np.sort(until_s[like]), mine_s, side="left")
        worth[life == span] = 1.0 / (1.0 + ALIKE * np.maximum(made - over - 1, 0))
    return worth


def keepable(kinds: IntArray) -> BoolArray:
    """Select the predictions to record: those of single pending jobs that have a predicted time."""
    return np.isin(kinds, (PredictionKind.PREDICTED, PredictionKind.LEFT_ALONE, PredictionKind.NO_HISTORY))


def _ends(
    records: PredictionRecords,
    came_s: FloatArray,
    has_outcome: BoolArray,
    raw_s: FloatArray,
    from_s: FloatArray,
    by_s: FloatArray,
    scale: FloatArray,
) -> MomentErrors:
    """Return the errors where *has_outcome*; others are censored at *came_s*, or excluded where that is NaN."""
    rows = np.flatnonzero(np.isfinite(came_s))
    now_s, truly_s = came_s[rows].max(initial=-np.inf), np.where(has_outcome, came_s, np.inf)
    worth = np.ones(len(records))
    worth[rows] = worths(records.made_s[rows], came_s[rows])

    def moved(share: float, predicted_s: FloatArray) -> float:
        judged = rows[predicted_s[rows] <= now_s]
        return _moved(share, truly_s[judged], predicted_s[judged], worth[judged])

    return MomentErrors(
        tuple(_keys(records.partition.take(rows), records.gpus[rows])),
        _ahead(raw_s[rows], records.made_s[rows]),
        _miss(came_s[rows], raw_s[rows], records.made_s[rows]) / scale[rows],
        has_outcome[rows],
        worth[rows],
        Shares(moved(1 - TARGET, from_s), moved(TARGET, by_s)),
    )


def _ahead(at_s: FloatArray, made_s: FloatArray) -> FloatArray:
    return np.log(_span(at_s, made_s))


def _span(at_s: FloatArray, made_s: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(at_s - made_s, 0.0) + GRACE_S)


def _miss(came_s: FloatArray, said_s: FloatArray, made_s: FloatArray) -> FloatArray:
    return np.log(_span(came_s, made_s) / _span(said_s, made_s))


def _later(at_s: FloatArray, made_s: FloatArray, log: FloatArray) -> FloatArray:
    """Return the moment that misses *at_s* by *log*, never before now."""
    with np.errstate(over="ignore"):
        return np.asarray(made_s + np.maximum(0.0, _span(at_s, made_s) * np.exp(log) - GRACE_S))


def _put(column: FloatArray | IntArray, rows: IntArray, values: FloatArray | IntArray) -> FloatArray | IntArray:
    changed = column.copy()
    changed[rows] = values
    return changed


def _keys(partition: Labels, gpus: IntArray) -> list[str]:
    """Return the class of each job: its requested partitions and its number of GPUs."""
    return [f"{name} {size_of(many)}" for name, many in zip(partition, gpus.tolist(), strict=True)]


def size_of(gpus: int) -> str:
    """Return the size class of a job in words."""
    return "no GPU" if gpus <= 0 else "1 GPU" if gpus == 1 else "2-8 GPUs" if gpus <= 8 else "over 8 GPUs"


def _moved(share: float, came_s: FloatArray, predicted_s: FloatArray, worth: FloatArray) -> float:
    """Return the next target share, moved from *share* batch by batch by how many came before their predictions.

    An end counts once it has passed, in the order of ends: otherwise early jobs would count too soon.
    """
    order = np.argsort(predicted_s, kind="stable")
    off = worth[order] * (share - (came_s[order] <= predicted_s[order]))
    target, bounds = share, _UPPER if share >= 0.5 else _LOWER
    for start in range(0, len(off), BATCH):
        target = float(np.clip(target + GAIN / BATCH * off[start : start + BATCH].sum(), *bounds))
    return target
