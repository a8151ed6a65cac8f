"""The judgement of an actor: unseen weeks on a modelled slurmctld, against the best static orders."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ....cluster.columns import FloatArray
from ....models.artifact import Artifact
from ....models.registry import ACTOR
from ....policies.ordering.mlfs_rl import FEATURES, Actor
from ...run import simulate
from ...setup import Setup
from ...workload.workload import Workload
from .drawn_weeks import FLEET, Weeks, drawn_week, split_weeks
from .learning import Costs, Effort, costs_of, demand_torch, learn, static_score
from .rollout import SELECTION, rollout

GPUS_WEIGHTS = (-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
RESAMPLES = 2000
WORST_DEADLINES = 0.002  #: share of the deadlines that an actor may miss more than a static order
RIVALS = ("qssf", "sjf", "mlfs-h")


@dataclass(frozen=True)
class Against:
    """An actor against one static order on the same workloads; 95 % bounds by resampling these."""

    jct_ratio: float  #: geometric mean of the actor's mean JCT over that of the order
    low: float
    high: float
    deadline_difference: float  #: deadlines that the actor met more, as a share

    @property
    def better(self) -> bool:
        """True if JCT is surely smaller and deadlines are no worse."""
        return self.high < 1 and self.deadline_difference >= -WORST_DEADLINES


@dataclass(frozen=True)
class TrainedActor:
    """The result of a training."""

    actor: Actor
    updates: int  #: after which it was best on the weeks of choice
    static: str  #: the line of the tuned static order
    weeks: int  #: unseen ones
    against: dict[str, Against]
    seconds: float  #: processor time of the training, without the judgement

    @property
    def promoted(self) -> bool:
        """True if it beats every static order."""
        return all(one.better for one in self.against.values())

    @property
    def why(self) -> str:
        """The decision in words."""
        worst = max(self.against, key=lambda name: self.against[name].high)
        one = self.against[worst]
        figures = f"JCT {one.jct_ratio:.3f} ({one.low:.3f} to {one.high:.3f}) of that under {worst}"
        deadlines = min(self.against.values(), key=lambda found: found.deadline_difference).deadline_difference
        figures += f", deadlines met {100 * deadlines:+.2f} points at worst, in {self.weeks} unseen weeks"
        return f"better than every static order: {figures}" if self.promoted else f"not surely better: {figures}"

    def artifact(self, jobs: Workload) -> Artifact:
        """Return the actor, trained and judged on *jobs*, for the registry of models."""
        figures = {
            f"{name}_{field}": value for name, one in self.against.items() for field, value in asdict(one).items()
        }
        model = {"features": list(FEATURES), "actor": self.actor.text, "why": self.why}
        span = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
        return Artifact(ACTOR, *span, figures | {"promoted": float(self.promoted)}, model)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, ready for JSON."""
        against = {name: asdict(one) for name, one in self.against.items()}
        unseen = {"weeks": self.weeks, "static": self.static, "against": against}
        facts = {"seconds": self.seconds, "updates": self.updates, "unseen": unseen}
        return facts | {"promoted": self.promoted, "why": self.why}


def train_actor(
    jobs: Workload,
    seed: int,
    *,
    effort: Effort | None = None,
    executor: str = "slurm",
    report: Callable[[str], None] = lambda doing: None,
) -> TrainedActor:
    """Train an actor on the weeks of *jobs* but the last, and judge it on these.

    TooLittleHistory for too few weeks, MissingExtra where PyTorch is not installed.
    """
    effort, begun_s = effort or Effort(), time.process_time()
    weeks = split_weeks(jobs)
    demand_torch()
    report("tuning the static order")
    gpus = tuned_static(jobs, weeks, effort)
    actor, updates = learn(jobs, weeks, gpus, seed, effort, report)
    seconds = time.process_time() - begun_s
    static = f"mlfs-h late=0 urgency=0 gain=0 gpus={gpus:g}"
    lines = {**{name: name for name in RIVALS}, "static": static}
    against = judged(jobs, weeks, actor, lines, effort, executor, seed, report)
    return TrainedActor(actor, updates, static, len(weeks.unseen), against, seconds)


def tuned_static(jobs: Workload, weeks: Weeks, effort: Effort) -> float:
    """Return the weight of the GPUs with which a static order costs least on the weeks that are not unseen."""
    drawn = [drawn_week(jobs, rows, draw) for rows in (weeks.train + weeks.choose)[-6:] for draw in range(effort.draws)]

    def cost(gpus: float) -> float:
        return float(np.mean([np.log(costs_of(one, rollout(one, static_score(gpus)).end_s).total_h) for one in drawn]))

    return min(GPUS_WEIGHTS, key=cost)


def judged(
    jobs: Workload,
    weeks: Weeks,
    actor: Actor,
    lines: dict[str, str],
    effort: Effort,
    executor: str,
    seed: int,
    report: Callable[[str], None],
) -> dict[str, Against]:
    """Replay drawings of the unseen weeks under the *actor* and each of the *lines*, and compare."""
    costs: dict[str, list[Costs]] = {name: [] for name in ("", *lines)}
    for number, rows in enumerate(weeks.unseen):
        report(f"unseen week {number + 1} of {len(weeks.unseen)}")
        for draw in range(effort.draws):
            week = drawn_week(jobs, rows, 1000 * seed + draw)
            for name, line in {"": f"mlfs-rl actor={actor.text}", **lines}.items():
                setup = Setup.of(line, SELECTION, executor=executor, forecast="told")
                costs[name].append(costs_of(week, simulate(week, FLEET, setup).end_s))
    ours = np.array(costs.pop(""))
    return {name: _against(ours, np.array(found), seed) for name, found in costs.items()}


def _against(ours: FloatArray, other: FloatArray, seed: int) -> Against:
    ratio = np.log(ours[:, 0] / other[:, 0])
    random = np.random.default_rng(seed)
    means = ratio[random.integers(len(ratio), size=(RESAMPLES, len(ratio)))].mean(axis=1)
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    met = float((other[:, 1] - ours[:, 1]).mean())
    return Against(float(np.exp(ratio.mean())), float(low), float(high), met)
