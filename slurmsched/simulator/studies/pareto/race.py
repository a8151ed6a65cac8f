"""Measuring by stages: a setting that does badly on a few samples is not tried on the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ....cluster.columns import FloatArray, IntArray
from ...elastic.experiment import Policy
from .checkpoint import Notebook, Values
from .measurement import Bench, Measure

FIRST = 2
"""Samples of the first look."""

MARGIN = 0.05
"""By how much a setting may be beaten in all objectives on the first look and still be tried on all samples."""

ProgressCallback = Callable[[int, int], None]
"""Called with simulations done and in total."""


@dataclass(eq=False)
class Race:
    """Points of a space, with their values on all samples or, of those that looked bad, on the first few.

    What was found depends on the points and their order only, not on what *notebook* knew before.
    """

    train: Bench
    evaluations: int  #: simulations it may take
    policy: Callable[[FloatArray], Policy]  #: what a point stands for
    measure: Measure
    notebook: Notebook | None
    progress: ProgressCallback
    spent: int = 0  #: simulations of the points so far, those known before included
    whole: list[tuple[float, ...]] = field(default_factory=list)  #: points that were tried on all samples
    _first: list[FloatArray] = field(default_factory=list)  #: their values on the first look
    _all: list[FloatArray] = field(default_factory=list)  #: and on all samples
    _values: Values = field(default_factory=dict)  #: values of a point on the first look and then on the others

    def __post_init__(self) -> None:
        self._values = {} if self.notebook is None else self.notebook.load()

    @property
    def _stages(self) -> tuple[Bench, Bench]:
        samples = self.train.samples
        return replace(self.train, samples=samples[:FIRST]), replace(self.train, samples=samples[FIRST:])

    @property
    def affordable(self) -> int:
        """How many points more can be looked at."""
        return (self.evaluations - self.spent) // min(FIRST, len(self.train.samples))

    @property
    def values(self) -> FloatArray:
        """Of ``whole``, a row each."""
        return np.array(self._all)

    def run(self, cube: FloatArray) -> FloatArray:
        """Values of new points; of those that looked bad what they may be on all samples."""
        first, others = self._stages
        first_look = self._on(0, cube)
        tried = self._promising(first_look)
        mean = first_look  # where the first look is at all samples, all are tried
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
        """Rows that no point tried on all samples beats by more than the margin."""
        if not self._all or len(self.train.samples) <= FIRST:
            return np.arange(len(first_look))
        expected, best = self._expected(first_look), self.values * (1 + MARGIN)
        beaten = np.all(best[:, None] < expected[None], axis=2).any(axis=0)
        return np.flatnonzero(~beaten)

    def _expected(self, first_look: FloatArray) -> FloatArray:
        """Values on all samples, if they are to those of the first look as those of the points tried on all are."""
        first, whole = np.sum(self._first, axis=0), np.sum(self._all, axis=0)
        scale: FloatArray = np.divide(whole, first, out=np.ones_like(whole), where=first > 0)
        return first_look * scale

    def _on(self, stage: int, cube: FloatArray) -> FloatArray:
        """Values on the samples of a stage: known from before, or measured and noted."""
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
    """*values* as plain numbers."""
    return tuple(float(value) for value in values)
