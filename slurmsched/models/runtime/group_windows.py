"""The last runs of a group, as known at a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray

_CHUNK = 65536  # queries at once: bounds the memory of a median


@dataclass(frozen=True, eq=False)
class Windows:
    """Values by group, each group in the order in which the values became known."""

    groups: int
    keys: IntArray  #: group * (number of values + 1) + position in time, sorted
    starts: IntArray  #: where each group begins
    values: FloatArray

    @classmethod
    def of(cls, codes: IntArray, groups: int, values: FloatArray) -> Windows:
        """Build windows over *values*: row *i* is of group ``codes[i]`` and the *i*-th to become known."""
        order = np.argsort(codes, kind="stable")
        keys = codes[order] * (len(codes) + 1) + order
        starts = np.searchsorted(codes[order], np.arange(groups))
        return cls(groups, keys, starts, values[order])

    def bounds(self, codes: IntArray, ended_before: IntArray, last: int) -> tuple[IntArray, IntArray]:
        """Return begin and end of a group's *last* values among the first *ended_before*; empty for code -1."""
        if not self.groups:
            return np.zeros_like(codes), np.zeros_like(codes)
        to = np.searchsorted(self.keys, codes * (len(self.values) + 1) + ended_before)
        to = np.where(codes < 0, 0, to)
        return np.where(codes < 0, 0, np.maximum(self.starts[codes], to - last)), to

    def medians(self, codes: IntArray, ended_before: IntArray, last: int) -> tuple[FloatArray, IntArray]:
        """Return the median of the last values of each query's group (0 for none) and their number."""
        begin, to = self.bounds(codes, ended_before, last)
        found = np.zeros(len(codes))
        for at in range(0, len(codes), _CHUNK):
            some = slice(at, at + _CHUNK)
            found[some] = self._medians(begin[some], to[some], last)
        return found, to - begin

    def means(self, codes: IntArray, ended_before: IntArray, last: int) -> tuple[FloatArray, IntArray]:
        """Return the mean of the last values of each query's group (0 for none) and their number."""
        begin, to = self.bounds(codes, ended_before, last)
        sums = np.concatenate([[0.0], np.cumsum(self.values)])
        return (sums[to] - sums[begin]) / np.maximum(to - begin, 1), to - begin

    def _medians(self, begin: IntArray, to: IntArray, last: int) -> FloatArray:
        counts = to - begin
        places = begin[:, None] + np.arange(max(1, min(last, int(counts.max(initial=0)))))
        inside = places < to[:, None]
        window = np.full(places.shape, np.inf)
        window[inside] = self.values[places[inside]]
        window.sort(axis=1)
        rows, most = np.arange(len(counts)), np.maximum(counts, 1)
        middle = (window[rows, (most - 1) // 2] + window[rows, most // 2]) / 2
        return np.where(counts > 0, middle, 0.0)
