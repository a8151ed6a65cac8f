"""``python -m tests.bench.composition_figures [--write docs/img]``: JCT and response by load and by bound, as SVG."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slurmsched.simulator.case import Case
from slurmsched.simulator.report.metrics import Summary
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source

from .composition import BEAT_S, DATA, FLEET
from .growth import apart, text
from .pcs_figures import HEIGHT, RIGHT, TOP, WIDTH, Axes

RATES = tuple(range(1, 10))  #: jobs per hour
ORDERINGS = ("fifo", "srtf", "las")
LOADS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0)
TRACES = {"1,000 follow": "blox_8jph", "8,000 follow": "blox_8jph_long", "spikes": "blox_8jph_spikes"}
MEASURED = {"blox_8jph_spikes": "2500:3500"}
COLOURS = ("#777777", "#1b6ca8", "#c8553d")
HOUR_S = 3600.0

Curve = Sequence[tuple[float, Summary]]


def by_rate() -> dict[str, Curve]:
    """Each ordering on the jobs of one trace that arrive 1 to 9 an hour."""
    return {name: [(rate, _run("blox_8jph", name, rate / 8)) for rate in RATES] for name in ORDERINGS}


def by_bound() -> dict[str, Curve]:
    """LAS under each bound on the load."""
    return {label: [(load, _run(name, "las", 1.0, load)) for load in LOADS] for label, name in TRACES.items()}


def _run(name: str, ordering: str, rate: float, load: float | None = None) -> Summary:
    case = Case(Source.of(str(DATA / f"{name}.csv"), FLEET.total), load=rate, measure=MEASURED.get(name, "3000:4000"))
    parts = {} if load is None else {"admission": load}
    ((_, run),) = sweep([Cell(case, Setup.of(ordering, placement="pool", beat_s=BEAT_S, **parts))], FLEET)
    return run.summary


def pictures() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each picture, and print its figures."""
    for curves, by, across in ((by_rate(), "load", "jobs per hour"), (by_bound(), "bound", "bound on the load")):
        for what, up in (("jct_s", "mean JCT (hours)"), ("response_s", "mean time to the first start (hours)")):
            points = {name: [(x, getattr(one, what).mean / HOUR_S) for x, one in line] for name, line in curves.items()}
            print(f"{up} by {across}")
            for name, line in points.items():
                print(f"  {name:<14}", *(f"{x:g}: {y:.2f}" for x, y in line))
            yield f"composition-{what.removesuffix('_s')}-by-{by}.svg", drawn(f"{up} by {across}", across, up, points)


def drawn(title: str, across: str, up: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw a line with its name for each of *curves*."""
    most_x = max(x for line in curves.values() for x, _ in line)
    most_y = max(y for line in curves.values() for _, y in line)
    axes = Axes(title, across, up, 10.0 if most_x > 5 else 3.0, float(-(-most_y // 10) * 10))
    ends = apart([axes.y(line[-1][1]) for line in curves.values()], 15)
    lines = []
    for (name, line), colour, end in zip(curves.items(), COLOURS, ends, strict=False):
        path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in line)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(text(WIDTH - RIGHT + 8, min(max(end, TOP), HEIGHT) + 4, name, "start", colour=colour))
    return axes.drawn(lines)


def main() -> None:
    """Print every point and, with --write, draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the SVG files")
    folder = parser.parse_args().write
    for name, picture in pictures():
        if folder is not None:
            (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
