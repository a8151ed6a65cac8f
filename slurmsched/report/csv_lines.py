"""A report as CSV: one figure a line, for spreadsheets. No cell is a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..pages.formats import legible
from .sheet import Answer

COLUMNS = ("section", "name", "figure", "value")
_NAMES = ("kind", "by", "name", "size", "source", "mode", "account", "user", "decile", "nominal", "from_s", "partition")
_FORMULA = re.compile(r"(^|[;,])(\s*)([=+\-@|%'])")  # semicolons part cells in some countries


def csv_text(answer: Answer) -> str:
    """Return the figures of a report in its JSON form; unknown ones are left out.

    What a spreadsheet would take for a formula gets a ``'`` in front, and so does what begins with one.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for section, value in legible(answer).items():
        if section in ("schema", "ask", "source"):
            continue
        writer.writerows([_safe(cell) for cell in line] for line in _lines(section, "", value))
    return out.getvalue()


def _lines(section: str, name: str, value: Any) -> Iterator[tuple[str, str, str, Any]]:
    if isinstance(value, Mapping):
        own = " ".join(filter(None, (name, *(_label(key, value) for key in _NAMES if key in value))))
        for key, item in value.items():
            if isinstance(item, Mapping) or _is_list(item):
                yield from _lines(f"{section}.{key}", own, item)
            elif key not in _NAMES and item is not None:
                yield section, own, key, item
    elif _is_list(value):
        for item in value:
            yield from _lines(section, name, item)
    elif value is not None:
        yield section, name, "", value


def _label(key: str, value: Mapping[str, Any]) -> str:
    return "" if value[key] in ("", None) else str(value[key])


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _safe(cell: Any) -> Any:
    return _FORMULA.sub(r"\1\2'\3", cell) if isinstance(cell, str) else cell
