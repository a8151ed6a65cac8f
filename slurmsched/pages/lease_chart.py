"""The plan behind a promise as a chart: the job, those that are promised too, and running jobs on the GPUs it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from .formats import amount, duration
from .svg import LABELS, cut, frame, grid_x, marks, rect, text, upright
from .timeline import from_now, time_axis

_ROW, _TOP = 20.0, 24.0
KINDS = {
    "this": ("idle", "this job"),
    "promised": ("better", "promised"),
    "running": ("used", "runs"),
    "can make room": ("rest", "runs, can make room"),
    "was asked": ("rest", "runs, can make room"),
}


@dataclass(frozen=True)
class LeaseBar:
    """A job of the plan, in seconds from now; NaN where unknown."""

    name: str
    gpus: int
    kind: str  #: a key of KINDS
    from_s: float
    until_s: float


def plan_of(answer: Mapping[str, Any], now_s: float) -> dict[str, Any] | None:
    """Return the plan around a job as a chart, a table, and what would change the answer; None where there is none.

    *answer* is that of the question ``chart``.
    """
    if not answer["known"]:
        return None
    bars = [
        LeaseBar(
            f"{one['job_id']} {one['user']}" if one["job_id"] else "somebody else's",
            one["gpus"],
            one["kind"],
            one["from_s"] - now_s,
            math.nan if one["until_s"] is None else one["until_s"] - now_s,
        )
        for one in answer["bars"]
    ]
    named = (("its deadline", answer["deadline_s"]), ("promised", answer["promised_s"]))
    moments = [(name, at_s - now_s) for name, at_s in named if at_s is not None and at_s > now_s]
    return {
        "chart": lease_chart(bars, moments, "The plan around this job"),
        "sentences": list(answer["sentences"]),
        "changes": list(answer["changes"]),
        "columns": ("job", "GPUs", "is", "from", "until"),
        "rows": [
            [bar.name, amount(bar.gpus), bar.kind, "now" if bar.from_s <= 0 else f"in {duration(bar.from_s)}",
             duration(bar.until_s)]
            for bar in bars
        ],
    }  # fmt: skip


def lease_chart(bars: Sequence[LeaseBar], moments: Sequence[tuple[str, float]], title: str) -> Markup:
    """Draw a row for each job, and a line at each of *moments* (name, seconds from now)."""
    ends = [one.until_s for one in bars if one.kind in ("this", "promised")] + [at_s for _, at_s in moments]
    scale, bottom = time_axis(ends, LABELS), _TOP + _ROW * len(bars)
    drawn = [grid_x(scale, bottom, from_now)]
    for number, bar in enumerate(bars):
        y = _TOP + _ROW * number
        until_s = bar.until_s if math.isfinite(bar.until_s) else scale.high
        left, right = scale.place(max(bar.from_s, 0.0)), scale.place(until_s)
        told = f"{bar.name}, {amount(bar.gpus)} GPUs, {bar.kind}: until {duration(until_s)} from now"
        drawn.append(text(LABELS - 8, y + 14, cut(f"{bar.name} ({amount(bar.gpus)} GPUs)"), "end"))
        drawn.append(rect(left, y + 3, max(right - left, 2.0), _ROW - 6, KINDS[bar.kind][0], told))
    for name, at_s in moments:
        drawn.append(upright("moment", scale.place(at_s), 20.0, bottom, f"{name}: in {duration(at_s)}"))
    kinds = dict.fromkeys(KINDS[one.kind] for one in bars)
    return frame(bottom + 36, title, [*drawn, marks(list(kinds), 8.0, bottom + 26)])
