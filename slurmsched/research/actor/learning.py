"""The training of the actor: imitation of a simple order, then a policy gradient whose exploration lies in the weights.

Each update draws pairs of opposite changes of all weights, and replays the same arrivals under both: what the arrivals
cause cancels out in their difference (Sehnke et al., "Parameter-exploring policy gradients", Neural Networks 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...errors import TooLittleHistory
from ...policies.ordering.mlfs_rl import FEATURES, Actor
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.workload.workload import Workload
from .imitation import Imitator, imitated
from .week_loop import Decisions, play
from .weeks import Weeks

WIDE = len(FEATURES)
PAIRS = 16  #: of opposite changes in each update
STEP = 0.3  #: standard deviation of a change, in units of the deviation of a feature
RATE, LEAST_RATE = 0.04, 0.004  #: of the updates, falling
MOMENTUM, SQUARES, AVERAGED = 0.9, 0.98, 0.9  #: decay of the means of gradients, their squares, and weights
LATE_H = 8.0  #: hours of JCT that a missed deadline counts as
CHOOSE_EVERY = 8
LEAST_DEVIATION = 1e-9  #: of a feature that is not constant
KEPT_ROWS = 20_000  #: of features of each replay that determines their ranges


@dataclass(frozen=True)
class TrainingBudget:
    """How much is tried."""

    updates: int = 24
    arrivals: int = 7  #: drawn in each update
    draws: int = 5  #: of each unseen week
    choosing: int = 8  #: draws of each week on which weights are chosen
    tuning: int = 4  #: draws of each week on which simple orders are tuned


class Costs(NamedTuple):
    """The parts of the reward, each the smaller the better."""

    jct_h: float  #: mean
    late: float  #: share of the jobs

    @property
    def total_h(self) -> float:
        """Both in hours."""
        return self.jct_h + LATE_H * self.late


def costs_of(jobs: Workload, end_s: FloatArray) -> Costs:
    """Return the costs of a replay."""
    return Costs(float((end_s - jobs.submit_s).mean() / 3600), float((end_s > jobs.deadline_s).mean()))


def static_actor(gpus: float, until_it_fits: float = 0.0, late: float = 0.0) -> Actor:
    """Return the actor that scores by minus the logarithm of the remaining time plus *gpus* times that of the GPUs.

    With *until_it_fits* it also counts the time until a job fits, so that its order is no static one, and with *late*
    that the deadline has passed.
    """
    linear, far = np.zeros(WIDE), np.full(WIDE, 1e9)
    weights = {"remaining time": 1.0, "GPUs": gpus, "time until it fits": until_it_fits, "deadline passed": late}
    for name, weight in weights.items():
        linear[FEATURES.index(name)] = -weight
    return Actor(linear, -far, far, np.zeros((WIDE, 0)), np.zeros(0), np.zeros(0))


def mean_cost(actor: Actor, drawn: Sequence[Workload], fleet: ClusterSpec) -> float:
    """Return the mean logarithm of the costs of *drawn* workloads on *fleet*."""
    return float(np.mean([np.log(costs_of(one, play(one, fleet, actor).end_s).total_h) for one in drawn]))


STARTS = tuple(
    static_actor(gpus, fit, late) for gpus in (0.25, 0.5, 1.0) for fit in (0.0, 1.5, 3.0, 5.0) for late in (0.0, 0.5)
)


def tuned(weeks: Weeks, candidates: Sequence[Actor], effort: TrainingBudget) -> Actor:
    """Return the candidate that costs least on the weeks that are not unseen."""
    drawn = [weeks.draw(rows, draw) for rows in weeks.train + weeks.choose for draw in range(effort.tuning)]
    return min(candidates, key=lambda actor: mean_cost(actor, drawn, weeks.fleet))


def learn(
    weeks: Weeks, seed: int, effort: TrainingBudget, report: Callable[[str], None], imitate: Imitator = imitated
) -> tuple[Actor, int]:
    """Train an actor from the best simple one of STARTS; return it and the updates after which it was best.

    The same seed gives the same weights. TooLittleHistory where no jobs queue.
    """
    random, start = np.random.default_rng(seed), tuned(weeks, STARTS, effort)
    replays = [play(weeks.draw(week, seed), weeks.fleet, start, KEPT_ROWS) for week in weeks.train]
    decisions = Decisions.of([one.decisions for one in replays])
    scale = _Scale.of(decisions.rows)
    report("imitating the best simple order")
    weights, step = imitate(decisions, start, scale.deviation), np.where(scale.varies, STEP, 0.0)
    choosing = [weeks.draw(week, draw) for week in weeks.choose for draw in range(effort.choosing)]
    best, best_at = scale.actor(weights), 0
    least = mean_cost(best, choosing, weeks.fleet)
    gradient, squares, averaged = np.zeros(len(weights)), np.zeros(len(weights)), weights
    for update in range(1, effort.updates + 1):
        report(f"update {update} of {effort.updates}")
        picked = random.integers(len(weeks.train), size=effort.arrivals)
        drawn = [weeks.draw(weeks.train[week], int(random.integers(2**31))) for week in picked.tolist()]
        changes = random.normal(size=(PAIRS, len(weights)))
        changed = [[scale.actor(weights + sign * step * one) for sign in (1, -1)] for one in changes]
        costs = np.array([[mean_cost(actor, drawn, weeks.fleet) for actor in pair] for pair in changed])
        worse = costs[:, 0] - costs[:, 1]
        now = (changes * (worse / max(float(worse.std()), 1e-9))[:, None]).mean(axis=0)
        gradient = MOMENTUM * gradient + (1 - MOMENTUM) * now
        squares = SQUARES * squares + (1 - SQUARES) * now**2
        mean, size = gradient / (1 - MOMENTUM**update), np.sqrt(squares / (1 - SQUARES**update))
        rate = max(RATE * (1 - update / effort.updates), LEAST_RATE)
        weights = weights - rate * mean / (size + 1e-8)
        averaged = weights if update == 1 else AVERAGED * averaged + (1 - AVERAGED) * weights
        if update % CHOOSE_EVERY == 0 or update == effort.updates:
            found = scale.actor(averaged)
            cost = mean_cost(found, choosing, weeks.fleet)
            report(f"update {update}: {cost:.4f} beside {least:.4f}")
            if cost < least:
                best, best_at, least = found, update, cost
    return best, best_at


class _Scale(NamedTuple):
    """The deviation and range of each feature, by which weights are trained in one unit."""

    deviation: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> _Scale:
        if not len(rows):
            raise TooLittleHistory("no two jobs ever wait at the same time: there is nothing to learn an order from")
        deviation = rows.std(axis=0)
        return cls(np.where(deviation > LEAST_DEVIATION, deviation, 0.0), rows.min(axis=0), rows.max(axis=0))

    @property
    def varies(self) -> BoolArray:
        """A mask of the features that are not constant."""
        return self.deviation > 0

    def actor(self, weights: FloatArray) -> Actor:
        """Return the actor of *weights*, in the precision of its text."""
        linear = np.where(self.varies, weights / np.where(self.varies, self.deviation, 1.0), 0.0)
        return Actor.of_text(Actor(linear, self.low, self.high, np.zeros((WIDE, 0)), np.zeros(0), np.zeros(0)).text)
