"""Figures and texts as pages show them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

UNKNOWN = "–"


def duration(seconds: float | None) -> str:
    """Format a length of time with two figures: ``45 s``, ``12 min``, ``3.4 h``, ``2.1 d``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    size, sign = abs(seconds), "−" if seconds < 0 and round(abs(seconds)) else ""
    if size == 3_600.0:
        return f"{sign}1 h"
    for least, unit, name in ((172_800.0, 86_400.0, "d"), (5_400.0, 3_600.0, "h"), (90.0, 60.0, "min")):
        if size >= least:
            return f"{sign}{_short(size / unit)} {name}"
    return f"{sign}{size:.0f} s"


def amount(value: float | None) -> str:
    """Format a number: whole from 100 on, with thousands apart, else with one or two decimals."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if isinstance(value, int) or size >= 100 or value == int(value):
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.1f}".replace("-", "−") if size >= 10 else f"{value:.2f}".replace("-", "−")


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share of one as percent."""
    return UNKNOWN if share is None or not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def share_of(part: float | None, whole: float | None) -> str:
    """Format *part* as percent of *whole*."""
    return UNKNOWN if part is None or not whole else percent(part / whole, 0 if part >= 0.1 * whole else 1)


def day(at_s: float) -> str:
    """Format a day in local time: ``Mon 23 Nov``."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%a %d %b")


def moment(at_s: float) -> str:
    """Format a moment in local time, with the zone: ``23 Nov 2026 14:05 CET``."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%d %b %Y %H:%M %Z")


def legible(value: Any) -> Any:
    r"""Return *value* with each text in it in one visible line: controls, bidi marks, lone surrogates as ``\x1b``."""
    if hasattr(value, "__html__"):  # markup of ours, whose texts are escaped
        return value
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value
        return "".join(char if char.isprintable() else _escaped(char) for char in value)
    if isinstance(value, Mapping):
        return {key: legible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [legible(item) for item in value]
    return value


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 and value != int(value) else f"{value:,.0f}"
