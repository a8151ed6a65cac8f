"""What the page *Policies* shows, made of the daemon's answers: orders compared on the live queue. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..pages.formats import amount, duration, moment
from ..pages.front import Choice, front_chart, front_of, nearest
from ..pages.scales import Axis, linear
from .cluster_pages import as_of, paged

Answer = Mapping[str, Any]

NOW = "as now"


def policies(compared: Answer, impact: Answer, weight: int, page: int) -> Answer:
    """Return what the page shows; *weight*, 0..100, is what the mean wait counts beside who loses most."""
    effects = compared["effects"]
    rows, pages = paged(impact["advice"], page, lambda number: f"/policies?weight={weight}&page={number}")
    return {
        "weight": weight,
        "note": compared["note"],
        "impact": [_impact(one) for one in rows],
        "pages": pages,
        "impact_columns": ("account or QOS", "jobs", "sooner", "later", "change of the work ahead, mean"),
        "as_of": as_of(impact),
        **(_compared(effects, weight) if effects else {"chart": None, "rows": [], "lead": "", "command": ""}),
    }


def _compared(effects: Answer, weight: int) -> dict[str, Any]:
    rows = effects["rows"]
    choices = [Choice(one["order"], _number(one["mean_wait_s"]), _loss(one)) for one in rows]
    known = [one for one in choices if math.isfinite(one.across)]
    best = nearest(front_of(known), weight / 100) if known else None
    chosen = best.name if best else NOW
    return {
        "lead": f"{amount(effects['counted'])} of {amount(effects['queued'])} waiting jobs start under every order; "
        f"runtimes were drawn {amount(effects['draws'])} times from the forecasts, at {moment(effects['played_s'])}.",
        "chart": _chart(known, chosen) if known else None,
        "chosen": chosen,
        "command": "" if chosen == NOW else f"slurmsched policy set {chosen}",
        "columns": ("order", "on the front", "mean wait", "median wait", "last job ends", "jobs sooner", "jobs later",
                    "who loses most, mean"),
        "rows": [_row(one, front_of(known), chosen) for one in rows],
    }  # fmt: skip


def _chart(choices: Sequence[Choice], chosen: str) -> Any:
    title = "Orders by mean wait and by the loss of who loses most"
    fit = partial(linear, timed=True)
    across = Axis("mean wait of the jobs that wait now", duration, fit)
    return front_chart(choices, chosen, title, across, Axis("loss of who loses most", duration, fit))


def _row(one: Answer, front: Sequence[Choice], chosen: str) -> list[str]:
    losers = "; ".join(f"{loser['user']} by {duration(loser['wait_s'])} ({amount(loser['jobs'])} jobs)"
                       for loser in one["losers"])  # fmt: skip
    return [
        one["order"] + (" (chosen)" if one["order"] == chosen else ""),
        "yes" if any(point.name == one["order"] for point in front) else "",
        *(duration(one[name]) for name in ("mean_wait_s", "median_wait_s", "last_end_s")),
        amount(one["sooner"]),
        amount(one["later"]),
        losers or "nobody",
    ]


def _impact(one: Answer) -> list[str]:
    change = duration(abs(one["change_s"]))
    words = f"{change} less" if one["change_s"] < 0 else f"{change} more" if one["change_s"] > 0 else "none"
    name = f"{one['name'] or '(none)'} ({one['kind']})"
    return [name, amount(one["jobs"]), amount(one["sooner"]), amount(one["later"]), words]


def _loss(one: Answer) -> float:
    return max((_number(loser["wait_s"]) for loser in one["losers"]), default=0.0)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
