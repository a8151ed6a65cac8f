"""What commands print: sentences and tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from .text import clean, width

SCHEMA = "slurmsched/1"
Cell = str | int | float | None

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


@dataclass(frozen=True)
class Sheet:
    """A table to print; columns of numbers stand right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def emit(facts: Mapping[str, Any], *parts: str | Sheet, as_json: bool) -> None:
    """Print *facts* as one JSON object, or else *parts* one after the other as text."""
    if as_json:
        return click.echo(json.dumps({"schema": SCHEMA} | _finite(dict(facts)), indent=2))
    for part in parts:
        if isinstance(part, str):
            click.echo(clean(part))
        elif _for_people():
            _rich(part)
        else:
            click.echo(plain(part), nl=bool(part.columns))
    return None


def plain(sheet: Sheet) -> str:
    """*sheet* as aligned text without tabs, borders or colours; an empty cell reads ``-``."""
    lines = [list(sheet.columns), *([_cell(cell) for cell in row] for row in sheet.rows)]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    right = _right(sheet)
    return "\n".join("  ".join(map(_pad, line, widths, right)).rstrip() for line in lines)


def _for_people() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _rich(sheet: Sheet) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, right in zip(sheet.columns, _right(sheet), strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(_cell(cell)) for cell in row))  # Text is never read as markup
    Console(file=sys.stdout).print(table)


def _cell(cell: Cell) -> str:
    if isinstance(cell, float):
        return "-" if math.isnan(cell) else f"{cell:.10g}"
    return "-" if cell is None or cell == "" else clean(str(cell))


def _right(sheet: Sheet) -> list[bool]:
    columns = list(zip(*sheet.rows, strict=True)) or [()] * len(sheet.columns)
    return [bool(column) and all(isinstance(cell, int | float | None) for cell in column) for column in columns]


def _pad(text: str, cells: int, right: bool) -> str:
    blank = " " * (cells - width(text))
    return blank + text if right else text + blank


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
