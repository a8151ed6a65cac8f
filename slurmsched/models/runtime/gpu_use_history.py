"""The GPU use expected of jobs at their submission, from measured runs of their kind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.gpu_usage import LAST, Use
from ...cluster.job_kind import kind_of
from ...cluster.records.outcomes import OutcomeTable
from .model_inputs import Profiles


@dataclass(frozen=True, eq=False)
class UseHistory:
    """Measured runs by kind and end; a call with runs returns the use that was known of each at its submission.

    These are the values of ``gpu_usage`` for pending jobs: means of the last runs of the kind, and the most memory.
    """

    kinds: dict[str, int]  #: number of each kind
    kind: IntArray  #: of each run, never falling
    end_s: FloatArray  #: within a kind never falling
    gpu_util: FloatArray
    memory_util: FloatArray
    gpu_memory_mib: FloatArray

    @classmethod
    def of(cls, measured: Iterable[tuple[str, Use]]) -> Self:
        """Build the history from *measured* runs, each with its kind, in any order."""
        runs = sorted(measured, key=lambda run: (run[0], run[1].end_s, run[1].start_s))
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(kind for kind, _ in runs))}
        number = np.array([kinds[kind] for kind, _ in runs], dtype=np.int64)
        names = ("end_s", "gpu_util", "memory_util", "gpu_memory_mib")
        columns = (np.array([getattr(use, name) for _, use in runs], dtype=np.float64) for name in names)
        return cls(kinds, number, *columns)

    def __len__(self) -> int:
        return len(self.kind)

    def __call__(self, runs: OutcomeTable) -> Profiles:
        """Return the use known of each of *runs* when it was first submitted; NaN where nothing was."""
        kind = self._kinds_of(runs.user, runs.name)
        # Ends by rank: two sorted numbers in one.
        rank = np.searchsorted(self._ends, runs.first_submit_s, side="right")
        to = np.searchsorted(self._keys, kind * (len(self) + 1) + rank)
        begin = np.maximum(np.searchsorted(self.kind, kind), to - LAST)
        places = begin[:, None] + np.arange(LAST)
        inside = (places < to[:, None]) & (kind >= 0)[:, None]
        places = np.where(inside, places, 0)
        return Profiles(
            _mean(self.gpu_util, places, inside),
            _mean(self.memory_util, places, inside),
            _most(self.gpu_memory_mib, places, inside),
        )

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the whole history, in hex."""
        digest = hashlib.sha256("\n".join(self.kinds).encode("utf-8", "surrogateescape"))
        for column in (self.kind, self.end_s, self.gpu_util, self.memory_util, self.gpu_memory_mib):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    @cached_property
    def _ends(self) -> FloatArray:
        return np.sort(self.end_s)

    @cached_property
    def _keys(self) -> IntArray:
        """Kind and rank of the end of each run; increasing, but equal for runs of a kind that ended together."""
        return self.kind * (len(self) + 1) + np.searchsorted(self._ends, self.end_s, side="left")

    def _kinds_of(self, user: Labels, name: Labels) -> IntArray:
        pairs, which = np.unique(user.codes * len(name.names) + name.codes, return_inverse=True)
        texts = (kind_of(user.names[pair // len(name.names)], name.names[pair % len(name.names)]) for pair in pairs)
        number: IntArray = np.array([self.kinds.get(text, -1) for text in texts], dtype=np.int64)
        return number[which] if len(which) else number


def _mean(values: FloatArray, places: IntArray, inside: np.ndarray) -> FloatArray:
    is_measured, window = _windows(values, places, inside)
    many = is_measured.sum(axis=1)
    mean: FloatArray = np.where(is_measured, window, 0.0).sum(axis=1) / np.maximum(many, 1)
    return np.where(many > 0, mean, np.nan)


def _most(values: FloatArray, places: IntArray, inside: np.ndarray) -> FloatArray:
    is_measured, window = _windows(values, places, inside)
    most: FloatArray = np.where(is_measured, window, -np.inf).max(axis=1)
    return np.where(is_measured.any(axis=1), most, np.nan)


def _windows(values: FloatArray, places: IntArray, inside: np.ndarray) -> tuple[np.ndarray, FloatArray]:
    window = values[places] if len(values) else np.full(places.shape, np.nan)
    return inside & ~np.isnan(window), window
