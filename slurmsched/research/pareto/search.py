"""The search: SPEA2 from pymoo over the settings, with the front validated on held-out samples."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError, MissingExtra
from ...policies.ordering.wfq import Wfq
from ...simulator.worker_pool import Spread, Workers, crew
from ..elastic.correction import Correction
from ..elastic.experiment import Policy
from .checkpoint import Notebook
from .measurement import Bench, Corrected, searched
from .objectives import Objective, undominated
from .race import ProgressCallback, Race, row_of
from .space import SearchSpace

POPULATION = 50

_CROSSED = 0.5  #: share of the new settings that mix two; most mixtures of good settings are none
_MUTATED = 0.25  #: of the coordinates of each

Result = TypeVar("Result")

EXTREMES: dict[str, Policy] = {"FIFO": "fifo", "shortest first": "srsf", "fair share": "fair-share"}
"""The bounds of all settings: the most predictable, the fastest and the fairest of the classical policies."""


@dataclass(frozen=True, eq=False)
class Point:
    """A policy with its objectives, on the samples of the search and on those held out."""

    name: str  #: empty for a setting from the search
    setting: Wfq | None  #: None for an extreme
    correction: Correction | None  #: of its predictions, learnt from the samples of the search; None for an extreme
    train: tuple[float, ...]
    test: tuple[float, ...]
    holds: bool  #: no other setting from the search beats it on the samples held out


@dataclass(frozen=True, eq=False)
class Front:
    """The result of a search, sorted by the first objective."""

    objectives: tuple[Objective, ...]
    points: tuple[Point, ...]
    extremes: tuple[Point, ...]
    simulations: int


@dataclass(frozen=True, eq=False)
class Search:
    """The parameters of a search. They determine the front, wherever it runs and however often it was stopped."""

    space: SearchSpace
    train: Bench
    test: Bench
    evaluations: int  #: budget of simulations, over all samples
    seed: int = 0
    population: int = POPULATION
    extremes: Mapping[str, Policy] = field(default_factory=lambda: EXTREMES)

    def __post_init__(self) -> None:
        least = self.population * len(self.train.samples)
        if self.evaluations < least:
            raise ConfigError(
                f"{self.evaluations} evaluations are too few: accepted is {least} and more, {self.population} settings"
                f" on {len(self.train.samples)} samples"
            )

    def run(
        self,
        workers: Workers | None = None,
        notebook: Notebook | None = None,
        progress: ProgressCallback = lambda _done, _total: None,
    ) -> Front:
        """Search, resuming from *notebook*. ConfigError where pymoo is missing."""
        with crew(workers) as spread:
            race = Race(self.train, self.evaluations, self.space.setting, searched(spread), notebook, progress)
            self._raced(race)
            kept = [np.array(race.whole[at]) for at in np.flatnonzero(undominated(race.values))]
            settings = list(dict.fromkeys(map(self.space.setting, kept)))
            points = self._judged(spread, settings)
            extremes = self._extremes(spread)
        return Front(self.train.objectives, tuple(points), tuple(extremes), race.spent)

    def _judged(self, spread: Spread, settings: list[Wfq]) -> list[Point]:
        """Return the Pareto-optimal *settings* by the first objective: on all samples, then on those held out.

        The race learnt corrections from the samples of a stage alone; here each comes from all of the search.
        """
        learnt = in_order(spread(self.train.learn, settings))
        values = np.array([mean for mean, _ in learnt])
        best = np.flatnonzero(undominated(values))
        best = best[np.argsort(values[best, 0], kind="stable")]
        judged = [Corrected(settings[at], learnt[at][1]) for at in best]
        test = np.array(in_order(spread(self.test.measure, judged)))
        holds = undominated(test)
        return [
            Point("", settings[at], one.correction, row_of(values[at]), row_of(test[place]), bool(holds[place]))
            for place, (at, one) in enumerate(zip(best, judged, strict=True))
        ]

    def _extremes(self, spread: Spread) -> list[Point]:
        policies = list(self.extremes.values())
        sides = (in_order(spread(bench.measure, policies)) for bench in (self.train, self.test))
        return [
            Point(name, None, None, tuple(train), tuple(test), False)
            for name, train, test in zip(self.extremes, *sides, strict=True)
        ]

    def _raced(self, race: Race) -> None:
        """Measure the candidates of SPEA2 until no simulations are left."""
        population, algorithm = _pymoo("core.population").Population, self._algorithm()
        while race.affordable > 0:
            candidates = algorithm.ask().get("X")
            cube = candidates[: race.affordable]
            if not len(cube):
                break
            values = race.run(cube)
            if len(cube) == len(candidates):
                algorithm.tell(infills=population.new(X=cube, F=self._spread(values)))

    def _spread(self, values: FloatArray) -> FloatArray:
        """Return *values* on logarithmic scales: half the error is as far away at 1 % as at 20 %."""
        return np.log(values + [objective.fine for objective in self.train.objectives])

    def _algorithm(self) -> Any:
        """Build SPEA2, which begins with the first points of the space."""
        problem = _pymoo("core.problem").Problem(
            n_var=self.space.dimensions, n_obj=len(self.train.objectives), xl=0.0, xu=1.0
        )
        spea2 = _pymoo("algorithms.moo.spea2")
        made = spea2.SPEA2(
            pop_size=self.population,
            sampling=self.space.first(self.population, self.seed),
            survival=spea2.SPEA2Survival(normalize=False),  # its default one remembers earlier searches
            crossover=_pymoo("operators.crossover.sbx").SBX(prob=_CROSSED, eta=15),
            mutation=_pymoo("operators.mutation.pm").PM(prob=1.0, prob_var=_MUTATED, eta=20),
        )
        endless = _pymoo("core.termination").NoTermination()
        made.setup(problem, termination=endless, seed=self.seed, verbose=False)
        return made


def _pymoo(module: str) -> Any:
    try:
        return importlib.import_module(f"pymoo.{module}")
    except ImportError as error:
        raise MissingExtra("the preference solver needs pymoo", "pareto") from error


def in_order(placed: Iterable[tuple[int, Result]]) -> list[Result]:
    """Return results by their index."""
    return [result for _, result in sorted(placed, key=itemgetter(0))]
