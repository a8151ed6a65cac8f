"""A lease chart as text, and as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...pages.environment import render
from ...pages.formats import moment as page_moment
from ...pages.lease_chart import plan_of
from ..terminal_text import clean
from ..time_format import moment

WIDTH = 60
SIGNS = {"this": "*", "promised": "=", "running": "#", "can make room": "~", "was asked": "~"}


def text_chart(chart: Mapping[str, Any], now_s: float) -> list[str]:
    """Return the chart as lines: a row per job from now on, the free GPUs, and the legend."""
    end_s = _end_s(chart, now_s)
    marks = [
        chart[key] for key in ("deadline_s", "promised_s") if chart[key] is not None and now_s < chart[key] <= end_s
    ]
    lines = [f"{'JOB':>10}  {'USER':<10} {'GPUS':>5}  {moment(now_s)} .. {moment(end_s)}"]
    for bar in chart["bars"]:
        until_s = end_s if bar["until_s"] is None else bar["until_s"]
        first, last = (_place(at_s, now_s, end_s) for at_s in (bar["from_s"], until_s))
        cells = [SIGNS[bar["kind"]] if first <= at < max(last, first + 1) else " " for at in range(WIDTH)]
        for at_s in marks:
            at = min(WIDTH - 1, _place(at_s, now_s, end_s))
            cells[at] = "|" if cells[at] == " " else cells[at]
        name = str(bar["job_id"]) if bar["job_id"] else "-"
        lines.append(f"{name:>10}  {clean(bar['user'])[:10]:<10} {bar['gpus']:>5}  {''.join(cells).rstrip()}")
    free = ", ".join(f"{step['gpus']} from {moment(step['from_s'], now_s)}" for step in chart["free"][:8])
    lines += [
        f"free: {free}",
        "* this job  = promised  # running  ~ running, can make room  | its deadline",
    ]
    return lines


def html_chart(chart: Mapping[str, Any], sentences: Sequence[str], now_s: float) -> str:
    """Return the page: sentences, the chart as a drawing with its table, and changes that would alter the answer."""
    title = f"Job {chart['job_id']}: the plan for its deadline"
    return render("plan.html", title=title, sentences=sentences, plan=plan_of(chart, now_s), at=page_moment(now_s))


def _end_s(chart: Mapping[str, Any], now_s: float) -> float:
    """Return the end of the axis: a little after the last known moment of this job and the promised ones."""
    moments_s = [bar["until_s"] for bar in chart["bars"] if bar["kind"] in ("this", "promised")]
    moments_s += [chart["deadline_s"], chart["promised_s"]]
    ahead_s = max((at_s - now_s for at_s in moments_s if at_s is not None), default=0.0)
    return now_s + max(600.0, 1.05 * ahead_s)


def _place(at_s: float, now_s: float, end_s: float) -> int:
    return round(WIDTH * min(1.0, max(0.0, (at_s - now_s) / (end_s - now_s))))
