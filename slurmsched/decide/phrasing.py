"""Wording of numbers in sentences."""

from __future__ import annotations

import numpy as np

HIDDEN = "(private)"
"""The placeholder in a view for a text that its reader may not see; it may stand for several users."""


def spell(seconds: float) -> str:
    """Format a span of time in two units at most: ``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    if not np.isfinite(seconds):
        return "an unknown time"
    whole = round(max(0.0, seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
