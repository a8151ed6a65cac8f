"""A chart of choices by two measures that should both be small, with the front of those that no other one beats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .formats import duration
from .scales import Scale, linear
from .svg import circle, foot, frame, grid_y, names, text


@dataclass(frozen=True)
class Choice:
    """A point: both measures in seconds."""

    name: str
    across_s: float
    up_s: float


def front_of(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices that no other one beats in one measure without being worse in the other, by *across_s*."""
    known = [one for one in choices if math.isfinite(one.across_s) and math.isfinite(one.up_s)]
    kept: list[Choice] = []
    for one in sorted(known, key=lambda each: (each.across_s, each.up_s)):
        if not kept or one.up_s < kept[-1].up_s:
            kept.append(one)
    return kept


def nearest(front: Sequence[Choice], weight: float) -> Choice:
    """Return the best choice of a *front* where *weight*, 0..1, counts for *across_s*, and the rest for *up_s*."""

    def size(values: Sequence[float]) -> float:
        return (max(values) - min(values)) or 1.0

    across, up = ([getattr(one, name) for one in front] for name in ("across_s", "up_s"))
    return min(
        front,
        key=lambda one: (
            weight * (one.across_s - min(across)) / size(across) + (1 - weight) * (one.up_s - min(up)) / size(up)
        ),
    )


def front_chart(choices: Sequence[Choice], chosen: str, title: str, across_name: str, up_name: str) -> Markup:
    """Draw the choices, the front as a line, and the one that is *chosen* with a mark of its own."""
    left, right, bottom, top = 84.0, 690.0, 300.0, 16.0
    across = linear([one.across_s for one in choices], left, right, timed=True)
    up = linear([one.up_s for one in choices], bottom, top, timed=True)
    drawn = [grid_y(up, left, duration, right), *foot(across, bottom, duration)]
    front = front_of(choices)
    way = " ".join(f"{across.place(one.across_s)},{up.place(one.up_s)}" for one in front)
    drawn.append(Markup('<polyline class="line used" points="{}"/>').format(way))
    drawn += _points(choices, front, chosen, across, up)
    return frame(bottom + 52, title, [*drawn, *names(left, right, bottom, across_name, up_name)])


def _points(
    choices: Sequence[Choice], front: Sequence[Choice], chosen: str, across: Scale, up: Scale
) -> Iterator[Markup]:
    at: dict[tuple[float, float], list[Choice]] = {}
    for one in choices:
        at.setdefault((across.place(one.across_s), up.place(one.up_s)), []).append(one)
    for (x, y), here in at.items():
        words, first = ", ".join(one.name for one in here), here[0]
        best = any(one in front for one in here)
        kind = "chosen" if any(one.name == chosen for one in here) else "front" if best else "behind"
        yield circle(x, y, kind, f"{words}: {duration(first.across_s)}, {duration(first.up_s)}")
        yield text(x + 9, y - 7, words, "start", "name" if best else "")
