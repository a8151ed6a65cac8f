"""What the pages *Accuracy* and *Report* show, made of the daemon's answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..pages.formats import amount
from ..report import page as report_page
from ..report.sheets import accuracy_sheets
from .cluster_pages import ROWS, page_links, rows_of

Answer = Mapping[str, Any]

DAYS = (1, 7, 30)
DAY_S = 86_400.0


def accuracy(answer: Answer, page: int) -> Answer:
    """Return what the page *Accuracy* shows: how near times were, as charts with their tables."""
    sheets = {sheet.key: vars(sheet) for sheet in accuracy_sheets(answer)}
    found, pages = _paged(sheets, page, "/accuracy", answer["days"])
    return {
        "pages": pages,
        "lead": f"First predictions of the last {amount(answer['days'])} days, beside what came.",
        "tables": found,
        "charts": report_page.accuracy_charts(answer),
        "choices": [("Days", [(f"/accuracy?days={days}", str(days), days == answer["days"]) for days in DAYS])],
    }


def report(answer: Answer, page: int) -> Answer:
    """Return what the page *Report* shows: what ``slurmsched report --html`` has."""
    days = (answer["until_s"] - answer["since_s"]) / DAY_S
    chosen = [(f"/report?days={one}", str(one), abs(one - days) < 0.01) for one in DAYS]
    found = report_page.values(answer)
    tables, pages = _paged(found["tables"], page, "/report", days)
    return {**found, "tables": tables, "pages": pages, "choices": [("Days", chosen)]}


def _paged(tables: Mapping[str, Any], page: int, path: str, days: float) -> tuple[Answer, list[tuple[str, str]]]:
    """Return the tables with the rows of a page, of all that are longer than one, and the links beside it."""
    longest = max((one["rows"] for one in tables.values()), key=len, default=())
    pages = page_links(page, len(longest), ROWS, lambda number: f"{path}?days={round(days)}&page={number}")
    shown = {
        key: {**one, "rows": rows_of(one["rows"], page) if len(one["rows"]) > ROWS else one["rows"]}
        for key, one in tables.items()
    }
    return shown, pages
