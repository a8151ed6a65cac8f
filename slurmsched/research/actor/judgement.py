"""The judgement of an actor: unseen weeks on a modelled slurmctld, against the best static orders."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import MissingExtra, TooLittleHistory
from ...models.artifact import Artifact
from ...models.registry import ACTOR
from ...policies.ordering.mlfs_rl import FEATURES, Actor
from ...simulator.run import simulate
from ...simulator.setup import Setup
from ...simulator.workload.workload import Workload
from .distillation import Distilled, distilled
from .imitation import Imitator, imitated
from .learning import Costs, TrainingBudget, costs_of, learn, static_actor, tuned
from .week_loop import SELECTION
from .weeks import Weeks

if TYPE_CHECKING:
    from ...cli.json_answers import ActorFigures

GPUS_WEIGHTS = (-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
RESAMPLES = 2000
WORST_DEADLINES = 0.002  #: share of the deadlines that an actor may miss more than a static order
RIVALS = ("qssf", "sjf", "mlfs-h")


@dataclass(frozen=True)
class ActorComparison:
    """An actor against one static order on the same workloads; 95 % bounds by resampling weeks, and draws of each."""

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
    against: dict[str, ActorComparison]
    seconds: float  #: processor time of the training, without the judgement
    site: bool = False  #: judged on the weeks of a site
    tree: Distilled | None = None

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
        whose = " of this site" if self.site else ""
        figures += f", deadlines met {100 * deadlines:+.2f} points at worst, in {self.weeks} unseen weeks{whose}"
        return f"better than every static order: {figures}" if self.promoted else f"not surely better: {figures}"

    def artifact(self, jobs: Workload) -> Artifact:
        """Return the actor, trained and judged on *jobs*, for the registry of models."""
        figures = {
            f"{name}_{field}": value for name, one in self.against.items() for field, value in asdict(one).items()
        }
        model: dict[str, Any] = {"features": list(FEATURES), "actor": self.actor.text, "why": self.why}
        if self.tree is not None:
            figures |= {"tree_first": self.tree.first, "tree_pairs": self.tree.pairs}
            model["tree"] = self.tree.document()
        span = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
        return Artifact(ACTOR, *span, figures | {"promoted": float(self.promoted)}, model)

    def to_dict(self) -> ActorFigures:
        """Return the figures, ready for JSON."""
        against = {name: asdict(one) for name, one in self.against.items()}
        unseen: dict[str, Any] = {"weeks": self.weeks, "site": self.site, "static": self.static, "against": against}
        unseen["tree"] = None if self.tree is None else {"first": self.tree.first, "pairs": self.tree.pairs}
        return {
            "seconds": self.seconds,
            "updates": self.updates,
            "unseen": unseen,
            "promoted": self.promoted,
            "why": self.why,
        }


def train_actor(
    weeks: Weeks,
    seed: int,
    *,
    judged_on: Weeks | None = None,
    effort: TrainingBudget | None = None,
    executor: str = "slurm",
    imitate: Imitator = imitated,
    report: Callable[[str], None] = lambda doing: None,
) -> TrainedActor:
    """Train an actor on *weeks*, and judge it on the unseen ones of these or of *judged_on*.

    TooLittleHistory where there are none to train on.
    """
    effort, begun_s = effort or TrainingBudget(), time.process_time()
    if not weeks.train or not weeks.choose:
        raise TooLittleHistory(
            f"{len(weeks.unseen)} weeks, which are enough to judge on: --trace TRACE names other jobs to train on"
        )
    report("tuning the static order")
    gpus = tuned_static(weeks, effort)
    actor, updates = learn(weeks, seed, effort, report, imitate)
    seconds = time.process_time() - begun_s
    report("distilling a tree")
    tree = distilled(actor, weeks)
    weeks = judged_on or weeks
    lines = rivals_of(gpus)
    against = judged(weeks, actor, lines, effort.draws, executor, seed, report)
    return TrainedActor(
        actor, updates, lines["static"], len(weeks.unseen), against, seconds, site=weeks.site, tree=tree
    )


@dataclass(frozen=True)
class LastWeek:
    """What became of a promoted actor in the last week of a site."""

    artifact: Artifact  #: the same, no longer promoted where it was worse
    why: str

    @property
    def stays(self) -> bool:
        """True if the actor stays promoted."""
        return bool(self.artifact.scores["promoted"])


def reviewed(artifact: Artifact, weeks: Weeks, fallback: str, executor: str = "slurm") -> LastWeek:
    """Compare a promoted actor with the ordering *fallback* in the last of *weeks*, and withdraw it if it is worse."""
    actor = Actor.of_text(str(artifact.model["actor"]))
    (one,) = judged(
        weeks.last, actor, {fallback: fallback}, TrainingBudget.draws, executor, 0, lambda doing: None
    ).values()
    figures = f"in the last week its JCT was {one.jct_ratio:.3f} of that under {fallback}"
    if one.jct_ratio <= 1:
        return LastWeek(artifact, figures)
    scores = {**artifact.scores, "promoted": 0.0}
    return LastWeek(replace(artifact, scores=scores, model={**artifact.model, "why": figures}), figures)


def demand_extra() -> None:
    """Raise MissingExtra where a training cannot begin, would take days, or could not explain its result."""
    for module, name in (("torch", "PyTorch"), ("numba", "Numba"), ("sklearn", "scikit-learn")):
        if find_spec(module) is None:
            raise MissingExtra(f"training an actor needs {name}", "rl")


def rivals_of(gpus: float) -> dict[str, str]:
    """Return the lines of the static orders by name, the tuned one with the weight *gpus*."""
    return {**{name: name for name in RIVALS}, "static": f"mlfs-h late=0 urgency=0 gain=0 gpus={gpus:g}"}


def tuned_static(weeks: Weeks, effort: TrainingBudget) -> float:
    """Return the weight of the GPUs with which a static order costs least on the weeks that are not unseen."""
    found = tuned(weeks, [static_actor(gpus) for gpus in GPUS_WEIGHTS], effort)
    return float(-found.linear[FEATURES.index("GPUs")])


def judged(
    weeks: Weeks,
    actor: Actor,
    lines: dict[str, str],
    draws: int,
    executor: str,
    seed: int,
    report: Callable[[str], None],
) -> dict[str, ActorComparison]:
    """Replay drawings of the unseen weeks under the *actor* and each of the *lines*, and compare."""
    costs: dict[str, list[list[Costs]]] = {name: [] for name in ("", *lines)}
    for number, rows in enumerate(weeks.unseen):
        report(f"unseen week {number + 1} of {len(weeks.unseen)}")
        drawn = [weeks.draw(rows, 1000 * seed + draw) for draw in range(draws)]
        for name, line in {"": f"mlfs-rl actor={actor.text}", **lines}.items():
            setup = Setup.of(line, SELECTION, executor=executor, forecast="told")
            costs[name].append([costs_of(week, simulate(week, weeks.fleet, setup).end_s) for week in drawn])
    ours = np.array(costs.pop(""))
    return {name: _against(ours, np.array(found), seed) for name, found in costs.items()}


def _against(ours: FloatArray, other: FloatArray, seed: int) -> ActorComparison:
    """Compare costs by week and draw."""
    ratio = np.log(ours[:, :, 0] / other[:, :, 0])
    random, (weeks, draws) = np.random.default_rng(seed), ratio.shape
    week = random.integers(weeks, size=(RESAMPLES, weeks, 1))
    means = ratio[week, random.integers(draws, size=(RESAMPLES, weeks, draws))].mean(axis=(1, 2))
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    met = float((other[:, :, 1] - ours[:, :, 1]).mean())
    return ActorComparison(float(np.exp(ratio.mean())), float(low), float(high), met)
