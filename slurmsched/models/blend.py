"""How much of a forecast comes from the additive model, and how much straight from the last runs.

A sum of tables cannot say "repeat the last run exactly", which is what most jobs of a steady user do. For each class of
evidence the blend mixes the model with the one median or mean of earlier runs that did best beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypedDict

import numpy as np

from ..cluster.columns import FloatArray
from .additive import Columns
from .inputs import CLASSES, classes, numbers

#: Columns of log runtime that may stand beside the model.
REPEATS = (
    *("task_last", "task_median", "name_last", "name_median", "kind_last", "kind_median"),
    *("user_last", "user_median", "width_median", "limit_median"),
)
_SHARES = np.linspace(0.1, 1.0, 10)
_ENOUGH = 50  # runs of a class to judge by


class PartDocument(TypedDict):
    """The mixture of one class as JSON."""

    column: str
    share: float


@dataclass(frozen=True)
class Part:
    """What stands beside the model for one class: a column of REPEATS and its share, 0..1."""

    column: str
    share: float


@dataclass(frozen=True)
class Blend:
    """For some classes a Part; the others take the model alone."""

    parts: Mapping[int, Part]

    @classmethod
    def fit(cls, columns: Columns, model: FloatArray, log_runtime: FloatArray) -> Self:
        """The mixture that did best on runs the model had not seen, whose forecasts by it alone are *model*.

        Best is the lowest sum of mean absolute and mean squared error of log runtime, each relative to the model alone:
        the median matters to one who waits, the variance to the order.
        """
        kinds = classes(columns)
        parts = {}
        for kind in np.unique(kinds).tolist():
            rows = np.flatnonzero(kinds == kind)
            if len(rows) >= _ENOUGH:
                repeats = {name: numbers(columns, name)[rows] for name in REPEATS}
                part = _best(repeats, model[rows], log_runtime[rows])
                if part is not None:
                    parts[kind] = part
        return cls(parts)

    def mixed(self, columns: Columns, model: FloatArray) -> FloatArray:
        """Log runtime of each job; where there is no run to repeat, the *model* alone."""
        if not self.parts:
            return model
        names = list(dict.fromkeys(part.column for part in self.parts.values()))
        repeats = np.array([numbers(columns, name) for name in names])
        beside, share = np.zeros(CLASSES, dtype=np.int64), np.zeros(CLASSES)
        for kind, part in self.parts.items():
            beside[kind], share[kind] = names.index(part.column), part.share
        kinds = classes(columns)
        return _mixture(model, repeats[beside.take(kinds), np.arange(len(kinds))], share.take(kinds))

    def document(self) -> dict[str, PartDocument]:
        """As JSON values."""
        return {str(kind): {"column": part.column, "share": part.share} for kind, part in self.parts.items()}

    @classmethod
    def of_document(cls, document: Mapping[str, PartDocument]) -> Self:
        """The blend that `document` described. ValueError, KeyError or TypeError where it describes none."""
        parts = {int(kind): Part(part["column"], float(part["share"])) for kind, part in document.items()}
        if bad := [p for p in parts.values() if p.column not in REPEATS or not 0 <= p.share <= 1]:
            raise ValueError(f"{bad[0]} is no mixture: accepted are shares of 0..1 of {', '.join(REPEATS)}")
        if not set(parts) <= set(range(CLASSES)):
            raise ValueError(f"mixtures are of classes 0 to {CLASSES - 1}")
        return cls(parts)


def _best(repeats: Mapping[str, FloatArray], model: FloatArray, log_runtime: FloatArray) -> Part | None:
    alone = _errors(model, log_runtime)
    if alone.min() == 0:
        return None
    best, found = 2.0, None
    for name, repeat in repeats.items():
        for share in _SHARES.tolist():
            loss = float((_errors(_mixture(model, repeat, share), log_runtime) / alone).sum())
            if loss < best - 1e-9:
                best, found = loss, Part(name, round(share, 1))
    return found


def _mixture(model: FloatArray, repeat: FloatArray, share: float | FloatArray) -> FloatArray:
    return np.where(np.isnan(repeat), model, share * repeat + (1 - share) * model)


def _errors(forecast: FloatArray, log_runtime: FloatArray) -> FloatArray:
    off = np.abs(forecast - log_runtime)
    return np.array([off.mean(), (off**2).mean()])
