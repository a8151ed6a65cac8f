"""The figures of PCS's trade-off as SVG: how errors spread, and mean JCT against mean error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slurmsched.cluster.columns import FloatArray

from .growth import apart, text

COLOURS = {
    "fifo": "#777777",
    "srsf": "#1b6ca8",
    "afs-l": "#c8553d",
    "themis": "#8a5aa8",
    "fair-share": "#b8860b",
    "PCS-jct": "#5aa8c8",
    "PCS-bal": "#2f7f9f",
    "PCS-pred": "#0b4f6f",
    "found, fastest": "#7fc495",
    "found, between": "#3fa060",
    "found, surest": "#1d6b3a",
}
WIDTH, HEIGHT = 600, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 130, 38, 48
STEPS = 100


@dataclass(frozen=True)
class Axes:
    """Both begin at 0."""

    title: str
    across: str
    up: str
    most_x: float
    most_y: float

    def x(self, value: float) -> float:
        """Where it is across the picture."""
        return LEFT + value / self.most_x * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Where it is down the picture."""
        return HEIGHT - BOTTOM - value / self.most_y * (HEIGHT - TOP - BOTTOM)

    def drawn(self, inside: list[str]) -> str:
        """The picture with *inside* between the axes."""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            text(LEFT, 20, self.title, "start", size=14),
            text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, self.across, "middle"),
            text(14, (TOP + HEIGHT - BOTTOM) / 2, self.up, "middle", turned=True),
        ]
        for part in range(6):
            x, y = self.most_x * part / 5, self.most_y * part / 5
            lines += [
                f'<path d="M{self.x(x):.1f} {TOP}V{HEIGHT - BOTTOM}M{LEFT} {self.y(y):.1f}H{WIDTH - RIGHT}"'
                ' stroke="#ddd"/>',
                text(self.x(x), HEIGHT - BOTTOM + 17, f"{x:g}", "middle"),
                text(LEFT - 6, self.y(y) + 4, f"{y:g}", "end"),
            ]
        return "\n".join([*lines, *inside, "</svg>", ""])


def spread(title: str, errors: Mapping[str, FloatArray], most: float) -> str:
    """The share of jobs (per cent) whose error (per cent) is at most so much, for each policy (PCS's figure 4)."""
    axes = Axes(title, "error of the predicted JCT (%)", "jobs (%)", most, 100)
    lines = []
    for row, (name, values) in enumerate(errors.items()):
        at, colour = np.linspace(0, most, STEPS + 1), COLOURS[name]
        share = 100 * np.searchsorted(np.sort(values), at, side="right") / len(values)
        path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in zip(at, share, strict=True))
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(text(WIDTH - RIGHT + 12, TOP + 12 + 17 * row, name, "start", colour=colour))
    return axes.drawn(lines)


def tradeoff(title: str, across: str, spots: Mapping[str, tuple[float, float]], most: tuple[float, float]) -> str:
    """A spot per policy: a JCT across, the mean error up (per cent) (PCS's figures 5 and 7)."""
    axes = Axes(title, across, "mean error of the predicted JCT (%)", *most)
    heights = apart([axes.y(y) for _, y in spots.values()], 13)
    lines = []
    for (name, (x, y)), height in zip(spots.items(), heights, strict=True):
        lines.append(f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="4" fill="{COLOURS[name]}"/>')
        lines.append(text(axes.x(x) + 8, height + 4, name, "start", colour=COLOURS[name]))
    return axes.drawn(lines)
