"""Buckets of job names: names that differ little are one category (Lucid section 3.5.3)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.job_kind import bucket
from ...errors import MissingExtra

CLUSTERED = 300  #: most frequent stems that are clustered; the work grows with its square
FEW = 40  #: up to so many stems each is a bucket of its own
NEAR = 0.5  #: share of the longer of two stems that may differ, for a stem that was not clustered
OTHER = "other names"

_FINENESS = 0.7  # quantile of the similarities that a stem needs for itself to be a speaker; more makes more buckets
_AT_ONCE = 2_000_000  # pairs: bounds the memory of distances
_MOST_ASKED = 100_000  # names and stems remembered with their speakers


@dataclass(frozen=True, eq=False)
class NameBuckets:
    """For each stem (a name without its numbers) the stem that speaks for its bucket.

    A stem not met in training goes to the nearest speaker, or to OTHER where none is near.
    """

    speakers: tuple[str, ...]  #: in alphabetical order
    stems: Mapping[str, str]  #: stems of training, with their speakers
    _met: dict[str, str] = field(default_factory=dict, repr=False)  # speakers of stems
    _buckets: dict[str, int] = field(default_factory=dict, repr=False)  # and of names, as their numbers

    @classmethod
    def fit(cls, names: Labels, most: int = CLUSTERED) -> Self:
        """The buckets of *names*: affinity propagation over the Levenshtein distances of the *most* frequent stems.

        The same names in any order give the same buckets. MissingExtra without scikit-learn or rapidfuzz.
        """
        weights: dict[str, int] = {}
        counts = np.bincount(names.codes, minlength=len(names.names)).tolist()
        for name, rows in zip(names.names, counts, strict=True):
            if rows and name:
                stem = bucket(name)
                weights[stem] = weights.get(stem, 0) + rows
        frequent = sorted(weights, key=lambda stem: (-weights[stem], stem))[:most]
        stems = _clustered(sorted(frequent))
        return cls.of(stems)._with(sorted(weights.keys() - stems.keys()))

    @classmethod
    def of(cls, stems: Mapping[str, str]) -> Self:
        """The buckets that `stems` once described; ValueError where these are no texts."""
        if not all(isinstance(speaker, str) for speaker in stems.values()):
            raise ValueError("a stem that no text speaks for")
        return cls(tuple(sorted(set(stems.values()) - {OTHER})), dict(stems))

    def label(self, names: Labels) -> Labels:
        """The bucket of each row; empty for a job without a name."""
        return Labels(self._numbers_of(names.names).take(names.codes), self._all)

    def speakers_of(self, names: Iterable[str]) -> list[str]:
        """The bucket of each of *names*."""
        return [self._all[number] for number in self._numbers_of(tuple(names)).tolist()]

    @cached_property
    def _all(self) -> tuple[str, ...]:
        """Every bucket there may be, by its number."""
        return ("", OTHER, *self.speakers)

    def _numbers_of(self, names: Sequence[str]) -> IntArray:
        try:
            return np.fromiter(map(self._buckets.__getitem__, names), np.int64, len(names))
        except KeyError:  # rare: the same names come every cycle
            return np.fromiter(map(self._lookup(names).__getitem__, names), np.int64, len(names))

    def _lookup(self, names: Sequence[str]) -> dict[str, int]:
        """The numbers of *names*, remembered from now on. Other threads ask too, and forget what we rely on."""
        buckets, met = self._buckets, self._met
        if len(buckets) > _MOST_ASKED:
            buckets.clear()
        found = {name: number for name in names if (number := buckets.get(name)) is not None}
        # In the order of the names, in which they are asked for again: that is kind to the processor's caches.
        stems = {name: bucket(name) if name else "" for name in names if name not in found}
        speakers = {stem: speaker for stem in set(stems.values()) if (speaker := met.get(stem)) is not None}
        if unmet := sorted(set(stems.values()) - speakers.keys()):
            if len(met) > _MOST_ASKED:
                met.clear()
            trained = {"": "", **self.stems}
            new = [stem for stem in unmet if stem not in trained]
            speakers |= trained | dict(zip(new, self._nearest(new), strict=True))
            met.update(speakers)
        numbers = {speaker: number for number, speaker in enumerate(self._all)}
        fresh = {name: numbers[speakers[stem]] for name, stem in stems.items()}
        buckets.update(fresh)
        return found | fresh

    def _with(self, stems: Sequence[str]) -> Self:
        return type(self)(self.speakers, {**self.stems, **dict(zip(stems, self._nearest(stems), strict=True))})

    def _nearest(self, stems: Sequence[str]) -> list[str]:
        if not self.speakers:
            return [OTHER] * len(stems)
        found: list[str] = []
        step = max(1, _AT_ONCE // len(self.speakers))
        for at in range(0, len(stems), step):
            share = _differing(stems[at : at + step], self.speakers)
            best = share.argmin(axis=1)
            near = share[np.arange(len(best)), best] <= NEAR
            found += [self.speakers[b] if ok else OTHER for b, ok in zip(best.tolist(), near.tolist(), strict=True)]
        return found


def levenshtein(texts: Sequence[str], others: Sequence[str]) -> IntArray:
    """Insertions, deletions and replacements from each text to each other one: shape (texts, others).

    MissingExtra where rapidfuzz is not installed.
    """
    try:
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import cdist
    except ImportError as error:
        raise MissingExtra("comparing job names needs rapidfuzz", "learn") from error
    distance: IntArray = cdist(texts, others, scorer=Levenshtein.distance, dtype=np.int64)
    return distance.reshape(len(texts), len(others))


def _differing(stems: Sequence[str], others: Sequence[str]) -> FloatArray:
    """Levenshtein distance over the length of the longer stem."""
    longer = np.maximum.outer([len(s) for s in stems], [len(o) for o in others])
    share: FloatArray = levenshtein(stems, others) / np.maximum(longer, 1)
    return share


def _clustered(stems: Sequence[str]) -> dict[str, str]:
    """Each of *stems* with the one that speaks for it."""
    if len(stems) <= FEW:
        return {stem: stem for stem in stems}
    try:
        from sklearn.cluster import AffinityPropagation
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise MissingExtra("clustering job names needs scikit-learn", "learn") from error
    alike = -(_differing(stems, stems) ** 2)
    fine = np.quantile(alike, _FINENESS)
    machine = AffinityPropagation(affinity="precomputed", damping=0.8, max_iter=400, random_state=0, preference=fine)
    with warnings.catch_warnings():
        # Without agreement every stem speaks for itself, which is as good an answer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(alike)
    speakers = machine.cluster_centers_indices_
    if machine.n_iter_ >= machine.max_iter or len(speakers) == 0:
        return {stem: stem for stem in stems}
    return {stem: stems[int(speakers[label])] for stem, label in zip(stems, machine.labels_.tolist(), strict=True)}
