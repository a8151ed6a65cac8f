"""What tests took of the processors, with what processes took that others wait for."""

from __future__ import annotations

import os

elsewhere_s: dict[int, float] = {}
"""Seconds of processes, by the one that waits for them, which is no child of ours that we have waited for."""


def processor_s() -> float:
    """Seconds of processors of this process and of those that ended, as far as anybody waited for them."""
    return sum(os.times()[:4]) + sum(elsewhere_s.values())
