"""A Pareto front as one self-contained HTML file: hover for figures, choose a point for its setting."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from ...simulator.report.page import _data, _digest, _plotly_js, _text
from ...simulator.report.time_labels import span
from .objectives import Objective
from .search import Front, Point
from .space import setting_line

_SAID = {
    "jct": "JCT (hours)",
    "error": "error of the predicted JCT (%)",
    "unfairness": "JCT beyond a fair one (%)",
}
_SCALE = {"jct": 1 / 3600, "error": 100.0, "unfairness": 100.0}
_MEASURE = {"avg": "mean", "p90": "90th percentile of", "p99": "99th percentile of"}


def shown(objective: Objective, value: float) -> str:
    """Format *value* of *objective* for people."""
    if not math.isfinite(value):
        return "-"
    return span(value) if objective.metric == "jct" else f"{100 * value:.3g} %"


def name_of(point: Point) -> str:
    """Name a point by its parameters, or an extreme by its name."""
    setting = point.setting
    if setting is None:
        return point.name
    classes = len(setting.wfq.weights)
    return (
        f"T {setting.variation:.3g}, W {setting.slope:.3g}, zeta {setting.wfq.zeta:.3g}, delta {setting.wfq.delta:.3g}"
        f" ({classes} {'class' if classes == 1 else 'classes'})"
    )


def line_of(point: Point) -> str:
    """Return the whole setting of a point; for an extreme, a note that it has none."""
    return setting_line(point.setting.wfq) if point.setting else f"{point.name} is shown to compare with."


def page(front: Front, title: str, notes: Sequence[str]) -> str:
    """Build the page of *front*, with *notes* on its search. ConfigError where Plotly is missing."""
    plotly_js, ours = _plotly_js(), _data("pareto.js")
    every = (*front.points, *front.extremes)
    figures = {
        "objectives": [
            {"name": one.name, "said": f"{_MEASURE[one.measure]} {_SAID[one.metric]}"} for one in front.objectives
        ],
        "points": [_figures(front, point) for point in every],
    }
    parts = {
        "policy": " ".join(f"'{_digest(script)}'" for script in (plotly_js, ours)),
        "title": _text(title),
        "style": _data("page.css"),
        "lead": f"{len(front.points)} Pareto-optimal settings, from {front.simulations:,} simulations.",
        "notes": "".join(f"<li>{_text(note)}</li>" for note in notes),
        "axes": "".join(f"<option value={at}>{one.name}</option>" for at, one in enumerate(front.objectives)),
        "table": _table(front, every),
        "figures": json.dumps(figures, allow_nan=False).replace("<", "\\u003c"),
        "plotly": plotly_js,
        "script": ours,
    }
    # One pass, so that an inserted text is never mistaken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _data("pareto.html"))


def _figures(front: Front, point: Point) -> dict[str, object]:
    sides = {"train": point.train, "test": point.test}
    figures: dict[str, object] = {
        "name": name_of(point),
        "line": line_of(point),
        "extreme": point.setting is None,
        "holds": point.holds,
    }
    for side, values in sides.items():
        pairs = list(zip(front.objectives, values, strict=True))
        figures[side] = [_SCALE[one.metric] * value if math.isfinite(value) else None for one, value in pairs]
        figures[f"{side}_said"] = [shown(one, value) for one, value in pairs]
    return figures


def _table(front: Front, every: Sequence[Point]) -> str:
    names = [f"{one.name} {side}" for side in ("held out", "searched") for one in front.objectives]
    heads = "".join(f"<th scope=col class=number>{name}</th>" for name in names)
    lines = []
    for at, point in enumerate(every):
        cells = "".join(
            f"<td class=number>{shown(one, value)}</td>"
            for values in (point.test, point.train)
            for one, value in zip(front.objectives, values, strict=True)
        )
        mark = " <small>to compare with</small>" if point.setting is None else ""
        lines.append(f"<tr data-point={at}><th scope=row>{_text(name_of(point))}{mark}</th>{cells}</tr>")
    return f"<table><thead><tr><th scope=col>setting</th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
