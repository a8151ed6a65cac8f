"""How the cost of a replay grows, with charts: ``python -m tests.bench.growth --write docs/img``."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.run import simulate
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload

from .simulator import GPUS, setup_of

POLICIES = ("sjf", "srtf", "slurm")
COLOURS = ("#1b6ca8", "#c8553d", "#2e7d4f")
WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 110, 38, 48


@dataclass(frozen=True)
class Curve:
    """Jobs per second of a policy at each point."""

    name: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Chart:
    """Curves over one quantity, both axes logarithmic."""

    file: str
    title: str
    axis: str
    curves: list[Curve]


def main() -> None:
    """Measure all, print it and, with --write, draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the SVG files")
    folder = parser.parse_args().write
    for chart in (by_jobs(), by_queue(), by_nodes()):
        print(chart.title)
        for curve in chart.curves:
            points = zip(curve.x, curve.y, strict=True)
            print(f"  {curve.name:<10}" + "".join(f"{y:>12,.0f} jobs/s at {x:,.0f}" for x, y in points))
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / chart.file).write_text(drawn(chart), encoding="utf-8")


def by_jobs() -> Chart:
    """More jobs on the same nodes at the same load."""
    sizes, nodes = (10_000, 100_000, 1_000_000), 108
    traces = [synthetic(SyntheticSpec(jobs=size, cluster_gpus=nodes * GPUS, load=0.9)) for size in sizes]
    curves = [Curve(name, list(sizes), [speed(jobs, nodes, name)[0] for jobs in traces]) for name in POLICIES]
    return Chart("growth-jobs.svg", f"Jobs on {nodes} nodes of {GPUS}, load 0.9", "jobs", curves)


def by_queue() -> Chart:
    """As many jobs on the same nodes, coming in bursts of so many at once that others wait."""
    bursts, nodes = (200, 2_000, 20_000), 16
    even = synthetic(SyntheticSpec(jobs=20_000, cluster_gpus=nodes * GPUS))
    traces = [in_bursts(even, burst, nodes * GPUS) for burst in bursts]
    curves = []
    for name in POLICIES:
        points = [speed(jobs, nodes, name) for jobs in traces]
        curves.append(Curve(name, [waiting(replay) for _, replay in points], [per_s for per_s, _ in points]))
    return Chart("growth-queue.svg", f"20,000 jobs in bursts on {nodes} nodes of {GPUS}", "jobs waiting, mean", curves)


def by_nodes() -> Chart:
    """As many jobs at the same load on more nodes."""
    sizes = (10, 100, 1_000)
    traces = [synthetic(SyntheticSpec(jobs=100_000, cluster_gpus=nodes * GPUS, load=0.9)) for nodes in sizes]
    curves = []
    for name in POLICIES:
        speeds = [speed(jobs, nodes, name)[0] for jobs, nodes in zip(traces, sizes, strict=True)]
        curves.append(Curve(name, list(sizes), speeds))
    return Chart("growth-nodes.svg", "100,000 jobs, load 0.9", f"nodes of {GPUS} GPUs", curves)


def in_bursts(jobs: Workload, burst: int, gpus: int) -> Workload:
    """The same jobs, *burst* of them at once, the next when the cluster could be done with those before."""
    work_s = np.cumsum(jobs.gpus * jobs.runtime_s) / gpus
    first = np.arange(len(jobs)) // burst * burst
    return replace(jobs, submit_s=np.where(first > 0, np.floor(work_s[first - 1]), 0.0))


def waiting(replay: Replay) -> float:
    """Jobs waiting, on average over the replay; a preempted job waits too."""
    jobs = replay.workload
    waited_s = replay.end_s - jobs.submit_s - jobs.runtime_s
    return float(waited_s.sum() / (replay.end_s.max() - jobs.submit_s.min()))


def speed(jobs: Workload, nodes: int, words: str) -> tuple[float, Replay]:
    """Jobs replayed per second, compiled by a short replay before: a median of three, of one where a run is long."""
    fleet, setup = ClusterSpec.of(nodes, GPUS), setup_of(words)
    simulate(jobs.take(slice(0, 100)), fleet, setup)
    took: list[float] = []
    while len(took) < 3 and sum(took) < 5:
        began = time.perf_counter()
        replay = simulate(jobs, fleet, setup)
        took.append(time.perf_counter() - began)
    return len(jobs) / statistics.median(took), replay


def drawn(chart: Chart) -> str:
    """The chart as SVG."""
    frame = Frame.around(chart.curves)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 20, chart.title, "start", size=14),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, chart.axis, "middle"),
        text(14, (TOP + HEIGHT - BOTTOM) / 2, "jobs per second", "middle", turned=True),
        *grid(frame),
    ]
    heights = apart([frame.y(curve.y[-1]) for curve in chart.curves], 15)
    for curve, colour, height in zip(chart.curves, COLOURS, heights, strict=True):
        spots = [(frame.x(x), frame.y(y)) for x, y in zip(curve.x, curve.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        lines.append(text(WIDTH - RIGHT + 12, height + 4, curve.name, "start", colour=colour))
    return "\n".join([*lines, "</svg>", ""])


@dataclass(frozen=True)
class Frame:
    """Powers of ten that the axes begin and end at."""

    x_low: int
    x_high: int
    y_low: int
    y_high: int

    @classmethod
    def around(cls, curves: Sequence[Curve]) -> Frame:
        """The smallest frame that holds all curves."""
        xs, ys = [x for curve in curves for x in curve.x], [y for curve in curves for y in curve.y]
        return cls(*(f(math.log10(g(values))) for values in (xs, ys) for f, g in ((math.floor, min), (math.ceil, max))))

    def x(self, value: float) -> float:
        """Where it is across the picture."""
        share = (math.log10(value) - self.x_low) / (self.x_high - self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Where it is down the picture."""
        share = (math.log10(value) - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def grid(frame: Frame) -> Iterator[str]:
    """A line and a figure at each power of ten."""
    for power in range(frame.x_low, frame.x_high + 1):
        at = frame.x(10**power)
        yield f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield text(at, HEIGHT - BOTTOM + 17, f"{10**power:,}", "middle")
    for power in range(frame.y_low, frame.y_high + 1):
        at = frame.y(10**power)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>'
        yield text(LEFT - 6, at + 4, short(10**power), "end")


def short(number: int) -> str:
    """1k, 10k, 1M."""
    for unit, sign in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number // unit}{sign}"
    return str(number)


def apart(heights: Sequence[float], least: float) -> list[float]:
    """The same heights, moved down where two would be nearer than *least*."""
    moved, last = list(heights), -math.inf
    for at in sorted(range(len(heights)), key=lambda spot: heights[spot]):
        moved[at] = last = max(heights[at], last + least)
    return moved


def text(
    x: float, y: float, said: str, anchor: str, *, size: int = 12, colour: str = "#333", turned: bool = False
) -> str:
    """One line of text."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{turn}>{said}</text>'
    )


if __name__ == "__main__":
    main()
