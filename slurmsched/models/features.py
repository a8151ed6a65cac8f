"""What the baseline looks at in a job: one function for training and for serving."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels

LONGEST = 64  #: characters of a name that tell buckets apart

# Numbers and random ids (hex of 8 and more) are what people and tools vary from run to run.
_VARYING = re.compile(r"[0-9a-f]{8,}|[0-9]+", re.ASCII)


class Described(Protocol):
    """What jobs and outcomes have in common."""

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
    """The columns that forecasts are made from; texts may be listed more than once in ``names``."""

    user: Labels
    bucket: Labels
    gpus: IntArray
    time_limit_s: FloatArray


def features(jobs: Described) -> Features:
    """The features of *jobs*, row by row."""
    user = Labels(jobs.user.codes, tuple(printable(name) for name in jobs.user.names))
    buckets = Labels(jobs.name.codes, tuple(bucket(name) for name in jobs.name.names))
    limits = np.where(np.isnan(jobs.time_limit_s), np.inf, jobs.time_limit_s)
    return Features(user, buckets, jobs.gpus, limits)


@lru_cache(maxsize=100_000)  # the same queue comes every cycle
def bucket(name: str) -> str:
    """The name without what varies from run to run: ``train_12_v3`` and ``train_7_v10`` are ``train_#_v#``."""
    # slurmdbd keeps a double quote as a backquote; squeue shows it as it was.
    return _VARYING.sub("#", printable(name.replace('"', "`")))[:LONGEST]


def printable(text: str) -> str:
    """*text* fit for a terminal and a digest: line breaks, escapes and broken UTF-8 become question marks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
