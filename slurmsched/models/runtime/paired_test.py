"""By how much one forecast was better than another of the same runs, and whether that may be chance."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray

SURE = 2.0  #: standard errors by which one has to be ahead
STRETCHES = 8  #: of the runs, in which a user's runs count as one


class PairedTest(NamedTuple):
    """How much lower the loss of the one was."""

    mean: float  #: over the runs; below 0 where the other was better
    error: float  #: its standard error; infinite for a single group, which says nothing of the next
    groups: int  #: of runs that tell the same

    @classmethod
    def of(cls, gain: FloatArray, user: IntArray) -> Self:
        """The lead of one whose loss was lower by *gain* for each run, in the order the runs ended.

        A user's runs of one stretch are a group: in a burst of like jobs who is right about one is right about all. The
        standard error is that of a mean over groups of different sizes.
        """
        stretch = np.arange(len(gain)) * STRETCHES // max(1, len(gain))
        _, group = np.unique(user * STRETCHES + stretch, return_inverse=True)
        groups = int(group.max(initial=-1)) + 1
        if groups < 2:
            return cls(float(gain.mean()) if len(gain) else 0.0, np.inf, groups)
        mean = float(gain.mean())
        strays = np.bincount(group, gain - mean)
        error = float(np.sqrt((strays**2).sum() * groups / (groups - 1))) / len(gain)
        return cls(mean, error, groups)

    @property
    def sure(self) -> bool:
        """Whether it is beyond chance."""
        return self.mean > SURE * self.error
