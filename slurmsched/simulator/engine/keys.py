"""The order of jobs as a function of the service they attained."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.columns import FloatArray


class Keys(NamedTuple):
    """The order of jobs: a job's key is ``at[level, row] + slope[row] * seconds run``; the smaller runs sooner.

    A job's level is the number of *steps* (GPU-seconds of attained service) that it has passed.
    """

    at: FloatArray
    slope: FloatArray
    steps: FloatArray
