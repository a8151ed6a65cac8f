"""MLFS's learned order of waiting jobs (MLF-RL, CoNEXT'20, section 3.4), served by NumPy alone.

A small network scores each job from features of the job and of the queue. Its weights are a parameter of the ordering,
so that a recorded decision has them and can be replayed. Without weights, and where a score is no number, the order is
that of ``mlfs-h``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray
from ...cluster.state import View
from ...errors import ConfigError
from ..contract import ORDERINGS, Ordering
from .mlfs import SCOPES, MlfsPriority, Terms, bounded

FEATURES = (
    "remaining time",
    "GPUs",
    "waiting time",
    "waiting over remaining time",
    "urgency",
    "deadline passed",
    "deadline near",
    "loss still to lose",
    "share of the cluster",
    "fits now",
    "free GPUs",
    "GPUs in demand",
    "rank by work",
    "rank by GPUs",
)
"""The features of a waiting job, in the order of the columns of `features`."""

NEAR_S = 86400.0  #: a deadline is near if a job that started now would have less time than this to spare


def features(terms: Terms, free_gpus: float, gpus: float) -> FloatArray:
    """Return a row of FEATURES per waiting job, for training and serving alike.

    *free_gpus* of the cluster's *gpus* run no job. Times enter as logarithms of hours.
    """
    count, total = len(terms.gpus), max(gpus, 1.0)
    hours, waited = terms.left_s / 3600, terms.waited_s / 3600
    spare_s = terms.slack_s - terms.left_s
    late = terms.slack_s < 0
    columns = (
        np.log(hours),
        np.log(terms.gpus),
        np.log1p(waited),
        np.log1p(waited / hours),
        terms.urgency / 10,
        late,
        np.where(late | ~np.isfinite(spare_s), 0.0, np.clip(1 - spare_s / NEAR_S, 0.0, 1.0)),
        np.log(terms.loss_left) / 10,
        np.minimum(terms.gpus / total, 1.0),
        terms.gpus <= free_gpus,
        np.full(count, free_gpus / total),
        np.full(count, np.log1p(terms.gpus.sum() / total)),
        _rank(terms.left_s * terms.gpus),
        _rank(terms.gpus),
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def _rank(value: FloatArray) -> FloatArray:
    """Return the share of the rows with a smaller value."""
    return np.searchsorted(np.sort(value), value) / max(len(value), 1)


@dataclass(frozen=True, eq=False)
class Actor:
    """A network of one hidden layer beside a linear part, and the range of each feature in its training."""

    linear: FloatArray  #: features
    low: FloatArray
    high: FloatArray
    into: FloatArray  #: features x hidden
    offset: FloatArray  #: hidden
    out: FloatArray  #: hidden

    def scores(self, rows: FloatArray) -> FloatArray:
        """Return the score of each row of features; larger runs sooner. Features count as far as the trained range.

        Each row is summed in one order, so that its score depends neither on the other rows nor on a library.
        """
        inside = np.ascontiguousarray(np.clip(rows, self.low, self.high).T)
        score, hidden = np.zeros(len(rows)), np.repeat(self.offset[:, None], len(rows), axis=1)
        for column, weight, into in zip(inside, self.linear, self.into, strict=True):
            score += weight * column
            hidden += into[:, None] * column
        for unit, weight in zip(np.tanh(hidden), self.out, strict=True):
            score += weight * unit
        return score

    def unfamiliar(self, rows: FloatArray) -> BoolArray:
        """Return a mask of the rows with a feature outside the range of its training.

        A feature that never varied there plays no part in scores, and counts as familiar.
        """
        outside = (rows < self.low - 1e-6) | (rows > self.high + 1e-6)
        return np.asarray((outside & (self.high > self.low)).any(axis=1))

    def contributions(self, rows: FloatArray) -> FloatArray:
        """Return what each feature adds to the score of each row, beyond that of the middle of the trained range.

        Features are exchanged one by one, first to last and last to first, and the mean of both counts.
        """
        base = np.tile((self.low + self.high) / 2, (len(rows), 1))
        found, both = np.zeros(rows.shape), (range(rows.shape[1]), range(rows.shape[1] - 1, -1, -1))
        for order in both:
            mixed, before = base.copy(), self.scores(base)
            for feature in order:
                mixed[:, feature] = rows[:, feature]
                after = self.scores(mixed)
                found[:, feature] += (after - before) / len(both)
                before = after
        return found

    @property
    def text(self) -> str:
        """The weights in one word, for `of_text`."""
        weights = (self.linear, self.low, self.high, self.into, self.offset, self.out)
        values = np.concatenate([value.reshape(-1) for value in weights]).astype("<f4")
        return base64.urlsafe_b64encode(values.tobytes()).decode("ascii").rstrip("=")

    @classmethod
    def of_text(cls, text: str) -> Actor:
        """Return the actor with the weights in *text*; ValueError where they are none for these FEATURES."""
        try:
            content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise ValueError(f"the weights are no base64: {error}") from None
        wide = len(FEATURES)
        units, odd = divmod(len(content) // 4 - 3 * wide, wide + 2)
        if odd or units < 0 or len(content) % 4:
            raise ValueError(f"{len(content)} bytes are no weights for {wide} features")
        values = np.frombuffer(content, "<f4").astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a weight is no number")
        at = [wide, 2 * wide, 3 * wide, (3 + units) * wide, (3 + units) * wide + units]
        linear, low, high, into, offset, out = np.split(values, at)
        if (low > high).any():
            raise ValueError("a range ends before it begins")
        return cls(linear, low, high, into.reshape(wide, units), offset, out)


class Inspection(NamedTuple):
    """Properties of the scores of a view that decide whether an actor is to be trusted."""

    finite: bool
    unfamiliar: bool  #: a job has a feature outside the range of the training


@dataclass(frozen=True)
class LearnedPriority:
    """The key of ``mlfs-rl``: minus the score of its actor, or that of ``mlfs-h`` without one."""

    actor: Actor | None = None
    across: str = "account"  #: the jobs among which what a job says of itself moves it

    selection = "backfill"

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        actor, fallback = self.actor, MlfsPriority(across=self.across)
        if actor is None:
            return fallback(view)
        free_gpus, gpus = gpus_of(view)

        def key(terms: Terms) -> FloatArray:
            return -actor.scores(features(terms, free_gpus, gpus))

        found = key(Terms.of(view)) if self.across == "all" else bounded(view, key)
        return found if np.isfinite(found).all() else fallback(view)

    def inspected(self, view: View) -> Inspection:
        """Inspect the scores of the pending jobs; without an actor there is nothing to object to."""
        if self.actor is None:
            return Inspection(finite=True, unfamiliar=False)
        rows = self._features(view)
        finite = bool(np.isfinite(self.actor.scores(rows)).all())
        return Inspection(finite, bool(self.actor.unfamiliar(rows).any()))

    def parts(self, view: View) -> dict[str, FloatArray]:
        """Return what adds up to the key of each pending job among those of its account, by name."""
        if self.actor is None:
            return MlfsPriority(across=self.across).parts(view)
        rows = self._features(view)
        middle = -self.actor.scores(((self.actor.low + self.actor.high) / 2)[None])
        added = -self.actor.contributions(rows)
        return {"middle": np.repeat(middle, len(rows))} | dict(zip(FEATURES, added.T, strict=True))

    def remarks(self, view: View, row: int) -> tuple[str, ...]:
        """Return sentences about pending job *row*: the values of its features, and its place under ``mlfs-h``."""
        if self.actor is None:
            return ("No weights were given, so the order is that of mlfs-h.",)
        place = 1 + int((np.argsort(MlfsPriority(across=self.across)(view), kind="stable") == row).argmax())
        other = f"mlfs-h would have it in place {place} of {len(view.pending)}."
        rows = self._features(view)
        values = ", ".join(f"{name} {value:.3g}" for name, value in zip(FEATURES, rows[row], strict=True))
        outside = " A value lies outside the range of the training." if self.actor.unfamiliar(rows)[row] else ""
        return (f"Its features are {values}.{outside}", other)

    def _features(self, view: View) -> FloatArray:
        return features(Terms.of(view), *gpus_of(view))


def gpus_of(view: View) -> tuple[float, float]:
    """Return the GPUs of the cluster without a job, and all of them."""
    gpus = float(view.nodes.gpus.sum())
    return max(gpus - float(view.running.gpus.sum()), 0.0), gpus


def tuned(settings: Mapping[str, str]) -> LearnedPriority:
    """Return the priority with *settings*; ConfigError names an invalid one and what is accepted."""
    if unknown := sorted(set(settings) - {"actor", "across"}):
        raise ConfigError(f"mlfs-rl: {unknown[0]} is not known; accepted are actor and across")
    across = settings.get("across", LearnedPriority.across)
    if across not in SCOPES:
        raise ConfigError(f"mlfs-rl: across={across}: accepted are {', '.join(SCOPES)}")
    try:
        return LearnedPriority(Actor.of_text(settings["actor"]) if "actor" in settings else None, across)
    except ValueError as error:
        raise ConfigError(f"mlfs-rl: actor: {error}; slurmsched train --model actor makes one") from None


ORDERINGS.add(
    Ordering(
        "mlfs-rl",
        LearnedPriority(),
        "By the scores of a trained network; without one as mlfs-h (MLFS, CoNEXT'20).",
        changes="with_time",
        selection=LearnedPriority.selection,
        tuned=tuned,
        defaults=f"across={LearnedPriority.across}",
    )
)
