"""The features of the baseline, computed by one function for training and for forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.job_kind import bucket, printable


class Described(Protocol):
    """The columns that jobs and outcomes share."""

    @property
    def name(self) -> Labels:
        """Job names."""
        ...

    @property
    def user(self) -> Labels:
        """Owners."""
        ...

    @property
    def gpus(self) -> IntArray:
        """GPUs over all nodes."""
        ...

    @property
    def time_limit_s(self) -> FloatArray:
        """Time limits; infinite or NaN where there is none."""
        ...


@dataclass(frozen=True)
class Features:
    """The columns from which forecasts are made; ``names`` may list a text more than once."""

    user: Labels
    bucket: Labels
    gpus: IntArray
    time_limit_s: FloatArray


def features(jobs: Described) -> Features:
    """Compute the features of *jobs*, row by row."""
    # A few runs of a long history have the texts of all of it.
    owner, name = jobs.user.with_used_names(), jobs.name.with_used_names()
    user = Labels(owner.codes, tuple(printable(text) for text in owner.names))
    buckets = Labels(name.codes, tuple(bucket(text) for text in name.names))
    limits = np.where(np.isnan(jobs.time_limit_s), np.inf, jobs.time_limit_s)
    return Features(user, buckets, jobs.gpus, limits)
