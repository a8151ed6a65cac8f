"""A lease chart as text, and as one self-contained HTML file."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..terminal_text import clean
from ..time_format import moment

WIDTH = 60
SIGNS = {"this": "*", "promised": "=", "running": "#", "can make room": "~", "was asked": "~"}
_COLOURS = {"this": "worse", "promised": "better", "running": "faint", "can make room": "line", "was asked": "line"}
_ROW, _LEFT, _WIDE = 22, 200, 550
_NAME = 26  #: letters that fit before the bars
_LEGEND = "Orange: this job. Blue: promised. Grey: running. Light grey: running, can make room. Dashed: its deadline."


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
    """Return the page: sentences, the chart as a drawing, and changes that would alter the answer."""
    title = f"Job {chart['job_id']}: the plan for its deadline"
    points = "".join(f"<li>{html.escape(clean(text))}</li>" for text in chart["changes"])
    paragraphs = "".join(f"<p>{html.escape(clean(text))}</p>" for text in sentences)
    style = files("slurmsched").joinpath("data/page.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n<header>\n<h1>{title}</h1>\n{paragraphs}\n</header>\n"
        f'<section class="scroll" tabindex="0" aria-label="Plan">{_drawing(chart, now_s)}</section>\n<p>{_LEGEND}</p>\n'
        + (f"<h2>What would change the answer</h2>\n<ul>{points}</ul>\n" if points else "")
        + "</body>\n</html>\n"
    )


def _drawing(chart: Mapping[str, Any], now_s: float) -> str:
    """Draw a rectangle per job on a common time axis, with the deadline as a line."""
    end_s, parts = _end_s(chart, now_s), []
    height = _ROW * (len(chart["bars"]) + 1)
    for row, bar in enumerate(chart["bars"], start=1):
        until_s = end_s if bar["until_s"] is None else bar["until_s"]
        x, right = (_x(at_s, now_s, end_s) for at_s in (bar["from_s"], until_s))
        gpus = "1 GPU" if bar["gpus"] == 1 else f"{bar['gpus']} GPUs"
        name = f"{bar['job_id'] or '-'} {clean(bar['user'])} ({gpus})"
        tip = f"{name}, {bar['kind']}: {moment(bar['from_s'])} .. {moment(bar['until_s'])}"
        parts.append(
            f'<text x="0" y="{row * _ROW + 15}" fill="var(--ink)" font-size="13">{html.escape(_short(name))}</text>'
            f'<rect x="{x:.1f}" y="{row * _ROW + 3}" width="{max(2.0, right - x):.1f}" height="{_ROW - 6}" '
            f'fill="var(--{_COLOURS[bar["kind"]]})"><title>{html.escape(tip)}</title></rect>'
        )
    for key in ("deadline_s", "promised_s"):
        if chart[key] is not None and now_s < chart[key] <= end_s:
            x = _x(chart[key], now_s, end_s)
            place = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_ROW - 4}" y2="{height}"'
            # A background of its own keeps it visible on bars of any colour.
            parts.append(f'<line {place} stroke="var(--ground)" stroke-width="5"/>')
            parts.append(f'<line {place} stroke="var(--ink)" stroke-width="2" stroke-dasharray="5 3"/>')
    axis = "".join(
        f'<text x="{_x(at_s, now_s, end_s):.1f}" y="14" text-anchor="{anchor}" fill="var(--faint)" '
        f'font-size="12">{moment(at_s, now_s)}</text>'
        for at_s, anchor in ((now_s, "start"), (end_s, "end"))
    )
    wide = _LEFT + _WIDE
    size = f'viewBox="0 0 {wide} {height}" style="width: 100%; min-width: 600px; max-width: {1.3 * wide:g}px"'
    return f'<svg {size} role="img">{axis}{"".join(parts)}</svg>'


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}\u2026"


def _end_s(chart: Mapping[str, Any], now_s: float) -> float:
    """Return the end of the axis: a little after the last known moment of this job and the promised ones."""
    moments_s = [bar["until_s"] for bar in chart["bars"] if bar["kind"] in ("this", "promised")]
    moments_s += [chart["deadline_s"], chart["promised_s"]]
    ahead_s = max((at_s - now_s for at_s in moments_s if at_s is not None), default=0.0)
    return now_s + max(600.0, 1.05 * ahead_s)


def _place(at_s: float, now_s: float, end_s: float) -> int:
    return round(WIDTH * min(1.0, max(0.0, (at_s - now_s) / (end_s - now_s))))


def _x(at_s: float, now_s: float, end_s: float) -> float:
    return _LEFT + _WIDE * min(1.0, max(0.0, (at_s - now_s) / (end_s - now_s)))
