"""Seconds in words short enough for an axis or a table."""

from __future__ import annotations

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def span(seconds: float) -> str:
    """Format a span like ``12 s``, ``3.33 min``, ``5.06 h`` or ``12.3 d``: three digits of the largest fitting unit."""
    for size, unit in _UNITS:
        if abs(seconds) >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
