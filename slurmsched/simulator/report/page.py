"""A comparison as one self-contained HTML file: no network, no server, no other files."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from ...cluster.text.plural import count
from ...errors import ConfigError, MissingExtra
from ..replay import Replay
from ..setup import Setup
from .charts import Chart, change_bars, charts, smoothed
from .harm import Harm, baseline_of, harm
from .metrics import Summary, summary
from .time_labels import span

_PARTS = (
    *("selection", "placement", "forecast", "executor", "admission"),
    *("restart_s", "restart_doubling_s", "beat_s", "depth"),
)


@dataclass(frozen=True)
class PolicyRow:
    """A policy of the page, with its figures."""

    label: str
    summary: Summary
    harm: Harm
    ratio: float  #: mean JCT over the baseline's


def page(replays: Sequence[Replay], title: str, notes: Sequence[str]) -> str:
    """Build the page that compares *replays* of the same jobs, with *notes* on the source of the jobs.

    The baseline is the model of stock Slurm where it is among them, else the first. ConfigError where Plotly is
    missing, there is nothing to compare, or the replays are of different jobs.
    """
    plotly_js = _plotly_js()
    if not replays:
        raise ConfigError("a page needs at least one policy to show")
    setups = [replay.setup for replay in replays]
    labels, first = labels_of(setups), baseline_of(setups)
    rows = _rows(replays, labels, first)
    drawn = charts(replays, labels)
    figures = {
        "policies": [{"name": label, "baseline": at == first} for at, label in enumerate(labels)],
        "charts": [{"key": chart.key} | chart.figure for chart in drawn],
        "harm": [_harm(row) for at, row in enumerate(rows) if at != first],
    }
    ours = _data("page.js")
    parts = {
        "policy": " ".join(f"'{_digest(script)}'" for script in (plotly_js, ours)),
        "title": _text(title),
        "style": _data("page.css"),
        "lead": _text(_lead(replays, labels[first])),
        "notes": "".join(f"<li>{_text(note)}</li>" for note in (*notes, *_smoothed(replays, labels))),
        "table": _table(rows, first),
        "charts": "".join(map(_frame, drawn)),
        "harm": _harm_section(rows, first),
        "figures": json.dumps(figures, allow_nan=False).replace("<", "\\u003c"),
        "plotly": plotly_js,
        "script": ours,
    }
    # One pass, so that an inserted text is never mistaken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _data("page.html"))


def labels_of(setups: Sequence[Setup]) -> list[str]:
    """Return a distinct name for each of *setups*; those that share one are extended by the parts that differ."""
    labels: list[str] = []
    for setup in setups:
        alike = [other for other in setups if other.label == setup.label]
        varied = [part for part in _PARTS if len({getattr(other, part) for other in alike}) > 1]
        label = f"{setup.label} ({', '.join(_part(setup, part) for part in varied)})" if varied else setup.label
        labels.append(label if label not in labels else f"{label} #{len(labels) + 1}")
    return labels


def _part(setup: Setup, part: str) -> str:
    value = getattr(setup, part)
    return value if isinstance(value, str) else f"{part} {value:g}"


def _plotly_js() -> str:
    try:
        script = importlib.import_module("plotly.offline").get_plotlyjs()
    except ImportError as error:
        raise MissingExtra("the page needs Plotly", "report") from error
    # HTML parsers normalise line ends, so the digest must be of the normalised text.
    return str(script).replace("\r\n", "\n").replace("\r", "\n")


def _data(name: str) -> str:
    return files("slurmsched").joinpath(f"data/{name}").read_text("utf-8")


def _digest(script: str) -> str:
    """Return the digest by which a browser recognises the script: no other may run on the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _text(text: str) -> str:
    """Escape *text* from outside for the page, also where it is not proper Unicode."""
    return html.escape(text.encode("utf-8", "replace").decode())


def _rows(replays: Sequence[Replay], labels: Sequence[str], first: int) -> list[PolicyRow]:
    summaries = list(map(summary, replays))
    before_s = summaries[first].jct_s.mean
    return [
        PolicyRow(label, figures, harm(replay, replays[first]), figures.jct_s.mean / before_s if before_s else math.nan)
        for replay, label, figures in zip(replays, labels, summaries, strict=True)
    ]


def _lead(replays: Sequence[Replay], baseline: str) -> str:
    fleet, jobs = replays[0].fleet, count(len(replays[0].workload), "job")
    return f"{jobs} on {count(len(fleet.nodes), 'node')} with {count(fleet.total, 'GPU')}. Compared with {baseline}."


def _smoothed(replays: Sequence[Replay], labels: Sequence[str]) -> list[str]:
    shares = [(label, share) for replay, label in zip(replays, labels, strict=True) if (share := smoothed(replay))]
    if not shares:
        return []
    shares_text = ", ".join(f"{label} {_percent(share)}" for label, share in shares)
    return [
        "Over time, the work of a preempted job is drawn evenly between its first start and its end, as the moments of"
        f" its preemptions are not kept, and no more than all GPUs. Share of the GPU time drawn so: {shares_text}."
    ]


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _plain(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


_MEASURES: tuple[tuple[str, str, Callable[[PolicyRow], float], Callable[[float], str]], ...] = (
    ("mean JCT", "from submission to end", lambda row: row.summary.jct_s.mean, span),
    ("of baseline", "mean JCT over the baseline's", lambda row: row.ratio, lambda value: f"×{value:.3g}"),
    ("median JCT", "half of the jobs took no longer", lambda row: row.summary.jct_s.median, span),
    ("p90", "of the JCT", lambda row: row.summary.jct_s.p90, span),
    ("p99", "of the JCT", lambda row: row.summary.jct_s.p99, span),
    ("mean queueing", "JCT less runtime", lambda row: row.summary.queue_s.mean, span),
    ("to first start", "mean from submission to first start", lambda row: row.summary.response_s.mean, span),
    ("makespan", "first submission to last end", lambda row: row.summary.makespan_s, span),
    ("GPUs busy", "work over all GPU time of the makespan", lambda row: row.summary.utilisation, _percent),
    ("idle while waiting", "GPU time free while a job waited", lambda row: row.summary.idle_while_waiting, _percent),
    ("fragmented", "of it, enough for a job that waited", lambda row: row.summary.fragmentation, _percent),
    ("mean ρ", "JCT over fair JCT", lambda row: row.summary.fairness.mean_rho, _plain),
    ("p99 ρ", "JCT over fair JCT", lambda row: row.summary.fairness.p99_rho, _plain),
    ("unfairness", "mean of max(0, ρ - 1)", lambda row: row.summary.fairness.unfairness, _plain),
    ("deadlines missed", "of jobs that have one", lambda row: row.summary.deadline_miss_rate, _percent),
    ("weighted", "of rewards, not earned", lambda row: row.summary.weighted_deadline_miss_rate, _percent),
    ("forecast error", "median share of the runtime", lambda row: row.summary.accuracy.median_error, _percent),
    ("forecast R²", "of log runtime", lambda row: row.summary.accuracy.r2_log, _plain),
    ("preemptions", "of all jobs", lambda row: row.summary.preemptions, _plain),
    ("lost GPU hours", "to going on after preemptions", lambda row: row.summary.lost_gpu_hours, _plain),
    ("users worse", "mean JCT grew by over 10 %", lambda row: _worse(row.harm, "users"), _plain),
    ("VCs worse", "mean JCT grew by over 10 %", lambda row: _worse(row.harm, "virtual_clusters"), _plain),
)


def _worse(harm: Harm, of: str) -> float:
    changes = harm.users if of == "users" else harm.virtual_clusters
    return changes.worse if changes else math.nan


def _table(rows: Sequence[PolicyRow], first: int) -> str:
    """Build a column per policy and a row per measure; measures without a value for any policy are left out."""

    def line(name: str, help_text: str, cells: Sequence[str], kind: str) -> str:
        marked = (f"{kind} baseline" if at == first else kind for at in range(len(rows)))
        columns = "".join(f'<td class="{mark}">{cell}</td>' for mark, cell in zip(marked, cells, strict=True))
        return f"<tr><th scope=row>{name}<p>{html.escape(help_text)}</p></th>{columns}</tr>"

    head = "".join(
        f'<th scope=col class="number{" baseline" if at == first else ""}">{_text(row.label)}'
        + ("<small>baseline</small>" if at == first else "")
        + "</th>"
        for at, row in enumerate(rows)
    )
    lines = [
        line(name, "", [_text(getattr(row.summary, name)) for row in rows], "number text")
        for name in ("selection", "placement", "forecast")
    ]
    lines += [
        line(name, help_text, [_shown(value(row), show) for row in rows], "number")
        for name, help_text, value, show in _MEASURES
        if not all(math.isnan(value(row)) for row in rows)
    ]
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _shown(value: float, show: Callable[[float], str]) -> str:
    return show(value) if math.isfinite(value) else "-"


def _frame(chart: Chart) -> str:
    return (
        f"<figure><figcaption><h2>{html.escape(chart.title)}</h2><p>{html.escape(chart.description)}</p></figcaption>"
        f'<div class=chart id="chart-{chart.key}"></div></figure>'
    )


def _harm(row: PolicyRow) -> dict[str, object]:
    kinds = {"users": row.harm.users, "virtual_clusters": row.harm.virtual_clusters}
    return {"policy": row.label} | {
        name: {"count": changes.count, "worse": changes.worse} | change_bars(changes) if changes else None
        for name, changes in kinds.items()
    }


def _harm_section(rows: Sequence[PolicyRow], first: int) -> str:
    others = [row for at, row in enumerate(rows) if at != first]
    names = {"users": "Users", "virtual_clusters": "Virtual clusters"}
    shown_kinds = [key for key in names if any(_worse(row.harm, key) >= 0 for row in others)]
    if not shown_kinds:
        return ""
    options = "".join(f"<option value={at}>{_text(row.label)}</option>" for at, row in enumerate(others))
    frames = "".join(
        f'<figure><figcaption><h2>{names[key]}</h2><p id="said-{key}"></p></figcaption>'
        f'<div class="chart bars" id="chart-{key}"></div></figure>'
        for key in shown_kinds
    )
    return (
        "<section><h2>Users who are worse off, and users who are better off</h2>"
        f"<p><label>Under <select id=harm>{options}</select> compared with {_text(rows[first].label)}:"
        " those whose mean JCT grew most, and shrank most.</label></p>"
        f"<div class=grid>{frames}</div></section>"
    )
