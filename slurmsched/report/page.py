"""A report as one HTML file with its charts, for the answer in its JSON form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from ..models.completion.reliability import OURS, SLURMS
from ..pages.environment import render
from ..pages.formats import amount, day, duration, legible, percent, share_of
from ..pages.svg import Interval, Series, curves, intervals, spans, stacked
from .sheet import Answer
from .sheets import headline, missing, order_words, sheets, title
from .trial_sheets import trial_title, trial_words

ROWS_MOST = 14  #: of a chart


def page(answer: Answer) -> str:
    """Return the page of a report."""
    return render("report.html", **values(answer))


def values(answer: Answer) -> dict[str, Any]:
    """Return what the template of a report takes."""
    answer = legible(answer)
    made = list(sheets(answer))
    return {
        "lead": headline(answer),
        "title": title(answer),
        "tiles": list(_tiles(answer)),
        "tables": {sheet.key: vars(sheet) for sheet in made},
        "charts": dict(_charts(answer)),
        "orders": [{"mode": order["mode"], "words": order_words(order)} for order in answer["order"]],
        "trials": [
            {"number": number, "title": trial_title(one), "words": trial_words(one)}
            for number, one in enumerate(answer["trials"])
        ],
        "promises": [f"{many} {state}" for state, many in answer["promises"].items()],
        "memory": answer["gpu_memory"],
        "missing": missing(answer),
    }


def accuracy_charts(answer: Answer) -> dict[str, Markup]:
    """Return the charts of how near times were, of a report or of an answer about accuracy alone."""
    found = {}
    if answer["reliability"]:
        found["reliability"] = _reliability(answer)
    if answer["predicted_waits"]:
        found["predicted_waits"] = _predicted(answer["predicted_waits"])
    return found


def _tiles(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield the figures that a reader sees first, each with what it is."""
    total, machine = answer["total"], answer["machine"]
    yield amount(total["held"]), "GPU-hours held by jobs"
    if machine:
        share = share_of(machine["capacity"] - machine["free"], machine["capacity"])
        yield share, "of the usable GPUs were allocated"
    if total["measured"]:
        yield percent(total["used"] / total["measured"]), "of the measured hours used, by utilisation"
        yield amount(total["no_process"] + total["below"]), "GPU-hours idle: no process, or below 5 %"
    if answer["waits"]:
        yield duration(answer["waits"][0]["p50_s"]), f"median wait of {amount(answer['waits'][0]['starts'])} starts"
    by = next((one["finish_high"] for one in answer["reliability_by"] if one["by"] == "all"), None)
    if by is not None:
        yield percent(by), "of jobs ended by the time predicted for nine in ten"


def _charts(answer: Answer) -> Iterator[tuple[str, Markup]]:
    if any(one["held"] for one in answer["spans"]):
        yield "spans", _spans(answer["spans"])
    listed = [one for one in answer["waits"] if one["by"] == "size"]
    listed += [one for one in answer["waits"] if one["by"] == "account"][:ROWS_MOST]
    if listed:
        yield "waits", _waits(answer["waits"][:1] + listed)
    yield from accuracy_charts(answer).items()
    for order in answer["order"]:
        if any(one["low_s"] is not None for one in order["replayed"]):
            yield f"replayed_{order['mode']}", _replayed(order)
        yield f"order_{order['mode']}", _order(order)
    for number, trial in enumerate(answer["trials"]):
        if any(one["low_s"] is not None for one in trial["effects"]):
            yield f"trial_{number}", _trial(trial)


def _spans(spans_: Sequence[Answer]) -> Markup:
    hourly = len(spans_) > 1 and spans_[1]["from_s"] - spans_[0]["from_s"] < 86_000
    labels = [(_hour if hourly else day)(one["from_s"]) for one in spans_]
    used, idle, blind = ([max(one[name], 0.0) for one in spans_] for name in ("used", "idle", "unmeasured"))
    rest = [max(one["held"] - sum(parts), 0.0) for one, *parts in zip(spans_, used, idle, blind, strict=True)]
    parts = [
        Series("used", "used", used),
        Series("held, partly used", "rest", rest),
        Series("idle", "idle", idle),
        Series("held, not measured", "unmeasured", blind),
    ]
    shown = [part for part in parts if any(value > 0 for value in part.values)]
    capacity = Series("usable GPUs", "capacity", [_number(one["capacity"]) for one in spans_])
    line = capacity if any(map(math.isfinite, capacity.values)) else None
    return stacked(labels, shown, "GPU-hours over time", line=line)


def _waits(listed: Sequence[Answer]) -> Markup:
    rows = [
        Interval(
            "all jobs" if one["by"] == "all" else one["name"] or "(none)",
            _number(one["p50_s"]),
            _number(one["p50_s"]),
            _number(one["p90_s"]),
            _number(one["slurm_p50_s"]),
        )
        for one in listed
    ]
    return intervals(
        rows, "Waits from eligible to start", wide="up to nine in ten", other="Slurm's own estimate (median)"
    )


def _reliability(answer: Answer) -> Markup:
    points = answer["reliability"]
    nominal = [one["nominal"] for one in points]
    lines = [
        (Series("starts", "used", [_number(one["started"]) for one in points]), nominal),
        (Series("finishes", "finishes", [_number(one["finished"]) for one in points]), nominal),
    ]
    by = [one for one in answer["reliability_by"] if one["by"] == "all" and one["slurm_by"] is not None]
    if by:
        lines.append((Series("starts by Slurm's own estimate", "slurms", [by[0]["slurm_by"]]), [0.5]))
    return curves(lines, "Reliability", x_name="by the time meant for this share", y_name="this share came")


def _predicted(rows: Sequence[Answer]) -> Markup:
    lines = []
    for source, kind, name in ((OURS, "used", "slurmsched"), (SLURMS, "slurms", "Slurm's own estimate")):
        mine = [one for one in rows if one["source"] == source]
        if mine:
            values = [max(_number(one["real_p50_s"]), 10.0) for one in mine]
            lines.append((Series(name, kind, values), [max(one["predicted_s"], 10.0) for one in mine]))
    return spans(
        lines, "Predicted and real waits", x_name="predicted wait (median of a tenth)", y_name="real wait (median)"
    )


def _order(order: Answer) -> Markup:
    accounts = order["accounts"]
    shown = accounts if len(accounts) <= ROWS_MOST else [*accounts[: ROWS_MOST // 2], *accounts[-ROWS_MOST // 2 :]]
    rows = [
        Interval(
            one["account"],
            _number(one["low_s"]),
            _number(one["change_s"]),
            _number(one["high_s"]),
            kind="worse" if one["change_s"] > 0 else "better",
        )
        for one in shown
    ]
    return intervals(rows, "Change of the work ahead by account", wide="90 % of redraws", signed=True)


def _replayed(order: Answer) -> Markup:
    return _changes(order["replayed"], "Change of the mean wait by the order", "90 % of redraws")


def _trial(trial: Answer) -> Markup:
    return _changes(trial["effects"], "Change of the mean wait with the policy", "interval of 95 %")


def _changes(effects: Sequence[Answer], title_: str, wide: str) -> Markup:
    known = [one for one in effects if one["low_s"] is not None]
    shown = known if len(known) <= ROWS_MOST else [*known[: ROWS_MOST // 2], *known[-ROWS_MOST // 2 :]]
    rows = [
        Interval(
            one["account"] or "all jobs",
            _number(one["low_s"]),
            _number(one["change_s"]),
            _number(one["high_s"]),
            kind="worse" if one["change_s"] > 0 else "better",
        )
        for one in shown
    ]
    return intervals(rows, title_, wide=wide, signed=True)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _hour(at_s: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at_s).astimezone().strftime("%H:%M")
