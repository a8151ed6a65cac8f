"""Output of commands: sentences and tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from shutil import get_terminal_size
from typing import Any, TypeVar

import click

from ..cluster.text.plural import count
from .terminal_text import clean, width
from .text_table import Cell, TextTable, chosen, fitted, plain

__all__ = ["Cell", "TextTable", "emit", "json_option", "plain", "table_options"]

SCHEMA = "slurmsched/1"
_TABLES = f"{__name__}.tables"
_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


@dataclass(frozen=True)
class _Tables:
    """The table options of one command."""

    wide: bool = False
    columns: tuple[str, ...] = ()


def table_options(command: _Command) -> _Command:
    """Add ``--json`` and the choice of table columns; *command* gets only the first, as ``as_json``."""
    wide = click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Show all columns, even if wider than the screen.",
    )
    columns = click.option(
        "--columns", metavar="A,B", expose_value=False, callback=_remember, help="Show only these columns of tables."
    )
    return columns(wide(json_option(command)))


def _remember(context: click.Context, option: click.Parameter, value: bool | str | None) -> None:
    tables: _Tables = context.meta.get(_TABLES, _Tables())
    if isinstance(value, str):
        names = tuple(name.strip() for name in value.split(","))
        context.meta[_TABLES] = replace(tables, columns=names)
    elif value:
        context.meta[_TABLES] = replace(tables, wide=True)


def emit(facts: Mapping[str, Any], *parts: str | TextTable, as_json: bool) -> None:
    """Print *facts* as one JSON object, or else *parts* one after the other as text."""
    if as_json:
        return click.echo(json.dumps({"schema": SCHEMA} | _plain(dict(facts)), indent=2))
    context = click.get_current_context(silent=True)
    tables = context.meta.get(_TABLES, _Tables()) if context else _Tables()
    _demand(tables.columns, [part for part in parts if isinstance(part, TextTable)])
    for part in parts:
        if isinstance(part, str):
            click.echo(clean(part))
        else:
            _print(chosen(part, tables.columns), whole=tables.wide or bool(tables.columns))
    return None


def _demand(columns: Sequence[str], sheets: Sequence[TextTable]) -> None:
    by_name = {name.upper(): name for sheet in sheets for name in sheet.columns}
    for name in columns if sheets else ():
        if name.upper() not in by_name:
            raise click.UsageError(f"There is no column {name}; accepted: {', '.join(by_name.values())}.")


def _print(sheet: TextTable, *, whole: bool) -> None:
    """Print a table; on a terminal with a ruled heading, and only the columns that fit unless *whole*."""
    if not _for_people():
        return click.echo(plain(sheet), nl=bool(sheet.columns))
    shown, gone = (sheet, []) if whole else fitted(sheet, get_terminal_size().columns)
    heading, *lines = plain(shown).split("\n")
    click.secho(heading, bold=True)
    click.echo("\n".join(["─" * max(map(width, (heading, *lines))), *lines]))
    if gone:
        click.echo(f"{count(len(gone), 'column')} more with --wide")
    return None


def _for_people() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _plain(value: Any) -> Any:
    """Convert *value* for JSON: dataclasses become objects, NaN and infinity null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
