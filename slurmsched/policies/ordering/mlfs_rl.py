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
    "time until it fits",
    "idle GPUs until then",
    "free GPUs",
    "GPUs in demand",
    "rank by work",
    "rank by GPUs",
)
"""The features of a waiting job, in the order of the columns of `feature_rows`."""

NEAR_S = 86400.0  #: a deadline is near if a job that started now would have less time than this to spare


class Supply(NamedTuple):
    """The GPUs of a cluster: those without a job, and when running jobs are expected to free others."""

    free_gpus: float
    gpus: float  #: all of them
    freed_s: FloatArray  #: seconds from now, the soonest first
    freed_gpus: FloatArray

    @classmethod
    def of(cls, view: View) -> Supply:
        """Read the supply from the running jobs and their forecasts."""
        running, left_s = view.running, view.remaining.median_s
        order = np.argsort(left_s, kind="stable")
        gpus = float(view.nodes.gpus.sum())
        free = max(gpus - float(running.gpus.sum()), 0.0)
        return cls(free, gpus, left_s[order], running.gpus[order].astype(np.float64))


def features(terms: Terms, supply: Supply) -> FloatArray:
    """Return a row of FEATURES per waiting job; see `feature_rows`."""
    return feature_rows(
        terms.left_s, terms.waited_s, terms.slack_s, terms.urgency, terms.loss_left, terms.gpus, *supply
    )


def feature_rows(
    left_s: FloatArray,
    waited_s: FloatArray,
    slack_s: FloatArray,
    urgency: FloatArray,
    loss_left: FloatArray,
    gpus: FloatArray,
    free_gpus: float,
    all_gpus: float,
    freed_s: FloatArray,
    freed_gpus: FloatArray,
) -> FloatArray:
    """Return a row of FEATURES per waiting job, for training, where this is compiled, and for serving alike.

    Times enter as logarithms of hours. A job fits when jobs that run now have freed enough GPUs, if no other starts.
    """
    total, ends = max(all_gpus, 1.0), len(freed_s)
    times_s, levels, idle_s = np.zeros(ends + 1), np.full(ends + 1, free_gpus), np.zeros(ends + 1)
    times_s[1:] = freed_s
    levels[1:] += np.cumsum(freed_gpus)
    idle_s[1:] = np.cumsum(levels[:-1] * np.diff(times_s))
    fits = np.minimum(np.searchsorted(levels, gpus), ends)
    hours, waited_h, spare_s, late = left_s / 3600, waited_s / 3600, slack_s - left_s, slack_s < 0
    near = np.minimum(np.maximum(1 - spare_s / NEAR_S, 0.0), 1.0)
    work = left_s * gpus
    found = np.empty((len(gpus), 16))
    found[:, 0] = np.log(hours)
    found[:, 1] = np.log(gpus)
    found[:, 2] = np.log1p(waited_h)
    found[:, 3] = np.log1p(waited_h / hours)
    found[:, 4] = urgency / 10
    found[:, 5] = np.where(late, 1.0, 0.0)
    found[:, 6] = np.where(late | ~np.isfinite(spare_s), 0.0, near)
    found[:, 7] = np.log(loss_left) / 10
    found[:, 8] = np.minimum(gpus / total, 1.0)
    found[:, 9] = np.where(gpus <= free_gpus, 1.0, 0.0)
    found[:, 10] = np.log1p(times_s[fits] / 3600)
    found[:, 11] = np.log1p(idle_s[fits] / 3600)
    found[:, 12] = free_gpus / total
    found[:, 13] = np.log1p(gpus.sum() / total)
    found[:, 14] = np.searchsorted(np.sort(work), work) / max(len(gpus), 1)
    found[:, 15] = np.searchsorted(np.sort(gpus), gpus) / max(len(gpus), 1)
    return found


def score_rows(
    rows: FloatArray,
    linear: FloatArray,
    low: FloatArray,
    high: FloatArray,
    into: FloatArray,
    offset: FloatArray,
    out: FloatArray,
) -> FloatArray:
    """Return the score of each row of features by the weights of an `Actor`; also compiled for training.

    Each row is summed in one order, so that its score depends neither on the other rows nor on a library.
    """
    score = np.zeros(len(rows))
    hidden = np.zeros((len(out), len(rows)))
    for unit in range(len(out)):
        hidden[unit] += offset[unit]
    for feature in range(len(linear)):
        column = np.minimum(np.maximum(rows[:, feature], low[feature]), high[feature])
        score += linear[feature] * column
        for unit in range(len(out)):
            hidden[unit] += into[feature, unit] * column
    for unit in range(len(out)):
        score += out[unit] * np.tanh(hidden[unit])
    return score


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
        """Return the score of each row of features; larger runs sooner. Features count as far as the trained range."""
        return score_rows(rows, *self.weights)

    @property
    def weights(self) -> tuple[FloatArray, ...]:
        """All weights, in the order of `score_rows`."""
        return self.linear, self.low, self.high, self.into, self.offset, self.out

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
        values = np.concatenate([value.reshape(-1) for value in self.weights]).astype("<f4")
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
        supply = Supply.of(view)

        def key(terms: Terms) -> FloatArray:
            return -actor.scores(features(terms, supply))

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
        return features(Terms.of(view), Supply.of(view))


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
