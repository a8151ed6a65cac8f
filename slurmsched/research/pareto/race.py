"""Staged measurements: a setting that does badly on a few samples is not tried on the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ..elastic.experiment import Policy
from .checkpoint import Notebook, Values
from .measurement import Bench, Measure

FIRST = 2
"""Samples of the first stage."""

MARGIN = 0.05
"""Share by which a setting may be beaten in all objectives in the first stage and still be tried on all samples."""

ProgressCallback = Callable[[int, int], None]
"""Called with simulations done and in total."""


@dataclass(eq=False)
class Race:
    """Points of a space with their values on all samples or, for points that did badly, on the first few.

    The result depends on the points and their order only, not on earlier measurements in *notebook*.
    """

    train: Bench
    evaluations: int  #: budget of simulations
    policy: Callable[[FloatArray], Policy]  #: the policy at a point
    measure: Measure
    notebook: Notebook | None
    progress: ProgressCallback
    spent: int = 0  #: simulations of the points so far, including those measured earlier
    whole: list[tuple[float, ...]] = field(default_factory=list)  #: points that were tried on all samples
    _first: list[FloatArray] = field(default_factory=list)  #: their values in the first stage
    _all: list[FloatArray] = field(default_factory=list)  #: and on all samples
    _values: Values = field(default_factory=dict)  #: values of a point in the first stage and then on the others

    def __post_init__(self) -> None:
        self._values = {} if self.notebook is None else self.notebook.load()

    @property
    def _stages(self) -> tuple[Bench, Bench]:
        samples = self.train.samples
        return replace(self.train, samples=samples[:FIRST]), replace(self.train, samples=samples[FIRST:])

    @property
    def affordable(self) -> int:
        """The number of further points that the budget allows in the first stage."""
        return (self.evaluations - self.spent) // min(FIRST, len(self.train.samples))

    @property
    def values(self) -> FloatArray:
        """The values of ``whole``, one row each."""
        return np.array(self._all)

    def run(self, cube: FloatArray) -> FloatArray:
        """Measure new points; for those that did badly in the first stage, return estimates for all samples."""
        first, others = self._stages
        first_look = self._on(0, cube)
        tried = self._promising(first_look)
        mean = first_look  # where the first stage has all samples, all are tried
        if others.samples:
            tried = tried[: (self.evaluations - self.spent) // len(others.samples)]
            rest = self._on(1, cube[tried])
            mean = (len(first.samples) * first_look[tried] + len(others.samples) * rest) / len(self.train.samples)
        self.whole.extend(map(row_of, cube[tried]))
        self._first.extend(first_look[tried])
        self._all.extend(mean)
        values = self._expected(first_look)
        values[tried] = mean
        return values

    def _promising(self, first_look: FloatArray) -> IntArray:
        """Select the rows that no point tried on all samples beats by more than the margin."""
        if not self._all or len(self.train.samples) <= FIRST:
            return np.arange(len(first_look))
        expected, best = self._expected(first_look), self.values * (1 + MARGIN)
        beaten = np.all(best[:, None] < expected[None], axis=2).any(axis=0)
        return np.flatnonzero(~beaten)

    def _expected(self, first_look: FloatArray) -> FloatArray:
        """Estimate values on all samples from the first stage, by the ratio at the points that were tried on all."""
        first, whole = np.sum(self._first, axis=0), np.sum(self._all, axis=0)
        scale: FloatArray = np.divide(whole, first, out=np.ones_like(whole), where=first > 0)
        return first_look * scale

    def _on(self, stage: int, cube: FloatArray) -> FloatArray:
        """Return values on the samples of a stage: from the notebook, or measured and recorded."""
        bench, width = self._stages[stage], len(self.train.objectives)
        new = [point for point in cube if len(self._values.get(row_of(point), ())) == stage * width]
        done = self.spent + (len(cube) - len(new)) * len(bench.samples)

        def one_more() -> None:
            nonlocal done
            done += len(bench.samples)
            self.progress(done, self.evaluations)

        measured = self.measure(bench, [self.policy(point) for point in new], one_more)
        for point, values in zip(new, measured, strict=True):
            self._values[row_of(point)] = (*self._values.get(row_of(point), ()), *row_of(values))
        if self.notebook is not None and new:
            self.notebook.write(self._values)
        self.spent += len(cube) * len(bench.samples)
        found = [self._values[row_of(point)][stage * width : (stage + 1) * width] for point in cube]
        return np.array(found).reshape(-1, width)


def row_of(values: FloatArray) -> tuple[float, ...]:
    """Return *values* as plain numbers."""
    return tuple(float(value) for value in values)
