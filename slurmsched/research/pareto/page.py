"""A Pareto front as one self-contained HTML file: charts of pairs of objectives, whose points lead to settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from markupsafe import Markup

from ...pages.environment import render
from ...pages.formats import duration, percent
from ...pages.front import Choice, front_chart
from ...pages.scales import Axis, linear
from ...simulator.report.time_labels import span
from .objectives import Objective
from .search import Front, Point
from .space import setting_line

_SAID = {"jct": "JCT", "error": "error of the predicted JCT", "unfairness": "JCT beyond a fair one"}
_MEASURE = {"avg": "mean", "p90": "90th percentile of", "p99": "99th percentile of"}
_SIDES = (("held out", "the samples held out"), ("searched", "the samples searched by"))


def shown(objective: Objective, value: float) -> str:
    """Format *value* of *objective* for people."""
    if not math.isfinite(value):
        return "-"
    return span(value) if objective.metric == "jct" else f"{100 * value:.3g} %"


def name_of(point: Point) -> str:
    """Name a point by its classes and caps, or an extreme by its name."""
    setting = point.setting
    if setting is None:
        return point.name
    classes = len(setting.weights)
    return (
        f"{classes} {'class' if classes == 1 else 'classes'}, zeta {setting.zeta:.3g}, delta {setting.delta:.3g},"
        f" overtake {setting.overtake:.3g}"
    )


def line_of(point: Point) -> str:
    """Return the whole setting of a point; for an extreme, a note that it has none."""
    return setting_line(point.setting) if point.setting else f"{point.name} is shown to compare with."


def page(front: Front, title: str, notes: Sequence[str]) -> str:
    """Build the page of *front*, with *notes* on its search."""
    every = (*front.points, *front.extremes)
    named = list(zip(_short_names(front), every, strict=True))
    return render(
        "pareto.html",
        title=title,
        lead=f"{len(front.points)} Pareto-optimal settings, from {front.simulations:,} simulations.",
        notes=notes,
        charts=list(_charts(front, every)),
        columns=["point", "setting", *(f"{one.name} {side}" for side, _ in _SIDES for one in front.objectives)],
        rows=[_row(front, number, *one) for number, one in enumerate(named, 1)],
        points=[
            {"number": number, "short": short, "name": name_of(point), "line": line_of(point),
             "extreme": point.setting is None}
            for number, (short, point) in enumerate(named, 1)
        ],
    )  # fmt: skip


def _short_names(front: Front) -> list[str]:
    return [*map(str, range(1, len(front.points) + 1)), *(point.name for point in front.extremes)]


def _row(front: Front, number: int, short: str, point: Point) -> list[str]:
    beaten = "" if point.holds else " (beaten on the samples held out)"
    note = " (to compare with)" if point.setting is None else beaten
    link = Markup('<a href="#point-{}">{}</a>').format(number, short)
    return [link, f"{name_of(point)}{note}", *_cells(front, point)]


def _cells(front: Front, point: Point) -> list[str]:
    sides = (point.test, point.train)
    return [shown(one, value) for values in sides for one, value in zip(front.objectives, values, strict=True)]


def _charts(front: Front, every: Sequence[Point]) -> Iterator[tuple[str, Any]]:
    """Yield a chart for each pair of objectives, on the samples held out first."""
    short = _short_names(front)
    for at, (_, words) in enumerate(_SIDES):
        for across, up in combinations(range(len(front.objectives)), 2):
            choices = [
                Choice(name, values[across], values[up], _kind(point), f"#point-{number}")
                for number, (name, point) in enumerate(zip(short, every, strict=True), 1)
                for values in [(point.test, point.train)[at]]
            ]
            x, y = _axis(front.objectives[across]), _axis(front.objectives[up])
            title = f"{y.name} over {x.name}, on {words}"
            yield title, front_chart(choices, "", title, x, y)


def _kind(point: Point) -> str:
    if point.setting is None:
        return "extreme"
    return "" if point.holds else "beaten"


def _axis(objective: Objective) -> Axis:
    name = f"{_MEASURE[objective.measure]} {_SAID[objective.metric]}"
    if objective.metric == "jct":
        return Axis(name, duration, partial(linear, timed=True))
    return Axis(name, percent, linear)
