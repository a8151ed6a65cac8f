"""A comparison as one self-contained HTML file: no network, no server, no other files, no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...cluster.text.plural import count
from ...errors import ConfigError
from ...pages.environment import render
from ...pages.formats import percent
from ..replay import Replay
from ..setup import Setup
from .charts import change_bars, change_rows, charts, kinds, smoothed
from .harm import GroupChanges, Harm, baseline_of, harm
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

    The baseline is the model of stock Slurm where it is among them, else the first. ConfigError where there is nothing
    to compare, or the replays are of different jobs.
    """
    if not replays:
        raise ConfigError("a page needs at least one policy to show")
    setups = [replay.setup for replay in replays]
    labels, first = labels_of(setups), baseline_of(setups)
    rows = _rows(replays, labels, first)
    switches = "".join(f"main:has(#show-{at}:not(:checked)) .p{at}{{display:none}}" for at in range(len(rows)))
    return render(
        "simulation.html",
        more_style=switches,
        title=title,
        lead=_lead(replays, labels[first]),
        notes=[*notes, *_smoothed(replays, labels)],
        policies=[
            {"label": label, "kind": kind, "baseline": at == first}
            for at, (label, kind) in enumerate(zip(labels, kinds(len(labels), first), strict=True))
        ],
        columns=["measure", *(f"{one} (baseline)" if at == first else one for at, one in enumerate(labels))],
        marked={first + 1: "marked"},
        measures=list(_measures(rows)),
        charts=[vars(chart) | {"svg": chart.drawn()} for chart in charts(replays, labels, first)],
        baseline=labels[first],
        harmed=[one for at, row in enumerate(rows) if at != first for one in _harmed(row)],
    )


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
    return percent(value, 1)


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


def _measures(rows: Sequence[PolicyRow]) -> Iterator[list[str]]:
    """Yield the name with its meaning and a cell for each policy; measures that no policy has are left out."""
    for name in ("selection", "placement", "forecast"):
        yield [name, *(getattr(row.summary, name) for row in rows)]
    for name, help_text, value, show in _MEASURES:
        values = [value(row) for row in rows]
        if not all(map(math.isnan, values)):
            head = Markup('{} <span class="faint">{}</span>').format(name, help_text) if help_text else name
            yield [head, *(show(one) if math.isfinite(one) else "-" for one in values)]


def _harmed(row: PolicyRow) -> Iterator[dict[str, Any]]:
    """Yield for users and for virtual clusters whose mean JCT grew most, and shrank most."""
    for noun, one_noun, changes in (
        ("users", "user", row.harm.users), ("virtual clusters", "virtual cluster", row.harm.virtual_clusters)
    ):  # fmt: skip
        if changes is not None:
            yield {"policy": row.label, "noun": noun, "one": one_noun, **_changes(row.label, noun, changes)}


def _changes(label: str, noun: str, changes: GroupChanges) -> dict[str, Any]:
    drawn: Markup = change_bars(changes, f"Change of the mean JCT of {noun} under {label}")
    return {
        "count": changes.count,
        "worse": changes.worse,
        "svg": drawn,
        "rows": [
            (one.name, f"{one.jobs:,}", span(one.baseline_jct_s), span(one.jct_s), f"×{one.ratio:.3g}")
            for one in change_rows(changes)
        ],
    }
