"""Times as sbatch's --begin takes them (sbatch(1))."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_NOW = re.compile(rf"now\s*(?:([+-])\s*([0-9]{{1,9}})\s*({'|'.join(_UNITS)})?s?)?", re.IGNORECASE)
_NAMED = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_PART = re.compile(
    r"(?P<day>today|tomorrow)|(?P<named>midnight|noon|fika|teatime)"
    r"|(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?\s*(?P<half>[ap]m)?"
    r"|(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<mday>[0-9]{1,2})"
    r"|(?P<month2>[0-9]{1,2})[./]?(?P<mday2>[0-9]{1,2})[./]?(?P<year2>[0-9]{2})?",
    re.IGNORECASE,
)


def begin_s(text: str, now_s: float, zone: tzinfo) -> float:
    """Return the Unix seconds of a time such as ``now+1hour``, ``16:00``, ``2030-01-20T12:34`` or ``tomorrow``.

    A time without a date is the next one of these. ValueError for anything else.
    """
    if re.fullmatch(r"uts[0-9]{7,15}", text, re.IGNORECASE):
        return float(text[3:])
    if relative := _NOW.fullmatch(text.strip()):
        shift_s = int(relative[2] or 0) * _UNITS[(relative[3] or "second").lower()]
        return float(int(now_s) + (-shift_s if relative[1] == "-" else shift_s))
    now = datetime.fromtimestamp(int(now_s), zone)
    date, clock = _parts(text, now)
    if date is None and clock is None:
        raise ValueError(f"{text!r} is no time")
    hour, minute, second = clock or (0, 0, 0)
    if date is None:
        later = (hour, minute) > (now.hour, now.minute)
        day = now if later else datetime.fromtimestamp(int(now_s) + 86400, zone)
        date = (day.year, day.month, day.day)
    year, month, mday = date
    if year is None:
        later = (month, mday, hour, minute) > (now.month, now.day, now.hour, now.minute)
        year = now.year if later else now.year + 1
    first = datetime(year, month, 1, hour, minute, second, tzinfo=zone)
    return (first + timedelta(days=mday - 1)).astimezone(UTC).timestamp()


def _parts(text: str, now: datetime) -> tuple[tuple[int | None, int, int] | None, tuple[int, int, int] | None]:
    """Return the date (year, month, day) and the clock of *text*, None for what it leaves out."""
    date: tuple[int | None, int, int] | None = None
    clock: tuple[int, int, int] | None = None
    at = 0
    while at < len(text):
        if text[at] in " \t-T" and not text[at:].lower().startswith(("today", "tomorrow", "teatime")):
            at += 1
            continue
        match = _PART.match(text, at)
        if not match:
            raise ValueError(f"{text!r} is no time")
        at = match.end()
        if match["day"]:
            day = now if match["day"].lower() == "today" else (now + timedelta(days=1))
            date = (day.year, day.month, day.day)
        elif match["named"]:
            clock = (_NAMED[match["named"].lower()], 0, 0)
        elif match["hour"]:
            clock = _clock(match)
        else:
            date = _date(match)
    return date, clock


def _clock(match: re.Match[str]) -> tuple[int, int, int]:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    half = (match["half"] or "").lower()
    if hour > 23 or minute > 59 or second > 59 or (half and hour > 12):
        raise ValueError(f"{match[0]!r} is no time of a day")
    if half:
        hour = hour % 12 + 12 * (half == "pm")
    return hour, minute, second


def _date(match: re.Match[str]) -> tuple[int | None, int, int]:
    if match["year"]:
        year, month, mday = int(match["year"]), int(match["month"]), int(match["mday"])
    else:
        year = 2000 + int(match["year2"]) if int(match["year2"] or 0) else 0
        month, mday = int(match["month2"]), int(match["mday2"])
    if not 1 <= month <= 12 or not 1 <= mday <= 31:
        raise ValueError(f"{match[0]!r} is no date")
    return year or None, month, mday
