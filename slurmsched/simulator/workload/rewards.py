"""Rewards for finishing by deadlines, as the text of one column: ``1@9540,0.8@11340``."""

from __future__ import annotations

import math
from collections.abc import Iterable

Steps = tuple[tuple[float, float], ...]  #: (seconds after submission, share of the full reward), by time


def steps_of(text: str) -> Steps:
    """Parse *text* into steps, none for an empty one; ``ValueError`` says what is accepted."""
    if not text:
        return ()
    try:
        pairs = [item.split("@") for item in text.split(",")]
        steps = tuple((float(within), float(worth)) for worth, within in pairs)
    except ValueError:
        steps = ((math.nan, math.nan),)
    times = [within for within, _ in steps]
    if not all(math.isfinite(within) and 0 <= worth <= 1 for within, worth in steps) or times != sorted(times):
        raise ValueError(
            f"{text!r} is no list of rewards: accepted are steps like 1@9540,0.8@11340, a share from 0 to 1"
            " at seconds after submission, by time"
        )
    return steps


def written(steps: Iterable[tuple[float, float]]) -> str:
    """Format *steps* as text."""
    return ",".join(f"{worth:.12g}@{within:.12g}" for within, worth in steps)
