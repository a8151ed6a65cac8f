"""Charts as SVG: bars, intervals and curves whose colours are those of the page's style.

All texts are escaped. A chart is as wide as its page; it has a title for screen readers, and the page has its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from .formats import amount, duration
from .scales import Scale, linear, times

WIDTH = 760.0
LABELS = 170.0  #: of the names beside rows
_LETTERS = 26  #: of a name that fit there
_ROW = 26.0
_TICK = 44.0  #: room of the name of a tick


@dataclass(frozen=True)
class Series:
    """Values with a name and a colour: *kind* is a class of the style, such as ``used``."""

    name: str
    kind: str
    values: Sequence[float]


@dataclass(frozen=True)
class Interval:
    """A row of a chart of intervals: from *low* over *value* to *high*, with a hollow mark where *other* is known."""

    name: str
    low: float
    value: float
    high: float
    other: float = math.nan
    kind: str = "used"


def stacked(labels: Sequence[str], parts: Sequence[Series], title: str, *, line: Series | None = None) -> Markup:
    """Draw a bar for each label, of *parts* one on the other, and a *line* above them where it is known."""
    left, bottom, height = 60.0, 250.0, 304.0
    tops = [sum(part.values[row] for part in parts) for row in range(len(labels))]
    scale = linear([*tops, *(line.values if line else ())], bottom, 14.0)
    step = (WIDTH - left - 10) / max(len(labels), 1)
    drawn = [grid_y(scale, left, amount)]
    for row, label in enumerate(labels):
        base, x = 0.0, left + row * step
        for part in parts:
            top = base + part.values[row]
            y, y0 = scale.place(top), scale.place(base)
            base = top
            if y0 - y > 0.05:
                told = f"{label}: {amount(part.values[row])} {part.name}"
                drawn.append(rect(x + step * 0.12, y, step * 0.76, y0 - y, part.kind, told))
        if row % _every(len(labels)) == 0:
            drawn.append(text(x + step / 2, bottom + 18, label, "middle"))
    if line is not None:
        drawn += _steps(line, left, step, scale)
    return frame(height, title, [*drawn, _legend([*parts, *([line] if line else [])], left, height - 10)])


def intervals(rows: Sequence[Interval], title: str, *, wide: str, other: str = "", signed: bool = False) -> Markup:
    """Draw a row for each interval; *wide* says what it spans, *other* what the hollow marks are.

    Lengths of time: on a logarithmic axis, or *signed* on a linear one with 0.
    """
    values = [value for row in rows for value in (row.low, row.value, row.high, row.other)]
    right, bottom = WIDTH - 24, 24 + _ROW * len(rows)
    scale = linear(values, LABELS, right, timed=True) if signed else times(values, LABELS, right)
    drawn = [grid_x(scale, bottom, duration)]
    for number, row in enumerate(rows):
        y = 24 + _ROW * (number + 0.5)
        drawn.append(text(LABELS - 8, y + 4, cut(row.name), "end"))
        if math.isfinite(row.low) and math.isfinite(row.high):
            low, high = scale.place(row.low), scale.place(row.high)
            told = f"{row.name}: {duration(row.low)} to {duration(row.high)}"
            drawn.append(rect(low, y - 5, max(high - low, 1.5), 10, f"{row.kind} band", told))
        if math.isfinite(row.value):
            told = f"{row.name}: {duration(row.value)}"
            drawn.append(rect(scale.place(row.value) - 2, y - 9, 4, 18, row.kind, told))
        if math.isfinite(row.other):
            drawn.append(circle(scale.place(row.other), y, "hollow", f"{row.name}, {other}: {duration(row.other)}"))
    height = bottom + 40
    kinds = [("used band", wide), ("used", "median")] + ([("hollow", other)] if other else [])
    if signed:
        kinds = [("better", "sooner, mean"), ("worse", "later, mean"), ("unmeasured", wide)]
    return frame(height, title, [*drawn, marks(kinds, LABELS, height - 8)])


def curves(lines: Sequence[tuple[Series, Sequence[float]]], title: str, *, x_name: str, y_name: str) -> Markup:
    """Draw shares of one over shares of one, with the diagonal on which they should lie."""
    left, right, bottom, top = 84.0, 450.0, 330.0, 16.0
    across = Scale(0, 1, left, right, ticks=tuple(tenth / 10 for tenth in range(0, 11, 2)))
    up = Scale(0, 1, bottom, top, ticks=across.ticks)
    drawn = [grid_y(up, left, _tenths, right), *foot(across, bottom, _tenths), _diagonal(across, up)]
    for line, xs in lines:
        drawn += _curve(line, xs, across, up, _tenths)
    drawn += [*names(left, right, bottom, x_name, y_name), _side_legend([line for line, _ in lines])]
    return frame(bottom + 52, title, drawn)


def spans(lines: Sequence[tuple[Series, Sequence[float]]], title: str, *, x_name: str, y_name: str) -> Markup:
    """Draw lengths of time over lengths of time, on logarithmic axes, with the diagonal on which they should lie."""
    left, right, bottom, top = 84.0, 450.0, 330.0, 16.0
    every = [value for line, xs in lines for value in (*line.values, *xs)]
    across, up = times(every, left, right), times(every, bottom, top)
    drawn = [grid_y(up, left, duration, right), *foot(across, bottom, duration), _diagonal(across, up)]
    for line, xs in lines:
        drawn += _curve(line, xs, across, up, duration)
    drawn += [*names(left, right, bottom, x_name, y_name), _side_legend([line for line, _ in lines])]
    return frame(bottom + 52, title, drawn)


def _curve(
    line: Series, xs: Sequence[float], across: Scale, up: Scale, told: Callable[[float], str]
) -> Iterable[Markup]:
    points = [
        (across.place(x), up.place(y), x, y)
        for x, y in zip(xs, line.values, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]
    if len(points) > 1:
        way = " ".join(f"{x},{y}" for x, y, _, _ in points)
        yield Markup('<polyline class="line {}" points="{}"/>').format(line.kind, way)
    for x, y, x_value, y_value in points:
        yield circle(x, y, line.kind, f"{line.name}: {told(y_value)} at {told(x_value)}")


def _diagonal(across: Scale, up: Scale) -> Markup:
    return Markup('<line class="diagonal" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        across.start, up.start, across.end, up.end
    )


def _steps(line: Series, left: float, step: float, scale: Scale) -> Iterable[Markup]:
    for row, value in enumerate(line.values):
        if math.isfinite(value):
            x, y = left + row * step, scale.place(value)
            yield Markup(
                '<line class="line {}" x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}"><title>{}</title></line>'
            ).format(line.kind, x, y, x + step, y, f"{line.name}: {amount(value)}")


def grid_y(scale: Scale, left: float, told: Callable[[float], str], right: float = WIDTH - 10) -> Markup:
    """Draw the lines and the names of an axis on the left."""
    lines = []
    for tick in scale.ticks:
        y = scale.place(tick)
        lines.append(Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(left, y, right, y))
        lines.append(text(left - 8, y + 4, told(tick), "end"))
    return Markup("").join(lines)


def grid_x(scale: Scale, bottom: float, told: Callable[[float], str]) -> Markup:
    """Draw the lines of an axis at the top, down to *bottom*, and their names; that of 0 is stronger."""
    kinds = {tick: "zero" if tick == 0 else "grid" for tick in scale.ticks}
    lines = [upright(kind, scale.place(tick), 20.0, bottom) for tick, kind in kinds.items()]
    return Markup("").join([*lines, *foot(scale, -5.0, told)])


def upright(kind: str, x: float, top: float, bottom: float, told: str = "") -> Markup:
    """Draw a line from *top* to *bottom*; *told* is what a pointer on it shows."""
    title = Markup("<title>{}</title>").format(told) if told else ""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}">{}</line>').format(kind, x, top, x, bottom, title)


def foot(across: Scale, bottom: float, told: Callable[[float], str]) -> Iterable[Markup]:
    """Yield the names of ticks below an axis."""
    last = -math.inf
    for tick in across.ticks:
        if (x := across.place(tick)) >= last + _TICK:
            last = x
            yield text(x, bottom + 18, told(tick), "middle")


def names(left: float, right: float, bottom: float, x_name: str, y_name: str) -> tuple[Markup, Markup]:
    """Draw the names of both axes."""
    beside = Markup('<text class="name" transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>')
    return text((left + right) / 2, bottom + 40, x_name, "middle", "name"), beside.format(bottom / 2, y_name)


def _side_legend(lines: Sequence[Series]) -> Markup:
    return Markup("").join(
        circle(490, 40 + 24 * number, line.kind, "") + text(504, 44 + 24 * number, line.name, "start")
        for number, line in enumerate(lines)
    )


def _legend(parts: Sequence[Series], x: float, y: float) -> Markup:
    return marks([(part.kind, part.name) for part in parts], x, y)


def marks(kinds: Sequence[tuple[str, str]], x: float, y: float) -> Markup:
    """Draw a legend: kinds, each with its name."""
    drawn = []
    for kind, name in kinds:
        drawn.append(circle(x + 6, y - 4, kind, "") if kind == "hollow" else rect(x, y - 10, 12, 12, kind, ""))
        drawn.append(text(x + 18, y, name, "start"))
        x += 40 + 6.8 * len(name)
    return Markup("").join(drawn)


def frame(height: float, title: str, drawn: Iterable[Markup]) -> Markup:
    """Return the chart of what is *drawn*, as wide as its page."""
    svg = Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}"><title>{}</title>{}</svg>')
    return svg.format(WIDTH, height, title, title, Markup("").join(drawn))


def rect(x: float, y: float, width: float, height: float, kind: str, told: str) -> Markup:
    """Draw a bar; *told* is what a pointer on it shows."""
    title = Markup("<title>{}</title>").format(told) if told else ""
    shape = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>')
    return shape.format(kind, x, y, width, height, title)


def circle(x: float, y: float, kind: str, told: str) -> Markup:
    """Draw a dot; *told* is what a pointer on it shows."""
    title = Markup("<title>{}</title>").format(told) if told else ""
    return Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4.5">{}</circle>').format(kind, x, y, title)


def text(x: float, y: float, words: str, anchor: str, kind: str = "") -> Markup:
    """Draw *words* at a place."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, escape(words)
    )


def _every(labels: int) -> int:
    return max(1, math.ceil(labels / 9))


def cut(name: str) -> str:
    """Return a name as far as it fits beside a row."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _tenths(share: float) -> str:
    return f"{100 * share:.0f} %"
