"""A paired significance test of two forecasts of the same runs."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray

SURE = 2.0  #: standard errors by which one must be ahead
STRETCHES = 8  #: of the history; a user's runs in one stretch count as one observation


class PairedTest(NamedTuple):
    """The mean difference of the losses of two forecasts, with its standard error."""

    mean: float  #: over the runs; below 0 where the other was better
    error: float  #: its standard error; infinite for a single group, which allows no inference
    groups: int  #: of runs that are not independent

    @classmethod
    def of(cls, gain: FloatArray, user: IntArray) -> Self:
        """Test the *gain* in loss of each run, in the order the runs ended.

        A user's runs of one stretch are a group: in a burst of similar jobs, a forecast is right about all or none. The
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
        """True if the difference is significant."""
        return self.mean > SURE * self.error
