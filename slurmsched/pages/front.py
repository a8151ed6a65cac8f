"""A chart of choices by two measures that should both be small, with the front of those that no other one beats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .scales import Axis, Scale
from .svg import WIDTH, circle, foot, frame, grid_y, names, text

_LETTER = 7.0  #: pixels of one, at most


@dataclass(frozen=True)
class Choice:
    """A point with its two measures."""

    name: str
    across: float
    up: float
    kind: str = ""  #: a class of the style; empty: by whether it is on the front
    address: str = ""  #: where a click leads


def front_of(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices that no other one beats in one measure without being worse in the other, by *across*."""
    known = [one for one in choices if math.isfinite(one.across) and math.isfinite(one.up)]
    kept: list[Choice] = []
    for one in sorted(known, key=lambda each: (each.across, each.up)):
        if not kept or one.up < kept[-1].up:
            kept.append(one)
    return kept


def nearest(front: Sequence[Choice], weight: float) -> Choice:
    """Return the best choice of a *front* where *weight*, 0..1, counts for *across*, and the rest for *up*."""

    def size(values: Sequence[float]) -> float:
        return (max(values) - min(values)) or 1.0

    across, up = ([getattr(one, name) for one in front] for name in ("across", "up"))
    return min(
        front,
        key=lambda one: (
            weight * (one.across - min(across)) / size(across) + (1 - weight) * (one.up - min(up)) / size(up)
        ),
    )


def front_chart(choices: Sequence[Choice], chosen: str, title: str, across: Axis, up: Axis) -> Markup:
    """Draw the choices, the front as a line, and the one that is *chosen* with a mark of its own.

    A choice with a kind of its own is no part of the front.
    """
    left, right, bottom, top = 84.0, 690.0, 300.0, 16.0
    x_scale = across.fit([one.across for one in choices], left, right)
    y_scale = up.fit([one.up for one in choices], bottom, top)
    drawn = [grid_y(y_scale, left, up.told, right), *foot(x_scale, bottom, across.told)]
    front = front_of([one for one in choices if not one.kind])
    way = " ".join(f"{x_scale.place(one.across)},{y_scale.place(one.up)}" for one in front)
    drawn.append(Markup('<polyline class="line used" points="{}"/>').format(way))
    known = [one for one in choices if math.isfinite(one.across) and math.isfinite(one.up)]
    for (x, y), here in _by_place(known, x_scale, y_scale).items():
        told = f"{', '.join(one.name for one in here)}: {across.told(here[0].across)}, {up.told(here[0].up)}"
        drawn += _point(x, y, here, _kind(here, front, chosen), told)
    return frame(bottom + 52, title, [*drawn, *names(left, right, bottom, across.name, up.name)])


def _by_place(choices: Sequence[Choice], across: Scale, up: Scale) -> dict[tuple[float, float], list[Choice]]:
    at: dict[tuple[float, float], list[Choice]] = {}
    for one in choices:
        at.setdefault((across.place(one.across), up.place(one.up)), []).append(one)
    return at


def _kind(here: Sequence[Choice], front: Sequence[Choice], chosen: str) -> str:
    if any(one.name == chosen for one in here):
        return "chosen"
    return here[0].kind or ("front" if any(one in front for one in here) else "behind")


def _point(x: float, y: float, here: Sequence[Choice], kind: str, told: str) -> Iterator[Markup]:
    words = ", ".join(one.name for one in here)
    dot = circle(x, y, kind, told)
    address = here[0].address
    yield Markup('<a href="{}">{}</a>').format(address, dot) if address else dot
    fits = x + 9 + _LETTER * len(words) < WIDTH
    beside, anchor = (x + 9, "start") if fits else (x - 9, "end")
    yield text(beside, y - 7, words, anchor, "" if kind == "behind" else "name")
