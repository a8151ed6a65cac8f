"""The mixture of the additive model with the last runs themselves.

A sum of tables cannot say "repeat the last run exactly", which is what most jobs of a steady user do. For each class of
evidence the mixture combines the model with the one median or mean of earlier runs that fitted best: with one share
where the two nearly agree, and another where they are far apart and either may be badly wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypedDict

import numpy as np

from ...cluster.columns import FloatArray
from ..ebm.additive import Columns
from .model_inputs import CLASSES, classes, numbers

#: Columns of log runtime that may be mixed with the model.
REPEATS = (
    *("task_last", "task_median", "name_last", "name_median", "kind_last", "kind_median"),
    *("user_last", "user_median", "width_median", "limit_median"),
)
_SHARES = tuple(tenths / 10 for tenths in range(11))
_APART = (0.5, 1.0, 2.0)  # candidate differences of log runtime from which two forecasts count as far apart
_ENOUGH = 50  # fewest runs of a class to fit a mixture to


class PartDocument(TypedDict):
    """The mixture of one class as JSON."""

    column: str
    near: float
    far: float
    apart: float


@dataclass(frozen=True)
class Part:
    """The column of REPEATS that is mixed with the model for one class, and its shares, 0..1."""

    column: str
    near: float  #: share of the column where it differs from the model by less than *apart*
    far: float  #: share where it differs by more
    apart: float  #: difference of log runtime


@dataclass(frozen=True)
class Mixture:
    """A Part for some classes; the others use the model alone."""

    parts: Mapping[int, Part]

    @classmethod
    def fit(cls, columns: Columns, model: FloatArray, log_runtime: FloatArray) -> Self:
        """Fit the mixture that did best on held-out runs, for which the additive model alone forecast *model*.

        Best is the lowest sum of mean absolute and mean squared error of log runtime, each relative to the model alone:
        the median matters to waiting users, the variance to the order of the queue.
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
        """Return the log runtime of each job; where there is no run to repeat, the *model* alone."""
        if not self.parts:
            return model
        repeat, share = self.beside(columns, model)
        return np.where(np.isnan(repeat), model, share * repeat + (1 - share) * model)

    def beside(self, columns: Columns, model: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the value that is mixed with the *model* for each job, and its share."""
        names = list(dict.fromkeys(part.column for part in self.parts.values()))
        repeats = np.array([numbers(columns, name) for name in names])
        place, (near, far, apart) = np.zeros(CLASSES, dtype=np.int64), np.zeros((3, CLASSES))
        for kind, part in self.parts.items():
            place[kind], near[kind], far[kind], apart[kind] = names.index(part.column), part.near, part.far, part.apart
        kinds = classes(columns)
        repeat = repeats[place.take(kinds), np.arange(len(kinds))]
        return repeat, np.where(np.abs(repeat - model) < apart.take(kinds), near.take(kinds), far.take(kinds))

    def document(self) -> dict[str, PartDocument]:
        """Return the mixture as JSON values."""
        return {
            str(kind): {"column": part.column, "near": part.near, "far": part.far, "apart": part.apart}
            for kind, part in self.parts.items()
        }

    @classmethod
    def of_document(cls, document: Mapping[str, PartDocument]) -> Self:
        """Rebuild the mixture from its `document`. ValueError, KeyError or TypeError where it describes none."""
        parts = {
            int(kind): Part(part["column"], *(float(part[name]) for name in ("near", "far", "apart")))
            for kind, part in document.items()
        }
        for part in parts.values():
            if part.column not in REPEATS or not (0 <= part.near <= 1 and 0 <= part.far <= 1 and part.apart > 0):
                accepted = f"shares of 0..1 of {', '.join(REPEATS)}, and a difference above 0"
                raise ValueError(f"{part} is no mixture: accepted are {accepted}")
        if not set(parts) <= set(range(CLASSES)):
            raise ValueError(f"mixtures are of classes 0 to {CLASSES - 1}")
        return cls(parts)


def _best(repeats: Mapping[str, FloatArray], model: FloatArray, log_runtime: FloatArray) -> Part | None:
    off = log_runtime - model
    weights = np.array([np.abs(off).mean(), (off**2).mean()])
    if weights.min() == 0:
        return None
    best, found = float((_errors(off) / weights).sum()), None
    for name, repeat in repeats.items():
        by = np.where(np.isnan(repeat), 0.0, repeat - model)
        for apart in _APART:
            near = np.abs(by) < apart
            # The errors of near and of far runs add up, so each has a best share of its own.
            (near_loss, near_share), (far_loss, far_share) = (
                min((float((_errors(off[rows] - share * by[rows]) / weights).sum()), share) for share in _SHARES)
                for rows in (near, ~near)
            )
            if near_loss + far_loss < best * (1 - 1e-9):
                best, found = near_loss + far_loss, Part(name, near_share, far_share, apart)
    return found


def _errors(off: FloatArray) -> FloatArray:
    """Return the sums of absolute and squared errors."""
    return np.array([np.abs(off).sum(), (off**2).sum()])
