"""The search: settings tried on all but the last week, and the best validated on that week."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...simulator.worker_pool import Workers, crew
from .knobs import Knobs, KnobSpace
from .trial import TuningSite, completion_s

DAY_S = 86400.0
HELD_OUT_S = 7 * DAY_S
SHORT_S = 7 * DAY_S  #: the span on which all drawn settings are tried first
KEPT = 0.3  #: share of drawn settings that is tried on the whole search span
FEWEST = 100  #: jobs in the held-out week and before it
DRAWS = 2000  #: bootstrap samples of days
SURE = 0.05  #: significance level: the gain of recommended settings is above 0 in all but this share of the draws

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class Gain:
    """The gain of settings over the current ones; NaN where nothing was compared."""

    current_s: float  #: mean JCT
    tuned_s: float
    share: float  #: of the current mean JCT that is saved
    low: float  #: the SURE quantile of the same over draws of days
    high: float  #: the 1 - SURE quantile


@dataclass(frozen=True)
class TuningResult:
    """The result of the search, and its validation."""

    current: Knobs
    best: Knobs
    trials: int
    searched: Gain  #: before the held-out week
    held_out: Gain

    @property
    def recommended(self) -> bool:
        """True if the best settings are significantly better in the held-out week."""
        return self.best != self.current and self.searched.share > 0 and self.held_out.low > 0


def tuned(
    site: TuningSite,
    current: Knobs,
    space: KnobSpace,
    *,
    evaluations: int,
    seed: int = 0,
    workers: Workers | None = None,
    progress: ProgressCallback = lambda _done, _total: None,
) -> TuningResult:
    """Search *space* from *current* on, with about *evaluations* simulations of a week.

    ConfigError where the jobs are too few, or too short in time, to hold out a week.
    """
    submit_s = site.jobs.submit_s
    since_s = float(submit_s.max(initial=-np.inf)) - HELD_OUT_S
    before, after = int((submit_s < since_s).sum()), int((submit_s >= since_s).sum())
    if min(before, after) < FEWEST:
        raise ConfigError(
            f"tuning needs {FEWEST} jobs in the last seven days and as many before; there are {after} and {before}"
        )
    drawn = space.drawn(evaluations, seed, current)
    survivors = max(1, round(KEPT * len(drawn)))
    whole = site.until(since_s)
    steps = _Steps(progress, len(drawn) + survivors + 2)
    first = _tried(whole.until(since_s, since_s - SHORT_S), drawn, workers, steps)
    means = np.array([float(jct_s.mean()) for jct_s in first])
    finalists = list(dict.fromkeys([current, *(drawn[place] for place in np.argsort(means, kind="stable").tolist())]))
    finalists = finalists[: survivors + 1]
    found = _tried(whole, finalists, workers, steps)
    best = int(np.argmin([jct_s.mean() for jct_s in found]))
    judged = [current, finalists[best]]
    # Both replay all that came before, so that the week begins with the queue each of them would have left.
    last = _tried(site, judged if best else judged[:1], workers, steps)
    late = submit_s >= since_s
    days = np.floor((submit_s - since_s) / DAY_S).astype(np.int64)
    trials = len(drawn) + len(finalists) + len(last)
    return TuningResult(
        current,
        finalists[best],
        trials,
        gain(found[0], found[best], days[~late]),
        gain(last[0][late], last[-1][late], days[late], seed),
    )


def gain(current_s: FloatArray, tuned_s: FloatArray, day: np.ndarray, seed: int = 0) -> Gain:
    """Compute the relative saving of mean JCT and its uncertainty, by bootstrap over days."""
    _, place = np.unique(day, return_inverse=True)
    days = int(place.max(initial=-1)) + 1
    before, after = (np.bincount(place, jct_s, minlength=days) for jct_s in (current_s, tuned_s))
    draws = np.random.default_rng(seed).integers(0, days, (DRAWS, days))
    share = 1.0 - after[draws].sum(axis=1) / before[draws].sum(axis=1)
    low, high = np.quantile(share, (SURE, 1 - SURE))
    whole = float(1.0 - after.sum() / before.sum())
    return Gain(float(current_s.mean()), float(tuned_s.mean()), whole, float(low), float(high))


class _Steps:
    """A counter of simulations that reports progress."""

    def __init__(self, progress: ProgressCallback, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def one(self) -> None:
        self._done += 1
        self._progress(min(self._done, self._total), self._total)


def _tried(site: TuningSite, each: Sequence[Knobs], workers: Workers | None, steps: _Steps) -> list[FloatArray]:
    found: dict[int, FloatArray] = {}
    with crew(workers if len(each) > 1 else None) as spread:
        for place, jct_s in spread(partial(completion_s, site), each):
            found[place] = jct_s
            steps.one()
    return [found[place] for place in range(len(each))]
