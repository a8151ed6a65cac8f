"""What the pages *Accuracy* and *Report* show, made of the daemon's answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..pages.formats import amount
from ..report import page as report_page
from ..report.sheets import accuracy_sheets

Answer = Mapping[str, Any]

DAYS = (1, 7, 30)
DAY_S = 86_400.0


def accuracy(answer: Answer) -> Answer:
    """Return what the page *Accuracy* shows: how near times were, as charts with their tables."""
    found = {sheet.key: vars(sheet) for sheet in accuracy_sheets(answer)}
    return {
        "lead": f"First predictions of the last {amount(answer['days'])} days, beside what came.",
        "tables": found,
        "charts": report_page.accuracy_charts(answer),
        "choices": [("Days", [(f"/accuracy?days={days}", str(days), days == answer["days"]) for days in DAYS])],
    }


def report(answer: Answer) -> Answer:
    """Return what the page *Report* shows: what ``slurmsched report --html`` has."""
    days = (answer["until_s"] - answer["since_s"]) / DAY_S
    chosen = [(f"/report?days={one}", str(one), abs(one - days) < 0.01) for one in DAYS]
    return {**report_page.values(answer), "choices": [("Days", chosen)]}
