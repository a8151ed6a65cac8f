"""Tables: aligned text, one line per row, as wide as the terminal allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .terminal_text import clean, width

Cell = str | int | float | None

GAP = "  "
CUT_LEAST = 8  #: cells that are left of a cut text


@dataclass(frozen=True)
class TextTable:
    """A table to print; columns of numbers are right-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    order: Sequence[str] = ()  #: the most important columns; the others follow from the left
    cut: Sequence[str] = ()  #: columns whose texts may be cut to fit


def plain(sheet: TextTable) -> str:
    """Format *sheet* as aligned text without tabs, borders or colours; an empty cell reads ``-``."""
    lines = _texts(sheet)
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    right = _right(sheet)
    return "\n".join(GAP.join(map(_pad, line, widths, right)).rstrip() for line in lines)


def fitted(sheet: TextTable, most: int) -> tuple[TextTable, list[str]]:
    """Fit *sheet* to *most* cells; also return the dropped columns. Texts are cut first, least important columns next.

    The most important column and all headings are always complete.
    """
    cells = zip(*_texts(sheet), strict=True)
    widths = {name: max(map(width, column)) for name, column in zip(sheet.columns, cells, strict=True)}
    if _total(widths.values()) <= most:
        return sheet, []
    least = {name: _least(sheet, name, widest) for name, widest in widths.items()}
    stay = list(dict.fromkeys((*sheet.order, *sheet.columns)))
    while len(stay) > 1 and _total(least[name] for name in stay) > most:
        stay.pop()
    shown = [name for name in sheet.columns if name in stay]
    limits = _limits({name: widths[name] for name in shown}, least, most)
    return _with_columns(sheet, shown, limits), [name for name in sheet.columns if name not in stay]


def chosen(sheet: TextTable, names: Sequence[str]) -> TextTable:
    """Return *sheet* with those columns in *names* that it has, in any case; whole where it has none."""
    by_name = {name.upper(): name for name in sheet.columns}
    shown = [by_name[name.upper()] for name in names if name.upper() in by_name]
    return _with_columns(sheet, shown, {}) if shown else sheet


def _least(sheet: TextTable, name: str, widest: int) -> int:
    return min(widest, max(width(name), CUT_LEAST)) if name in sheet.cut else widest


def _total(widths: Iterable[int]) -> int:
    cells = list(widths)
    return sum(cells) + len(GAP) * (len(cells) - 1)


def _limits(widths: dict[str, int], least: dict[str, int], most: int) -> dict[str, int]:
    """Return the cells of each column, the widest columns that may be cut made narrower until all fit."""
    limits = dict(widths)
    while _total(limits.values()) > most:
        name = max(limits, key=lambda name: limits[name] - least[name])
        if limits[name] == least[name]:
            break
        limits[name] -= 1
    return limits


def _with_columns(sheet: TextTable, names: Sequence[str], limits: dict[str, int]) -> TextTable:
    if tuple(names) == tuple(sheet.columns) and not any(name in limits for name in sheet.cut):
        return sheet
    places = [list(sheet.columns).index(name) for name in names]
    rows = [[_cut(row[place], limits.get(sheet.columns[place])) for place in places] for row in sheet.rows]
    return replace(sheet, columns=tuple(names), rows=rows)


def _cut(cell: Cell, most: int | None) -> Cell:
    if most is None or not isinstance(cell, str) or width(clean(cell)) <= most:
        return cell
    text = clean(cell)
    while width(text) >= most:
        text = text[:-1]
    return f"{text}…"


def _texts(sheet: TextTable) -> list[list[str]]:
    return [list(sheet.columns), *([_text(cell) for cell in row] for row in sheet.rows)]


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return "-" if math.isnan(cell) else f"{cell:.10g}"
    return "-" if cell is None or cell == "" else clean(str(cell))


def _right(sheet: TextTable) -> list[bool]:
    columns = list(zip(*sheet.rows, strict=True)) or [()] * len(sheet.columns)
    return [bool(column) and all(isinstance(cell, int | float | None) for cell in column) for column in columns]


def _pad(text: str, cells: int, right: bool) -> str:
    blank = " " * (cells - width(text))
    return blank + text if right else text + blank
