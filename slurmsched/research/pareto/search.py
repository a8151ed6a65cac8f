"""The search: SPEA2 from pymoo over the settings, with the front validated on held-out samples."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError, MissingExtra
from ...simulator.worker_pool import Workers
from ..elastic.experiment import Policy
from .checkpoint import Notebook
from .measurement import Bench, measuring
from .objectives import Objective, undominated
from .race import ProgressCallback, Race, row_of
from .space import SearchSpace, WfqPoint

POPULATION = 20

EXTREMES: dict[str, Policy] = {"FIFO": "fifo", "shortest first": "srsf", "fair share": "fair-share"}
"""The bounds of all settings: the most predictable, the fastest and the fairest of the classical policies."""


@dataclass(frozen=True, eq=False)
class Point:
    """A policy with its objectives, on the samples of the search and on those held out."""

    name: str  #: empty for a setting from the search
    setting: WfqPoint | None  #: None for an extreme
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
        with measuring(workers) as measure:
            race = Race(self.train, self.evaluations, self._policy, measure, notebook, progress)
            self._raced(race)
            values = race.values
            best = np.flatnonzero(undominated(values))
            best = best[np.argsort(values[best, 0], kind="stable")]
            settings = [self.space.setting(np.array(race.whole[at])) for at in best]
            judged: list[Policy] = [*(setting.wfq for setting in settings), *EXTREMES.values()]
            test = measure(self.test, judged, _nobody)
            beyond = measure(self.train, list(EXTREMES.values()), _nobody)
        holds = undominated(test[: len(best)])
        found = [
            Point("", setting, row_of(values[at]), row_of(test[place]), bool(holds[place]))
            for place, (at, setting) in enumerate(zip(best, settings, strict=True))
        ]
        extremes = [
            Point(name, None, row_of(beyond[place]), row_of(test[len(best) + place]), False)
            for place, name in enumerate(EXTREMES)
        ]
        return Front(self.train.objectives, tuple(found), tuple(extremes), race.spent)

    def _policy(self, point: FloatArray) -> Policy:
        return self.space.setting(point).wfq

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
                algorithm.tell(infills=population.new(X=cube, F=values))

    def _algorithm(self) -> Any:
        """Build SPEA2, which begins with the first points of the space."""
        problem = _pymoo("core.problem").Problem(
            n_var=self.space.dimensions, n_obj=len(self.train.objectives), xl=0.0, xu=1.0
        )
        spea2 = _pymoo("algorithms.moo.spea2")
        made = spea2.SPEA2(
            pop_size=self.population,
            sampling=self.space.first(self.population, self.seed),
            survival=spea2.SPEA2Survival(normalize=True),  # its default one remembers earlier searches
        )
        endless = _pymoo("core.termination").NoTermination()
        made.setup(problem, termination=endless, seed=self.seed, verbose=False)
        return made


def _pymoo(module: str) -> Any:
    try:
        return importlib.import_module(f"pymoo.{module}")
    except ImportError as error:
        raise MissingExtra("the preference solver needs pymoo", "pareto") from error


def _nobody() -> None:
    """Ignore progress."""
