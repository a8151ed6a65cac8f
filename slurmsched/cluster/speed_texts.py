"""Speeds as texts in columns: by type of GPU, as a100=1 v100=0.4, or by number of GPUs, as 2=1 4=1.7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .columns import FloatArray

DIGITS = 4  #: of a speed


def read_speeds(text: str) -> dict[str, float]:
    """Return the speeds of a text, by type of GPU."""
    pairs = (item.rpartition("=") for item in text.split(" ") if item)
    return {name: float(speed) for name, _, speed in pairs}


def read_sizes(text: str) -> dict[int, float]:
    """Return the speeds of a text, by number of GPUs."""
    return {int(gpus): speed for gpus, speed in read_speeds(text).items()}


def write_speeds(speeds: Mapping[str, float] | Mapping[int, float]) -> str:
    """Return the text of *speeds* in their order."""
    return " ".join(f"{key}={speed:.{DIGITS}g}" for key, speed in speeds.items())


def write_relative(types: Sequence[str], speeds: FloatArray) -> str:
    """Return the text of *speeds* on *types* of GPUs over the fastest; 0 stands for an unknown one."""
    shares = zip(types, (speeds / speeds.max()).tolist(), strict=True)
    return write_speeds({name: share for name, share in shares if share > 0})


def speeds_on(texts: Sequence[str], types: Sequence[str]) -> FloatArray:
    """Return the speed that each of *texts* stands for on each of *types*, as a share of that on its fastest one.

    1 everywhere where less than two are known. An unknown type counts as the slowest known one.
    """
    speeds = np.ones((len(texts), len(types)))
    for at, text in enumerate(texts):
        known = {name: speed for name, speed in read_speeds(text).items() if name in types}
        if len(known) > 1:
            speeds[at] = [known.get(name, min(known.values())) for name in types]
    return speeds


def ran_further(text: str, gpus: int, more_s: float) -> str:
    """Return the text of a row of the column ``ran_on`` after *more_s* further seconds on so many GPUs."""
    ran_s = read_sizes(text)
    if gpus > 0 and more_s > 0:
        ran_s[gpus] = ran_s.get(gpus, 0.0) + more_s
    return " ".join(f"{on}={seconds:.1f}" for on, seconds in sorted(ran_s.items()))
