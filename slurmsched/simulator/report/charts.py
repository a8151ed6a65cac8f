"""The charts of a comparison: curves of shares of jobs, and of GPUs and jobs over time, each with its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup

from ...cluster.columns import FloatArray, IntArray
from ...cluster.text.plural import count
from ...pages.formats import amount, duration, percent
from ...pages.scales import Axis, Scale, linear, ratios, times
from ...pages.step_curves import Curve, RatioBar, kind_of, ratio_bars, step_curves
from ..replay import Replay, restart_costs
from .fairness import rho
from .harm import GroupChange, GroupChanges
from .time_labels import span
from .timeline import Timeline

POINTS = 500  #: most points of a curve
_TAIL = 150  #: points of those spent on the longest jobs, where a curve on a log axis ends
_BINS = 250
_ROWS = 10  #: of the table of a chart over time
_LEAST_S = 10.0  #: a log axis has no zero
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_HEADS = ("policy", "10 %", "25 %", "half", "75 %", "90 %", "99 %", "all")


@dataclass(frozen=True)
class Chart:
    """A chart, with what a reader must know to read it; one curve for each policy, in their order."""

    key: str
    title: str
    description: str
    curves: tuple[Curve, ...]
    across: Axis
    up: Axis
    columns: Sequence[str]  #: of its table
    rows: Sequence[Sequence[str]]
    mark: float = math.nan  #: a value of special meaning

    def drawn(self) -> Markup:
        """Draw the chart, with the baseline on top."""
        ordered = sorted(self.curves, key=lambda one: BASELINE in one.kind)
        return step_curves(ordered, self.title, self.across, self.up, told=self._told, mark=self.mark)

    def _told(self, x: float, y: float) -> str:
        return f"{self.up.told(y)} {'after' if self.up.name != SHARE.name else 'at or below'} {self.across.told(x)}"


BASELINE = "baseline"
"""The class of the curve to compare with."""


def _shares(values: Sequence[float], start: float, end: float) -> Scale:
    return Scale(0.0, 1.0, start, end, ticks=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def _times(ratio: float) -> str:
    return "×" + f"{ratio:#.3g}".rstrip(".") if ratio < 1000 else f"×{ratio:,.0f}"


def _tick(ratio: float) -> str:
    return f"×{ratio:,.10g}"


SHARE = Axis("share of jobs", percent, _shares)
_RATIO = Axis("ρ = JCT / fair JCT (log axis)", _tick, partial(ratios, room=0.03))


def charts(replays: Sequence[Replay], labels: Sequence[str], first: int = 0) -> list[Chart]:
    """Build the charts of *replays* of the same jobs, in reading order; none where there are no jobs.

    *first* is the baseline.
    """
    if not any(len(replay.workload) for replay in replays):
        return []
    least = f"Less than {_LEAST_S:g} s is drawn at {_LEAST_S:g} s."
    named = list(zip(replays, labels, kinds(len(replays), first), strict=True))
    return [
        _spans("jct", "Job completion time", f"From submission to end. {least}", "JCT", named, _jct_s),
        _spans("queue", "Queueing delay", f"JCT less runtime. {least}", "queueing delay", named, _queue_s),
        _spans("first", "Time to first start", f"Submission to first start. {least}", "time to first start", named,
               _wait_s),
        _rho(named),
        *_over_time(named),
    ]  # fmt: skip


def kinds(policies: int, first: int) -> list[str]:
    """Return the classes of the curve of each policy; the baseline takes no colour from the others."""
    numbers = [at for at in range(policies) if at != first]
    return [f"{BASELINE} p{at}" if at == first else kind_of(numbers.index(at)).split(" p")[0] + f" p{at}"
            for at in range(policies)]  # fmt: skip


def change_rows(changes: GroupChanges) -> list[GroupChange]:
    """Return the worst and the best once each, the worst first."""
    shown: dict[str, GroupChange] = {}
    for change in (*changes.worst, *reversed(changes.best)):
        shown.setdefault(change.name, change)
    return list(shown.values())


def change_bars(changes: GroupChanges, title: str) -> Markup:
    """Draw bars of mean JCT over the baseline's for the worst and the best, from 1 on a log axis."""
    rows = [
        RatioBar(
            one.name,
            max(one.ratio, 1e-9),
            f"{one.name}: {count(one.jobs, 'job')}, mean JCT {_times(one.ratio)}, {span(one.baseline_jct_s)} before and"
            f" {span(one.jct_s)} now",
        )
        for one in change_rows(changes)
    ]
    return ratio_bars(rows, title, _tick, _times)


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


Named = Sequence[tuple[Replay, str, str]]


def _spans(
    key: str, title: str, description: str, noun: str, named: Named, values: Callable[[Replay], FloatArray]
) -> Chart:
    found = [(label, kind, np.maximum(values(replay), _LEAST_S)) for replay, label, kind in named]
    return _cumulative(key, title, description, Axis(f"{noun} (log axis)", duration, times), found, span)


def _rho(named: Named) -> Chart:
    found = [(label, kind, rho(replay)[replay.measured]) for replay, label, kind in named]
    description = "JCT over what an equal share of the GPUs would have given; right of 1 a job got less than its share."
    return _cumulative("rho", "Finish-time fairness", description, _RATIO, found, lambda value: f"{value:.3g}", 1.0)


def _cumulative(
    key: str,
    title: str,
    description: str,
    across: Axis,
    found: Sequence[tuple[str, str, FloatArray]],
    told: Callable[[float], str],
    mark: float = math.nan,
) -> Chart:
    ranked = [np.sort(values[np.isfinite(values)]) for _, _, values in found]
    curves = tuple(_curve(label, kind, values) for (label, kind, _), values in zip(found, ranked, strict=True))
    rows = [
        [label, *(told(_at(values, share)) if len(values) else "-" for share in _SHARES)]
        for (label, _, _), values in zip(found, ranked, strict=True)
    ]
    return Chart(key, title, description, curves, across, SHARE, _HEADS, rows, mark)


def _at(ranked: FloatArray, share: float) -> float:
    """Return the value that this share of the jobs does not exceed."""
    return float(ranked[max(math.ceil(share * len(ranked) - 1e-9) - 1, 0)])


def _curve(label: str, kind: str, ranked: FloatArray) -> Curve:
    """Build a curve of the share of jobs at or below each value."""
    size = len(ranked)
    rows = np.arange(size)
    if size > POINTS:
        tail = size - np.geomspace(1, size, _TAIL)
        rows = np.unique(np.concatenate((np.linspace(0, size - 1, POINTS - _TAIL), tail)).astype(np.int64))
    return Curve(label, kind, ranked[rows].tolist(), ((rows + 1) / max(size, 1)).tolist())


def _over_time(named: Named) -> list[Chart]:
    replays = [replay for replay, _, _ in named]
    first_s = min(float(replay.workload.submit_s.min()) for replay in replays)
    last_s = max(float(replay.end_s.max()) for replay in replays)
    if not last_s > first_s:
        return []
    edges_s = np.linspace(first_s, last_s, _BINS + 1)
    busy, waiting = zip(*(_busy_and_waiting(replay, edges_s) for replay in replays), strict=True)
    each = f"Means over {span((last_s - first_s) / _BINS)} each."
    total = max(replay.fleet.total for replay in replays)
    jobs = f"Jobs submitted that neither run nor have ended. {each}"
    made = partial(_timed, named, edges_s - first_s)
    return [
        made("busy", "Utilisation over time", f"GPUs busy, of {total}. {each}", "GPUs busy", busy),
        made("queued", "Queue length over time", jobs, "jobs", waiting),
    ]


def _timed(
    named: Named, since_s: FloatArray, key: str, title: str, description: str, noun: str, means: Sequence[FloatArray]
) -> Chart:
    """Build a chart of *means* between the times *since_s* after the first submission."""
    curves = tuple(
        Curve(label, kind, since_s.tolist(), [*values.tolist(), float(values[-1])])
        for (_, label, kind), values in zip(named, means, strict=True)
    )
    parts = [values.reshape(_ROWS, -1).mean(axis=1) for values in means]
    rows = [
        [f"{duration(since_s[at * _BINS // _ROWS])} to {duration(since_s[(at + 1) * _BINS // _ROWS])}",
         *(amount(float(values[at])) for values in parts)]
        for at in range(_ROWS)
    ]  # fmt: skip
    across = Axis("time since the first submission", duration, partial(linear, timed=True))
    up = Axis(noun, amount, linear)
    return Chart(key, title, description, curves, across, up, ("time", *(label for _, label, _ in named)), rows)


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
