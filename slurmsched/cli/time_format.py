"""Seconds and times, formatted for people."""

from __future__ import annotations

import math
from datetime import datetime

TIME = "%Y-%m-%d %H:%M:%S"


def span(seconds: float | None) -> str:
    """Format a span such as ``12 s``, ``3m20s``, ``5h03m20s`` or ``2d05h03m20s``; ``-`` where unknown."""
    if seconds is None or math.isnan(seconds):
        return "-"
    if math.isinf(seconds):
        return "unlimited"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    if whole < 60:
        return f"{sign}{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d{hours:02}h{minutes:02}m{rest:02}s"
    return f"{sign}{hours}h{minutes:02}m{rest:02}s" if hours else f"{sign}{minutes}m{rest:02}s"


def moment(at_s: float | None, now_s: float | None = None) -> str:
    """Format local time; without the date on the day of *now_s*."""
    if at_s is None or math.isnan(at_s):
        return "-"
    at = datetime.fromtimestamp(at_s).astimezone()
    today = now_s is not None and at.date() == datetime.fromtimestamp(now_s).astimezone().date()
    return at.strftime("%H:%M:%S" if today else TIME)


def as_of(at_s: float, cycle: int, now_s: float) -> str:
    """Describe the age of an answer: ``as of 10:02:41, cycle 812, 12 s ago``."""
    return f"as of {moment(at_s, now_s)}, cycle {cycle}, {span(max(0.0, now_s - at_s))} ago"
