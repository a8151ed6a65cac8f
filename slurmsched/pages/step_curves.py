"""Charts of several curves of steps, such as one for each policy, and of ratios as bars that begin at 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .scales import Axis, Scale, ratios
from .svg import LABELS, WIDTH, circle, cut, foot, frame, grid_x, grid_y, names, rect, text, upright

COLOURS = 9  #: of curves; the next ones have them again, dotted
_POINTERS = 40  #: places of a curve that tell their values to a pointer
_ROW = 24.0


@dataclass(frozen=True)
class Curve:
    """A curve that keeps each value until the next one. NaN is left out."""

    name: str
    kind: str  #: classes of the style
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True)
class RatioBar:
    """A row of a chart of ratios."""

    name: str
    ratio: float
    told: str  #: what a pointer on it shows


def kind_of(number: int) -> str:
    """Return the classes of the curve with this number, from 0: its colour, and its own."""
    return f"c{number % COLOURS}{' again' if number >= COLOURS else ''} p{number}"


def step_curves(curves: Sequence[Curve], title: str, across: Axis, up: Axis, *,
                told: Callable[[float, float], str], mark: float = math.nan) -> Markup:  # fmt: skip
    """Draw the curves on common axes, the last one on top; *told* says a point; *mark* has a line."""
    left, right, bottom, top = 84.0, WIDTH - 24.0, 300.0, 16.0
    x_scale = across.fit([x for one in curves for x in one.xs], left, right)
    y_scale = up.fit([y for one in curves for y in one.ys], bottom, top)
    drawn = [grid_y(y_scale, left, up.told, right), *foot(x_scale, bottom, across.told)]
    for tick in x_scale.ticks:
        drawn.append(upright("grid", x_scale.place(tick), top, bottom))
    if math.isfinite(mark):
        drawn.append(upright("diagonal", x_scale.place(mark), top, bottom))
    drawn += [_steps(one, x_scale, y_scale) for one in curves]
    for one in curves:
        drawn += _pointers(one, x_scale, y_scale, told)
    return frame(bottom + 52, title, [*drawn, *names(left, right, bottom, across.name, up.name)])


def ratio_bars(rows: Sequence[RatioBar], title: str, tick_words: Callable[[float], str],
               told: Callable[[float], str]) -> Markup:  # fmt: skip
    """Draw a bar from 1 to each ratio on a logarithmic axis: above 1 is worse."""
    left, bottom = LABELS, 24.0 + _ROW * len(rows)
    scale = ratios([row.ratio for row in rows], left, WIDTH - 24.0)
    drawn = [grid_x(scale, bottom, tick_words), upright("zero", scale.place(1.0), 20.0, bottom)]
    for number, row in enumerate(rows):
        y, at, one = 24.0 + _ROW * number, scale.place(row.ratio), scale.place(1.0)
        worse = row.ratio > 1.0
        bar = rect(min(at, one), y + 4, max(abs(at - one), 1.0), _ROW - 8, "worse" if worse else "better", row.told)
        drawn += [text(left - 8, y + 16, cut(row.name), "end"), bar]
        drawn.append(text(at + (6 if worse else -6), y + 16, told(row.ratio), "start" if worse else "end", "name"))
    return frame(bottom + 12, title, drawn)


def _known(curve: Curve) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(curve.xs, curve.ys, strict=True) if math.isfinite(x) and math.isfinite(y)]


def _steps(curve: Curve, across: Scale, up: Scale) -> Markup:
    places = [(across.place(x), up.place(y)) for x, y in _known(curve)]
    way = "".join(f"H{x:g}V{y:g}" for x, y in places[1:])
    start = f"M{places[0][0]:g} {places[0][1]:g}{way}" if places else ""
    return Markup('<path class="curve {}" d="{}"><title>{}</title></path>').format(curve.kind, start, curve.name)


def _pointers(curve: Curve, across: Scale, up: Scale, told: Callable[[float, float], str]) -> Iterator[Markup]:
    known = _known(curve)
    for x, y in known[:: max(1, math.ceil(len(known) / _POINTERS))]:
        yield circle(across.place(x), up.place(y), f"pointer {curve.kind}", f"{curve.name}: {told(x, y)}")
