"""A small tree that says in words what an actor prefers, and how often it is right about unseen decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray
from ...models.sharing.decision_tree import Node, document, grow_to, predict
from ...policies.ordering.mlfs_rl import FEATURES, Actor
from .week_loop import Decisions, play
from .weeks import Weeks

ROWS = 6000  #: of features from each week
LEAVES = 16
PART_IN_LEAF = 0.01  #: least part of the rows in each leaf


@dataclass(frozen=True)
class Distilled:
    """A tree of the scores of an actor, and its fidelity on decisions of unseen weeks."""

    tree: Node
    first: float  #: share of the decisions in which the job that the actor has first is among the tree's first
    pairs: float  #: share of the pairs of waiting jobs that both order alike; equal scores of the tree count half

    def document(self) -> dict[str, Any]:
        """Return the tree as JSON values."""
        return document(self.tree)


def distilled(actor: Actor, weeks: Weeks) -> Distilled:
    """Grow a tree on the decisions of the actor in the weeks of the training, and test it on the unseen ones."""
    seen = [play(weeks.draw(rows, 0), weeks.fleet, actor, ROWS).decisions for rows in weeks.train + weeks.choose]
    rows = np.concatenate([one.rows for one in seen])
    least = max(int(PART_IN_LEAF * len(rows)), 1)
    tree = grow_to(_columns(rows), actor.scores(rows), ends=LEAVES, least=least)
    first, pairs = [], []
    for unseen in weeks.unseen:
        found = play(weeks.draw(unseen, 0), weeks.fleet, actor, ROWS).decisions
        for scores, leaves in zip(*(_by_decision(found, one) for one in _scores(actor, tree, found)), strict=True):
            first.append(leaves[scores.argmax()] == leaves.max())
            pairs.append(_alike(scores, leaves))
    return Distilled(tree, float(np.mean(first or [np.nan])), float(np.mean(pairs or [np.nan])))


def _columns(rows: FloatArray) -> dict[str, FloatArray]:
    return dict(zip(FEATURES, rows.T, strict=True))


def _scores(actor: Actor, tree: Node, found: Decisions) -> tuple[FloatArray, FloatArray]:
    return actor.scores(found.rows), predict(tree, _columns(found.rows))


def _by_decision(found: Decisions, values: FloatArray) -> list[FloatArray]:
    return np.split(values, found.first[1:-1]) if len(values) else []


def _alike(scores: FloatArray, leaves: FloatArray) -> float:
    """Return the share of the pairs of jobs that both order alike."""
    one, other = np.triu_indices(len(scores), 1)
    agree = np.sign(scores[one] - scores[other]) * np.sign(leaves[one] - leaves[other])
    return float(np.mean((agree + 1) / 2))
