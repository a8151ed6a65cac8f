"""A chart of choices by two measures that should both be small, with the front of those that no other one beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from .scales import Axis, Scale
from .svg import WIDTH, circle, foot, frame, grid_y, names, text

_LETTER, _TALL = 7.0, 14.0  #: pixels of a letter, at most
_DOT = 6.0  #: of the radius of a point, with what keeps names away from it


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
    places = _by_place(known, x_scale, y_scale)
    taken = [_Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places]
    for (x, y), here in places.items():
        words, kind = ", ".join(one.name for one in here), _kind(here, front, chosen)
        told = f"{words}: {across.told(here[0].across)}, {up.told(here[0].up)}"
        name = _room_for(words, x, y, taken)
        taken.append(name)
        dot = circle(x, y, kind, told)
        drawn.append(Markup('<a href="{}">{}</a>').format(here[0].address, dot) if here[0].address else dot)
        drawn.append(text(name.left, name.bottom - 3, words, "start", "" if kind == "behind" else "name"))
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


class _Box(NamedTuple):
    """A part of a drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def _room_for(words: str, x: float, y: float, taken: Sequence[_Box]) -> _Box:
    """Return where a name stands beside its point: right or left, above or below, where most is free."""
    wide = _LETTER * len(words)
    places = [
        _Box(left, top, left + wide, top + _TALL)
        for left in (x + 9, x - 9 - wide)
        for top in (y - _TALL - 4, y + 2)
        if left >= 0 and left + wide <= WIDTH
    ]
    return min(places, key=lambda one: sum(map(one.meets, taken)), default=_Box(x + 9, y - _TALL - 4, x + 9, y - 4))
