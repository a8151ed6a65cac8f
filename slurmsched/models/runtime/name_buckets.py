"""Buckets of job names: similar names are one category (Lucid section 3.5.3)."""

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

CLUSTERED = 300  #: most frequent stems that are clustered; the cost grows with the square
FEW = 40  #: up to as many stems, each is a bucket of its own
NEAR = 0.5  #: share of the longer of two stems that may differ when a new stem joins a bucket
OTHER = "other names"

_FINENESS = 0.7  # quantile of similarities used as the preference of a stem; a higher one makes more buckets
_AT_ONCE = 2_000_000  # pairs at once: bounds the memory of distances
_MOST_ASKED = 100_000  # names and stems in the caches


@dataclass(frozen=True, eq=False)
class NameBuckets:
    """Buckets of stems (names without their numbers), each named after a representative stem, its speaker.

    A stem not met in training joins the nearest speaker, or OTHER where none is near.
    """

    speakers: tuple[str, ...]  #: in alphabetical order
    stems: Mapping[str, str]  #: stems of training, with their speakers
    _met: dict[str, str] = field(default_factory=dict, repr=False)  # speakers of stems
    _buckets: dict[str, int] = field(default_factory=dict, repr=False)  # numbers of the buckets of names

    @classmethod
    def fit(cls, names: Labels, most: int = CLUSTERED) -> Self:
        """Cluster *names*: affinity propagation over the Levenshtein distances of the *most* frequent stems.

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
        """Rebuild the buckets from `stems`; ValueError where these are no texts."""
        if not all(isinstance(speaker, str) for speaker in stems.values()):
            raise ValueError("a stem without any text")
        return cls(tuple(sorted(set(stems.values()) - {OTHER})), dict(stems))

    def label(self, names: Labels) -> Labels:
        """Return the bucket of each row; empty for a job without a name."""
        return Labels(self._numbers_of(names.names).take(names.codes), self._all)

    def speakers_of(self, names: Iterable[str]) -> list[str]:
        """Return the bucket of each of *names*."""
        return [self._all[number] for number in self._numbers_of(tuple(names)).tolist()]

    @cached_property
    def _all(self) -> tuple[str, ...]:
        """Every possible bucket, by its number."""
        return ("", OTHER, *self.speakers)

    def _numbers_of(self, names: Sequence[str]) -> IntArray:
        try:
            return np.fromiter(map(self._buckets.__getitem__, names), np.int64, len(names))
        except KeyError:  # rare: the same names come every cycle
            return np.fromiter(map(self._lookup(names).__getitem__, names), np.int64, len(names))

    def _lookup(self, names: Sequence[str]) -> dict[str, int]:
        """Look up and cache the numbers of *names*. Other threads may clear the cache meanwhile."""
        buckets, met = self._buckets, self._met
        if len(buckets) > _MOST_ASKED:
            buckets.clear()
        found = {name: number for name in names if (number := buckets.get(name)) is not None}
        # In the order of the names, which is the order of later look-ups: that suits the processor's caches.
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
    """Count the insertions, deletions and replacements from each text to each other one: shape (texts, others).

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
    """Return the Levenshtein distance over the length of the longer stem."""
    longer = np.maximum.outer([len(s) for s in stems], [len(o) for o in others])
    share: FloatArray = levenshtein(stems, others) / np.maximum(longer, 1)
    return share


def _clustered(stems: Sequence[str]) -> dict[str, str]:
    """Map each of *stems* to the representative of its cluster."""
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
        # Without convergence every stem represents itself, which is an acceptable answer.
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(alike)
    speakers = machine.cluster_centers_indices_
    if machine.n_iter_ >= machine.max_iter or len(speakers) == 0:
        return {stem: stem for stem in stems}
    return {stem: stems[int(speakers[label])] for stem, label in zip(stems, machine.labels_.tolist(), strict=True)}
