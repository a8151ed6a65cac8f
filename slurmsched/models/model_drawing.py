"""Drawings of models as SVG: the scores of a table along its feature, and of pairs of features."""

from __future__ import annotations

import html

import numpy as np
from markupsafe import Markup

from ..cluster.columns import FloatArray
from .ebm.additive import Additive, AdditiveTerm
from .ebm.bins import Continuous, Feature, Nominal
from .runtime.model_inputs import LOGARITHMS

WIDTH, HEIGHT = 520, 200
LEFT, BOTTOM, TOP = 48, 24, 8
BARS = 20  #: categories shown at most, those of most rows
_STEP = 18  # pixels of a bar
_LETTER = 6  # pixels of a letter


def shape(model: Additive, term: AdditiveTerm) -> Markup:
    """Draw the scores of *term*, before the link: steps for a number, bars for a text, shades for a pair."""
    features = {feature.name: feature for feature in model.features}
    first = features[term.features[0]]
    if len(term.features) == 2:
        return _shades(term.scores)
    return _steps(first, term.scores) if isinstance(first, Continuous) else _bars(first, term)


def bars(rows: list[tuple[str, float]]) -> Markup:
    """Draw a bar for each name and value, to the left of zero where it is negative."""
    most = max((abs(value) for _, value in rows), default=0.0) or 1.0
    zero, widest = 0.68 * WIDTH, 0.30 * WIDTH
    names_end = zero - 6 - (widest if any(value < 0 for _, value in rows) else 0.0)
    longest = int(names_end / _LETTER)
    parts = []
    for place, (name, value) in enumerate(rows):
        y, long = place * _STEP, abs(value) / most * widest
        x = zero - long if value < 0 else zero
        parts.append(
            f'<text x="{names_end:.1f}" y="{y + 13}" text-anchor="end">{_text(_short(name, longest))}</text>'
            f'<rect class="{"better" if value < 0 else "worse"}" x="{x:.1f}" y="{y + 3}" width="{long:.1f}" '
            f'height="12">'
            f"<title>{_text(name)}: {value:.3g}</title></rect>"
        )
    return _svg("".join(parts), max(1, len(rows)) * _STEP + 4)


def line(values: FloatArray, promised: float) -> Markup:
    """Draw shares over time, with the *promised* share as a line."""
    if not len(values):
        return Markup("")
    x = LEFT + (WIDTH - LEFT - 8) * np.arange(len(values)) / max(1, len(values) - 1)
    places = [(at, _up(value, 0.0, 1.0)) for at, value in zip(x.tolist(), values.tolist(), strict=True)]
    points = " ".join(f"{at:.1f},{up:.1f}" for at, up in places)
    dots = "".join(
        f'<circle class="used" cx="{at:.1f}" cy="{up:.1f}" r="2.5"/>' for at, up in places
    )  # a line of one point is invisible
    goal = _up(promised, 0.0, 1.0)
    return _svg(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{goal:.1f}" y2="{goal:.1f}"/>'
        f'<text x="{LEFT - 4}" y="{goal + 4:.1f}" text-anchor="end">{promised:.0%}</text>'
        f'<polyline class="line used" points="{points}"/>{dots}',
        HEIGHT,
    )


def _steps(feature: Continuous, scores: FloatArray) -> Markup:
    """Draw bins in equal widths, because most cuts lie where most rows are."""
    inner = scores[1:-1]
    low, high = float(min(inner.min(), 0.0)), float(max(inner.max(), 0.0))
    x = LEFT + (WIDTH - LEFT - 8) * np.arange(len(inner) + 1) / len(inner)
    points = []
    for at, score in enumerate(inner.tolist()):
        y = _up(score, low, high)
        points += [f"{x[at]:.1f},{y:.1f}", f"{x[at + 1]:.1f},{y:.1f}"]
    zero = _up(0.0, low, high)
    ticks = ""
    if len(feature.cuts):
        for at in sorted({0, len(feature.cuts) // 2, len(feature.cuts) - 1}):
            ticks += f'<text x="{x[at + 1]:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{_tick(feature, at)}</text>'
    axis = "".join(
        f'<text x="{LEFT - 4}" y="{_up(value, low, high) + 4:.1f}" text-anchor="end">{value:.2g}</text>'
        for value in sorted({low, high})
    )
    return _svg(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
        f'<polyline class="line used" points="{" ".join(points)}"/>{ticks}{axis}',
        HEIGHT,
    )


def _tick(feature: Continuous, at: int) -> str:
    value = float(feature.cuts[at])
    return f"{np.exp(value):.3g} s" if feature.name in LOGARITHMS else f"{value:.4g}"


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def _bars(feature: Feature, term: AdditiveTerm) -> Markup:
    assert isinstance(feature, Nominal)
    weights = term.weights[1:-1]
    most = np.argsort(-weights, kind="stable")[:BARS].tolist()
    return bars([(feature.categories[place], float(term.scores[place + 1])) for place in most])


def _shades(scores: FloatArray) -> Markup:
    inner = scores[1:-1, 1:-1]
    most = float(np.abs(inner).max()) or 1.0
    wide, tall = WIDTH / inner.shape[0], HEIGHT / inner.shape[1]
    cells = "".join(
        f'<rect class="{"better" if value < 0 else "worse"}" x="{column * wide:.2f}" '
        f'y="{HEIGHT - (row + 1) * tall:.2f}" width="{wide:.2f}" height="{tall:.2f}" '
        f'fill-opacity="{abs(value) / most:.2f}"/>'
        for column, values in enumerate(inner.tolist())
        for row, value in enumerate(values)
    )
    return _svg(cells, HEIGHT)


def _up(value: float, low: float, high: float) -> float:
    """Return the distance from the top in pixels."""
    share = (value - low) / (high - low) if high > low else 0.5
    return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)


def _svg(inside: str, height: float) -> Markup:
    drawn = f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{inside}</svg>'
    return Markup(drawn)  # noqa: S704 - all texts in it are escaped


def _text(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())
