"""Forecast intervals that keep their coverage as habits change: rolling conformal prediction.

A run's miss is log(runtime / base), with the base as at its submission: the forecast itself, or a component of it. The
ends of the interval are quantiles of the last misses, class by class; the target shares move while too few or too many
runs stay below (adaptive conformal inference, Gibbs and Candes 2021).
The middle stays the forecast: runs that ended lately are mostly short ones and would bias it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Table
from .model_inputs import CLASSES
from .residuals import ResidualQuantiles

SHARES = (0.1, 0.5, 0.9)  #: low end, middle, and "done by"
WINDOW = 2000  #: latest misses that count
STEP = 100  #: runs per update of the target shares
GAIN = 0.1  #: step of an update, as a multiple of the deviation from the target
_LEAST, _MOST = 0.02, 0.995
_ENDS = np.array([1.0, 0.0, 1.0])  # 1 for the shares that move


@dataclass(frozen=True, eq=False)
class Misses(Table):
    """The misses of forecasts, in the order the runs ended."""

    submitted_s: FloatArray
    ended_s: FloatArray  #: never falling
    kind: IntArray  #: one of `model_inputs.classes`
    miss: FloatArray  #: log(runtime / base)
    middle: FloatArray  #: log(forecast / base)

    def document(self) -> dict[str, list[float]]:
        """Return the misses as JSON values, without loss."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    @classmethod
    def of_document(cls, document: Mapping[str, Sequence[float]]) -> Self:
        """Rebuild the misses from their `document`. ValueError, KeyError or TypeError where it describes none."""
        submitted_s, ended_s, miss, middle = (
            np.array(document[name], np.float64) for name in ("submitted_s", "ended_s", "miss", "middle")
        )
        misses = cls(submitted_s, ended_s, np.array(document["kind"], np.int64), miss, middle)
        if len(misses) and not 0 <= misses.kind.min() <= misses.kind.max() < CLASSES:
            raise ValueError(f"classes of evidence are 0 to {CLASSES - 1}")
        return misses


class Interval(NamedTuple):
    """The interval of the next jobs: the quantiles of the last misses, the target shares, and the recent coverage."""

    spread: ResidualQuantiles
    shares: tuple[float, ...]  #: target shares, one for each of SHARES
    coverage: float  #: share of the last WINDOW runs that were done by the 90 % bound; NaN for none

    def factors(self, kinds: IntArray, forecast: FloatArray, survived: FloatArray) -> FloatArray:
        """Return the interval at SHARES for jobs of *forecast* and age *survived*, shape (3, jobs); all over base."""
        middle = forecast
        if not survived.any():
            low, high = (self.spread.fresh(kinds, share) for share in self.shares[::2])
        else:
            low, high = (self.spread.factor(kinds, share, survived) for share in self.shares[::2])
            later = self.spread.factor(kinds, self.shares[1], survived)
            middle = np.maximum(forecast * later / self.spread.fresh(kinds, self.shares[1]), survived)
        return np.array([np.minimum(low, middle), middle, np.maximum(high, middle)])


@dataclass(frozen=True, eq=False)
class Rolled:
    """The interval of each run as at its submission, and that of the next ones."""

    log_factors: FloatArray  #: log(bound / base), shape (3, runs)
    informed: BoolArray  #: True where ended runs had informed the interval, shape (runs,); False for the first ones
    interval: Interval


def rolled(misses: Misses) -> Rolled:
    """Compute the interval of each run from what had ended by its submission, in steps of STEP runs."""
    bounds = np.empty((len(SHARES), len(misses)))
    shares = np.array(SHARES)
    misses_before = (
        np.minimum(np.searchsorted(misses.ended_s, misses.submitted_s, side="right"), np.arange(len(misses))) // STEP
    )
    order = np.argsort(misses_before, kind="stable")
    starts = np.searchsorted(misses_before[order], np.arange(len(misses) // STEP + 2))
    done_by: list[BoolArray] = []
    for step in range(len(misses) // STEP + 1):
        ended = slice(max(0, (step - 1) * STEP), step * STEP)
        if step:
            below = misses.miss[ended] <= bounds[:, ended]
            done_by.append(below[-1])
            shares = np.clip(shares + GAIN * _ENDS * (SHARES - below.mean(axis=1)), _LEAST, _MOST)
        rows = order[starts[step] : starts[step + 1]]
        if len(rows):
            interval = Interval(_spread(misses, step * STEP), tuple(shares.tolist()), np.nan)
            forecast, fresh = np.exp(misses.middle[rows]), np.zeros(len(rows))
            bounds[:, rows] = np.log(interval.factors(misses.kind[rows], forecast, fresh))
    last = done_by[-(WINDOW // STEP) :]
    coverage = float(np.concatenate(last).mean()) if last else np.nan
    return Rolled(bounds, misses_before > 0, Interval(_spread(misses, len(misses)), tuple(shares.tolist()), coverage))


def _spread(misses: Misses, count: int) -> ResidualQuantiles:
    window = slice(max(0, count - WINDOW), count)
    return ResidualQuantiles.of(misses.kind[window], misses.miss[window], CLASSES)
