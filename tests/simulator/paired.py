"""What a strategy gains over several sites: the waits of the same jobs with and without it, site by site."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

LEAST_H = 1 / 60  #: a wait below one cycle counts as one cycle
CONFIDENCE = 0.9


@dataclass(frozen=True)
class Gain:
    """How many times shorter a cheater's mean wait is at each of several sites; below 1 it is longer.

    The bound is on the median. At one site a ratio says little: a job that starts a minute later moves all jobs after
    it, so that strategies that change no order gain and lose a factor of two as well. A mean would follow the sites
    without waits.
    """

    ratios: tuple[float, ...]  #: ascending

    @classmethod
    def of(cls, honestly_h: Sequence[float], waited_h: Sequence[float]) -> Gain:
        """Compare the mean waits in hours of honest and of cheating users, by site."""
        pairs = zip(honestly_h, waited_h, strict=True)
        return cls(tuple(sorted(max(fair_h, LEAST_H) / max(h, LEAST_H) for fair_h, h in pairs)))

    @property
    def median(self) -> float:
        """The gain at the site in the middle."""
        return statistics.median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """The gains between which the median of all sites lies with at least ``CONFIDENCE``, if there are five or more.

        It holds whatever the ratios are like: at each site the odds are even that the ratio is below their median.
        """
        count, outside, below = len(self.ratios), 0, 0.0
        while (below := below + 2 * comb(count, outside) / 2**count) <= 1 - CONFIDENCE:
            outside += 1
        place = max(outside - 1, 0)
        return self.ratios[place], self.ratios[count - 1 - place]

    @property
    def worst(self) -> float:
        """The largest gain at one site."""
        return self.ratios[-1]

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.median:5.2f} [{low:.2f} {high:.2f}] {self.worst:5.2f}"
