"""A chart of jobs over time: when each starts and is done, with intervals and windows in which nodes are away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .formats import duration
from .scales import Scale
from .svg import LABELS, WIDTH, circle, cut, frame, grid_x, marks, rect, text

_ROW, _TOP = 26.0, 24.0
LEAST_S, MOST_S = 3600.0, 14 * 86_400.0
_STEPS_S = (600, 1800, 3600, 2 * 3600, 4 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400)


@dataclass(frozen=True)
class Course:
    """When a job starts and is done, in seconds from now; NaN where unknown. One that runs has no start."""

    name: str
    start_from_s: float
    start_s: float
    start_by_s: float
    done_s: float
    done_by_s: float
    other_s: float = math.nan  #: its start by somebody else's estimate


@dataclass(frozen=True)
class Window:
    """A span of time in which nodes are kept away, in seconds from now."""

    name: str
    from_s: float
    until_s: float


def timeline(courses: Sequence[Course], windows: Sequence[Window], title: str, *, other: str) -> Markup:
    """Draw a row for each job; *other* says what the hollow marks are."""
    ends = [value for one in courses for value in (one.start_by_s, one.done_s)]
    scale, bottom = time_axis(ends, LABELS), _TOP + _ROW * len(courses)
    drawn = [shade(window, scale, bottom) for window in windows if window.from_s < scale.high]
    drawn.append(grid_x(scale, bottom, from_now))
    for number, course in enumerate(courses):
        drawn += _row(course, scale, _TOP + _ROW * (number + 0.5), other)
    kinds = [("used band", "start, 80 %"), ("used", "start, median"), ("better", "runs until (median)")]
    kinds += [("hollow", other)] if any(map(math.isfinite, (one.other_s for one in courses))) else []
    kinds += [("unmeasured", "maintenance or reservation")] if windows else []
    return frame(bottom + 40, title, [*drawn, marks(kinds, 8.0, bottom + 32)])


def time_axis(ends_s: Sequence[float], left: float) -> Scale:
    """Return an axis from now to the last of *ends_s*, an hour to two weeks long, from *left* to the right edge."""
    most_s = min(max([LEAST_S, *filter(math.isfinite, ends_s)]), MOST_S)
    step_s = next((step for step in _STEPS_S if most_s / step <= 6), _STEPS_S[-1])
    ticks = tuple(float(step_s * number) for number in range(math.ceil(most_s / step_s) + 1))
    return Scale(0.0, ticks[-1], left, WIDTH - 24, ticks=ticks)


def from_now(at_s: float) -> str:
    """Return the name of a tick of that axis."""
    return f"+{duration(at_s)}" if at_s else "now"


def shade(window: Window, scale: Scale, bottom: float) -> Markup:
    """Draw a window behind the rows of a chart."""
    left, right = scale.place(max(window.from_s, 0.0)), scale.place(min(window.until_s, scale.high))
    told = f"{window.name}: from {_when(window.from_s)} until {_when(window.until_s)}"
    return rect(left, 20, max(right - left, 1.0), bottom - 20, "unmeasured band", told)


def _row(one: Course, scale: Scale, y: float, other: str) -> list[Markup]:
    drawn = [text(LABELS - 8, y + 4, cut(one.name), "end")]
    begin_s = one.start_s if math.isfinite(one.start_s) else 0.0
    if math.isfinite(one.done_s):
        left, right = scale.place(begin_s), scale.place(one.done_s)
        drawn.append(rect(left, y - 3, max(right - left, 1.0), 6, "better", f"{one.name}: done {_when(one.done_s)}"))
    if math.isfinite(one.start_from_s) and math.isfinite(one.start_by_s):
        left, right = scale.place(one.start_from_s), scale.place(one.start_by_s)
        told = f"{one.name}: starts between {_when(one.start_from_s)} and {_when(one.start_by_s)}"
        drawn.append(rect(left, y - 6, max(right - left, 1.5), 12, "used band", told))
    if math.isfinite(one.start_s):
        drawn.append(rect(scale.place(one.start_s) - 2, y - 9, 4, 18, "used", f"{one.name}: {_when(one.start_s)}"))
    if math.isfinite(one.other_s):
        drawn.append(circle(scale.place(one.other_s), y, "hollow", f"{one.name}, {other}: {_when(one.other_s)}"))
    return drawn


def _when(at_s: float) -> str:
    return "now" if at_s < 1.0 else f"in {duration(at_s)}"
