"""The tables of reports on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terminal_text import width
from .text_table import TextTable

if TYPE_CHECKING:
    from ..report.sheet import Sheet


def text_of(sheet: Sheet) -> TextTable:
    """Return a table whose columns are aligned to the right, the first one apart."""
    widths = [max(map(width, column)) for column in zip(*sheet.rows, strict=True)]
    rows = [
        [row[0], *(" " * (most - width(cell)) + cell for cell, most in zip(row[1:], widths[1:], strict=True))]
        for row in sheet.rows
    ]
    return TextTable([name.upper() for name in sheet.columns], rows)
