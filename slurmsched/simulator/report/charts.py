"""The charts of a comparison, in the terms of plotly.js: traces and layouts as plain values.

Colours that depend on light or dark, fonts, and times on hover belong to the page (data/page.js).
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.text.plural import count
from ..replay import Replay, restart_costs
from .fairness import rho
from .harm import GroupChange, GroupChanges
from .time_labels import span
from .timeline import Timeline

Figure = dict[str, object]

POINTS = 500  #: most points of a curve
_TAIL = 150  #: points of those spent on the longest jobs, where a curve on a log axis ends
_BINS = 500
_LEAST_S = 1.0  #: a log axis has no zero
_SPANS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 21600: "6 h"} | {
    days * 86400: f"{days} d" for days in (1, 7, 30, 180)
}
_SHORT_NAME = 28
_TICKS = 9
_NARROW = 0.8  #: decades; on a shorter log axis, even steps look even


@dataclass(frozen=True)
class Chart:
    """A chart, with what a reader must know to read it."""

    key: str
    title: str
    description: str
    figure: Figure


def charts(replays: Sequence[Replay], labels: Sequence[str]) -> list[Chart]:
    """Build the charts of *replays* of the same jobs, in reading order; none where there are no jobs."""
    if not any(len(replay.workload) for replay in replays):
        return []
    least = f"Less than {_LEAST_S:g} s is drawn at {_LEAST_S:g} s."
    return [
        _spans("jct", "Job completion time", "From submission to end.", "JCT", replays, labels, _jct_s),
        _spans("queue", "Queueing delay", f"JCT less runtime. {least}", "queueing delay", replays, labels, _queue_s),
        _spans(
            "first",
            "Time to first start",
            f"Submission to first start. {least}",
            "time to first start",
            replays,
            labels,
            _wait_s,
        ),
        _rho(replays, labels),
        *_over_time(replays, labels),
    ]


def change_bars(changes: GroupChanges) -> Figure:
    """Build bars of mean JCT over the baseline's for the worst and the best, from 1 on a log axis."""
    shown: dict[str, GroupChange] = {}
    for change in (*changes.worst, *reversed(changes.best)):
        shown.setdefault(change.name, change)
    rows = list(shown.values())
    logs = [math.log10(max(change.ratio, 1e-9)) for change in rows]
    names = [_plain(c.name if len(c.name) <= _SHORT_NAME else c.name[: _SHORT_NAME - 1] + "…") for c in rows]
    hover = [f"{_plain(c.name)}<br>{count(c.jobs, 'job')}<br>mean JCT {_times(c.ratio)}" for c in rows]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [_short(value) for value in logs],
        "y": list(range(len(rows))),
        "hovertext": hover,
        "hoverinfo": "text",
        "before_s": [_short(c.baseline_jct_s) for c in rows],
        "after_s": [_short(c.jct_s) for c in rows],
        "text": [_times(c.ratio) for c in rows],
        "textposition": "outside",
        "cliponaxis": False,
    }
    widest = max([0.05, *(abs(value) for value in logs)])
    low, high = min([0.0, *logs]) - 0.22 * widest, max([0.0, *logs]) + 0.22 * widest
    ticks = _ratio_ticks(low, high)
    return {
        "data": [bars],
        "layout": {
            "height": 120 + 24 * len(rows),
            "xaxis": {
                "title": {"text": "mean JCT over the baseline's (ratio, log axis)"},
                "tickvals": [math.log10(tick) for tick in ticks],
                "ticktext": [f"×{tick:g}" for tick in ticks],
                "range": [low, high],
            },
            "yaxis": {
                "tickvals": list(range(len(rows))),
                "ticktext": names,
                "autorange": "reversed",
                "showgrid": False,
                "automargin": True,
            },
        },
    }


def smoothed(replay: Replay) -> float:
    """Return the share of GPU time at unknown moments: that of preempted jobs, where runs were not recorded."""
    if replay.segments is not None:
        return 0.0
    gpu_s = replay.workload.runtime_s * replay.workload.gpus
    return float(gpu_s[replay.stops > 0].sum() / gpu_s.sum()) if gpu_s.sum() else 0.0


def _jct_s(replay: Replay) -> FloatArray:
    return np.asarray(replay.end_s - replay.workload.submit_s)[replay.measured]


def _queue_s(replay: Replay) -> FloatArray:
    return np.asarray(_jct_s(replay) - replay.workload.runtime_s[replay.measured])


def _wait_s(replay: Replay) -> FloatArray:
    return np.asarray(replay.start_s - replay.workload.submit_s)[replay.measured]


def _spans(
    key: str,
    title: str,
    description: str,
    noun: str,
    replays: Sequence[Replay],
    labels: Sequence[str],
    values: Callable[[Replay], FloatArray],
) -> Chart:
    traces = [
        _curve(at, label, np.maximum(values(replay), _LEAST_S), "spans")
        for at, (replay, label) in enumerate(zip(replays, labels, strict=True))
    ]
    axis: Figure = {
        "type": "log",
        "title": {"text": f"{noun} (log axis)"},
        "tickvals": [*_SPANS],
        "ticktext": [*_SPANS.values()],
    }
    return Chart(key, title, description, _cumulative(traces, axis))


def _rho(replays: Sequence[Replay], labels: Sequence[str]) -> Chart:
    traces = [
        _curve(at, label, rho(replay)[replay.measured], "ratio")
        for at, (replay, label) in enumerate(zip(replays, labels, strict=True))
    ]
    ticks = [step * 10.0**power for power in range(-3, 7) for step in (1, 3)]
    axis: Figure = {
        "type": "log",
        "title": {"text": "ρ = JCT / fair JCT (ratio, log axis)"},
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }
    figure = _cumulative(traces, axis)
    description = "JCT over what an equal share of the GPUs would have given; right of 1 a job got less than its share."
    return Chart("rho", "Finish-time fairness", description, figure | {"mark": 1})


def _cumulative(traces: list[Figure], xaxis: Figure) -> Figure:
    yaxis = {"title": {"text": "share of jobs"}, "tickformat": ".0%", "range": [0, 1.02]}
    return {"data": traces, "layout": {"xaxis": xaxis, "yaxis": yaxis}}


def _curve(at: int, label: str, values: FloatArray, kind: str) -> Figure:
    """Build a curve of the share of jobs at or below each value; NaN is left out."""
    ranked = np.sort(values[np.isfinite(values)])
    size = len(ranked)
    rows = np.arange(size)
    if size > POINTS:
        tail = size - np.geomspace(1, size, _TAIL)
        rows = np.unique(np.concatenate((np.linspace(0, size - 1, POINTS - _TAIL), tail)).astype(np.int64))
    return _line(at, label) | {
        "kind": kind,
        "x": [_short(value) for value in ranked[rows].tolist()],
        "y": [_short(value) for value in ((rows + 1) / max(size, 1)).tolist()],
    }


def _over_time(replays: Sequence[Replay], labels: Sequence[str]) -> list[Chart]:
    first_s = min(float(replay.workload.submit_s.min()) for replay in replays)
    last_s = max(float(replay.end_s.max()) for replay in replays)
    if not last_s > first_s:
        return []
    edges_s = np.linspace(first_s, last_s, _BINS + 1)
    unit_s, unit = next(
        (
            (size, name)
            for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes"))
            if last_s - first_s >= size  # the unit that the table says the makespan in
        ),
        (1, "seconds"),
    )
    x = [_short(value) for value in ((edges_s - first_s) / unit_s).tolist()]
    busy: list[Figure] = []
    queued: list[Figure] = []
    for at, (replay, label) in enumerate(zip(replays, labels, strict=True)):
        gpus, waiting = _busy_and_waiting(replay, edges_s)
        for drawn, means in ((busy, gpus), (queued, waiting)):
            y = [_short(value) for value in [*means.tolist(), float(means[-1])]]
            drawn.append(_line(at, label) | {"kind": unit, "x": x, "y": y})
    xaxis = {"title": {"text": f"time since the first submission ({unit})"}, "rangemode": "tozero"}
    each = f"Means over {span((last_s - first_s) / _BINS)} each."
    total = max(replay.fleet.total for replay in replays)
    return [
        Chart(
            "busy",
            "Utilisation over time",
            f"GPUs busy, of {total}. {each}",
            {
                "data": busy,
                "layout": {"xaxis": xaxis, "yaxis": {"title": {"text": "GPUs busy"}, "rangemode": "tozero"}},
            },
        ),
        Chart(
            "queued",
            "Queue length over time",
            f"Jobs submitted that neither run nor have ended. {each}",
            {"data": queued, "layout": {"xaxis": xaxis, "yaxis": {"title": {"text": "jobs"}, "rangemode": "tozero"}}},
        ),
    ]


def _busy_and_waiting(replay: Replay, edges_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return busy GPUs and waiting jobs, as means between *edges_s*."""
    jobs, spans = replay.workload, (edges_s[:-1], edges_s[1:])
    row, from_s, to_s, share = _runs(replay)
    busy = Timeline.of(from_s, to_s, share * jobs.gpus[row]).mean(*spans)
    running = Timeline.of(from_s, to_s, share).mean(*spans)
    present = Timeline.of(jobs.submit_s, replay.end_s).mean(*spans)
    return np.clip(busy, 0.0, replay.fleet.total), np.maximum(present - running, 0.0)


def _runs(replay: Replay) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return the runs of jobs: row, start, end, and the share of that time spent running.

    Without segments only the first start and the end of a preempted job are known: its work is spread evenly
    in between, which can exceed the GPUs that exist.
    """
    if (runs := replay.segments) is not None:
        return runs.row, runs.start_s, runs.end_s, np.ones(len(runs.row))
    jobs, size = replay.workload, len(replay.workload)
    spent_s, share = replay.end_s - replay.start_s, np.ones(size)
    worked_s = jobs.runtime_s + replay.stops * restart_costs(jobs, replay.setup)
    np.divide(worked_s, spent_s, out=share, where=(replay.stops > 0) & (spent_s > 0))
    return np.arange(size), replay.start_s, replay.end_s, np.minimum(share, 1.0)


def _line(at: int, label: str) -> Figure:
    return {"type": "scatter", "mode": "lines", "policy": at, "name": _plain(label), "line": {"shape": "hv"}}


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Return round ratios between 10**low and 10**high: as many as are legible beside each other."""
    least, most = 10.0**low, 10.0**high
    if high - low < _NARROW:
        step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1) if (most - least) / step <= _TICKS)
        return [round(tick * step, 2) for tick in range(math.ceil(least / step), math.floor(most / step) + 1)]
    decades = [10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1)]
    ticks = [step * decade for decade in decades for step in (1, 2, 5) if least <= step * decade <= most]
    return ticks if len(ticks) <= _TICKS else decades


def _times(ratio: float) -> str:
    return "×" + f"{ratio:#.3g}".rstrip(".")


def _plain(text: str) -> str:
    """Escape *text* so that plotly.js shows it unchanged, which otherwise interprets tags and entities."""
    return html.escape(text, quote=False)


def _short(value: float) -> float | None:
    """Round to five digits, enough for a picture; None for what JSON has no number for."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
