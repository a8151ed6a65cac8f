"""Times in comments: how users write when a job should have ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

from ...errors import CommentError

_EPOCH = datetime(1970, 1, 1)


_TEN_YEARS_S = 315_360_000


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time as in the comment; only `resolve` makes it absolute, because ``+6h`` and local time need context.

    *at_s* counts seconds since the first submit, since 1970 in UTC, or since 1970 on the controller's wall clock.
    """

    at_s: int
    since: Literal["submit", "epoch", "local"] = "submit"

    def resolve(self, first_submit_s: float, zone: tzinfo) -> float:
        """Return Unix seconds, local times by *zone*; CommentError for one that daylight saving skips or repeats."""
        if self.since == "submit":
            return first_submit_s + self.at_s
        if self.since == "epoch":
            return float(self.at_s)
        wall = _EPOCH + timedelta(seconds=self.at_s)
        readings = [wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
        # A skipped wall time changes on the way to UTC and back.
        meant = {
            reading.timestamp()
            for reading in readings
            if reading.astimezone(UTC).astimezone(zone).replace(tzinfo=None, fold=0) == wall
        }
        if len(meant) == 1:
            return meant.pop()
        happens = "happens twice" if meant else "does not exist"
        offsets = " or ".join(reading.isoformat()[19:] for reading in readings)
        where = f"in {zone.key}" if isinstance(zone, ZoneInfo) and zone.key else "here"
        raise CommentError(f"the local time {self} {happens} {where} (daylight saving): add an offset, {offsets}")

    def __str__(self) -> str:
        if self.since == "submit":
            minutes, seconds = divmod(self.at_s, 60)
            hours, minutes = divmod(minutes, 60)
            days, hours = divmod(hours, 24)
            counts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
            return "+" + "".join(f"{count}{unit}" for count, unit in counts if count)
        return (_EPOCH + timedelta(seconds=self.at_s)).isoformat() + ("Z" if self.since == "epoch" else "")


_LATER = re.compile(r"\+(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")


_DATE = re.compile(
    r"(2[01][0-9]{2})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?"
    r"(?:(?P<utc>Z)|(?P<sign>[+-])(?P<east_h>0[0-9]|1[0-4]):(?P<east_m>[0-5][0-9]))?"
)


def read_time(text: str) -> Deadline | None:
    """Return the time that *text* says; None where it says none."""
    if later := _LATER.fullmatch(text):
        days, hours, minutes, seconds = (int(count or 0) for count in later.groups())
        after_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return Deadline(after_s) if 1 <= after_s <= _TEN_YEARS_S else None
    date = _DATE.fullmatch(text)
    if not date:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in date.groups()[:6])
    try:
        wall_s = (datetime(year, month, day, hour, minute, second) - _EPOCH) // timedelta(seconds=1)
    except ValueError:
        return None
    if date["sign"]:
        east_s = (int(date["east_h"]) * 60 + int(date["east_m"])) * 60
        return Deadline(wall_s - east_s if date["sign"] == "+" else wall_s + east_s, "epoch")
    return Deadline(wall_s, "epoch" if date["utc"] else "local")


TIME = "a time: 2026-12-01T18:00[:SS], with Z or an offset such as +01:00 if not local, or +6h, +90m, +1d12h"
