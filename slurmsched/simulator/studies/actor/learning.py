"""The training of the actor by PyTorch: imitation of a static order, then policy gradient.

Returns are compared with those of other replays of the same arrivals at the same time, so that what the arrivals cause
cancels out (Mao et al., "Variance reduction for reinforcement learning in input-driven environments", ICLR 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....cluster.columns import FloatArray
from ....errors import MissingExtra, TooLittleHistory
from ....policies.ordering.mlfs_rl import FEATURES, Actor
from ...workload.workload import Workload
from .drawn_weeks import Weeks, drawn_week
from .rollout import CHOICES, TEMPERATURE, Decision, Rollout, rollout

if TYPE_CHECKING:
    import torch

HIDDEN = 8
STEPS_OF_IMITATION, BATCH = 300, 64
REPLAYS, SAMPLED = 6, 160  #: of the same arrivals in each update, and the decisions of each that count
HORIZON_S = 2 * 86400.0  #: a decision answers for what happens within this time
LATE_H = 4.0  #: hours of JCT that a missed deadline counts as
CHOOSE_EVERY = 8
RATE, RATE_OF_IMITATION = 0.01, 0.03


@dataclass(frozen=True)
class Effort:
    """How much is tried."""

    updates: int = 48
    draws: int = 2  #: of each week on which weights are chosen, and of each unseen one


class Costs(NamedTuple):
    """The parts of the reward, each the smaller the better."""

    jct_h: float  #: mean
    late: float  #: share of the jobs

    @property
    def total_h(self) -> float:
        """Both in hours."""
        return self.jct_h + LATE_H * self.late


def demand_torch() -> None:
    """Raise MissingExtra where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise MissingExtra("training an actor needs PyTorch", "rl")


def costs_of(jobs: Workload, end_s: FloatArray) -> Costs:
    """Return the costs of a replay."""
    return Costs(float((end_s - jobs.submit_s).mean() / 3600), float((end_s > jobs.deadline_s).mean()))


def static_score(gpus: float) -> Callable[[FloatArray], FloatArray]:
    """Return minus the logarithm of the remaining time plus *gpus* times that of the GPUs."""
    return lambda rows: -(rows[:, 0] + gpus * rows[:, 1])


def learn(
    jobs: Workload, weeks: Weeks, gpus: float, seed: int, effort: Effort, report: Callable[[str], None]
) -> tuple[Actor, int]:
    """Train an actor from the static order of weight *gpus*; return it and the updates after which it was best.

    The same seed gives the same weights. TooLittleHistory where no jobs queue.
    """
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random, imitated = np.random.default_rng(seed), static_score(gpus)
    starts = [rollout(drawn_week(jobs, rows, seed), imitated, random) for rows in weeks.train[-3:]]
    decisions = [one for start in starts for one in start.decisions]
    if not decisions:
        raise TooLittleHistory("no two jobs ever wait at the same time: there is nothing to learn an order from")
    network = _Network.initial(decisions)
    _imitate(network, decisions, imitated, random)

    def cost_of(actor: Actor) -> float:
        replays = [drawn_week(jobs, rows, draw) for rows in weeks.choose for draw in range(effort.draws)]
        return float(np.mean([np.log(costs_of(one, rollout(one, actor.scores).end_s).total_h) for one in replays]))

    best, best_at = network.actor(), 0
    least = cost_of(best)
    optimizer = torch.optim.Adam(network.weights, lr=RATE)
    for update in range(1, effort.updates + 1):
        report(f"update {update} of {effort.updates}")
        week = drawn_week(jobs, weeks.train[int(random.integers(len(weeks.train)))], int(random.integers(2**31)))
        actor = network.actor()
        replays = [rollout(week, actor.scores, random) for _ in range(REPLAYS)]
        if not any(one.decisions for one in replays):  # a week without a queue teaches nothing
            continue
        batch, advantage = _sampled(week, replays, random)
        loss = -(network.choices(batch) * torch.as_tensor(advantage, dtype=torch.float32)).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(network.weights, 1.0)
        optimizer.step()
        if update % CHOOSE_EVERY == 0 and (cost := cost_of(found := network.actor())) < least:
            best, best_at, least = found, update, cost
    return best, best_at


class _Network:
    """The actor's weights as tensors."""

    def __init__(self, weights: Sequence[torch.Tensor], low: FloatArray, high: FloatArray) -> None:
        self.weights = [one.requires_grad_() for one in weights]
        self.low, self.high = low, high

    @classmethod
    def initial(cls, decisions: Sequence[Decision]) -> _Network:
        import torch

        rows = np.concatenate([one.rows for one in decisions])
        shapes, scales = ((len(FEATURES), HIDDEN), (HIDDEN,), (HIDDEN,)), (0.3, 0.1, 0.1)
        hidden = [scale * torch.randn(shape) for shape, scale in zip(shapes, scales, strict=True)]
        return cls([torch.zeros(len(FEATURES)), *hidden], rows.min(axis=0), rows.max(axis=0))

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        import torch

        linear, into, offset, out = self.weights
        inside = rows.clamp(torch.as_tensor(self.low), torch.as_tensor(self.high))
        return inside @ linear + torch.tanh(inside @ into + offset) @ out

    def logits(self, decisions: Sequence[Decision]) -> torch.Tensor:
        """Return the logits of the jobs of each decision; minus infinity where it has fewer than the longest."""
        import torch

        longest = max(len(one.rows) for one in decisions)
        rows = np.zeros((len(decisions), longest, len(FEATURES)), dtype=np.float32)
        absent = np.ones((len(decisions), longest), dtype=np.bool_)
        for number, one in enumerate(decisions):
            rows[number, : len(one.rows)], absent[number, : len(one.rows)] = one.rows, False
        return (self.scores(torch.as_tensor(rows)) / TEMPERATURE).masked_fill(torch.as_tensor(absent), -torch.inf)

    def choices(self, decisions: Sequence[Decision]) -> torch.Tensor:
        """Return the logarithm of the probability of the chosen jobs of each decision, one drawn after another."""
        import torch

        logits, total = self.logits(decisions), torch.zeros(len(decisions))
        for place in range(CHOICES):
            number = [n for n, one in enumerate(decisions) if place < min(len(one.chosen), len(one.rows) - 1)]
            if not number:
                break
            at, chosen = (torch.tensor(some) for some in (number, [int(decisions[n].chosen[place]) for n in number]))
            total = total.index_add(0, at, torch.log_softmax(logits[at], dim=1)[torch.arange(len(at)), chosen])
            logits = logits.index_put((at, chosen), torch.tensor(-torch.inf))
        return total

    def actor(self) -> Actor:
        """Return the weights as they are served: in the precision of their text."""
        linear, into, offset, out = (one.detach().numpy().astype(np.float64) for one in self.weights)
        return Actor.of_text(Actor(linear, self.low, self.high, into, offset, out).text)


def _imitate(
    network: _Network, decisions: Sequence[Decision], score: Callable[[FloatArray], FloatArray], random: Any
) -> None:
    """Train until jobs are chosen with the probabilities that *score* gives them."""
    import torch

    optimizer = torch.optim.Adam(network.weights, lr=RATE_OF_IMITATION)
    for step in range(STEPS_OF_IMITATION):
        for group in optimizer.param_groups:
            group["lr"] = RATE_OF_IMITATION * (1 - step / STEPS_OF_IMITATION)
        batch = [decisions[number] for number in random.integers(len(decisions), size=BATCH)]
        logits = network.logits(batch)
        wanted = torch.zeros_like(logits)
        for number, one in enumerate(batch):
            share = torch.softmax(torch.as_tensor(score(one.rows)) / TEMPERATURE, dim=0)
            wanted[number, : len(one.rows)] = share
        loss = -(wanted * torch.log_softmax(logits, dim=1).masked_fill(wanted == 0, 0.0)).sum(dim=1).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()


def _sampled(
    week: Workload, replays: Sequence[Rollout], random: np.random.Generator
) -> tuple[list[Decision], FloatArray]:
    """Return decisions of the *replays*, and how much better each went on than the other replays at its time."""
    grid_s = np.arange(0.0, max(float(one.end_s.max()) for one in replays) + 3600, 3600.0)
    costs = np.array([_cost_to_come(week, one.end_s, grid_s) for one in replays])
    others = (costs.sum(axis=0) - costs) / (len(replays) - 1)
    batch, advantage = [], []
    for one, better in zip(replays, others - costs, strict=True):
        picked = random.permutation(len(one.decisions))[:SAMPLED]
        batch += [one.decisions[number] for number in picked]
        advantage.append(np.interp([one.decisions[number].at_s for number in picked], grid_s, better))
    found = np.concatenate(advantage)
    return batch, found / max(float(found.std()), 1e-9)


def _cost_to_come(jobs: Workload, end_s: FloatArray, grid_s: FloatArray) -> FloatArray:
    """Return, from each time of the grid for HORIZON_S, the job-hours in the system and LATE_H for each late end."""
    inside_s = np.clip(np.minimum(end_s, grid_s[:, None]) - jobs.submit_s, 0.0, None).sum(axis=1)
    late = (end_s > jobs.deadline_s) & (jobs.deadline_s <= grid_s[:, None])
    so_far = inside_s / 3600 + LATE_H * late.sum(axis=1)
    return np.asarray(np.interp(grid_s + HORIZON_S, grid_s, so_far) - so_far)
