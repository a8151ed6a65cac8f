"""Changes of texts of jobs, gathered and applied together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cluster.columns import Labels
from ..cluster.jobs import JobTable
from ..cluster.text.comment import read


@dataclass
class TextEdits:
    """New texts of single rows, by column; a table takes all of them at once, since each time copies columns."""

    _texts: dict[str, dict[int, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def put(self, rows: Iterable[int], texts: Mapping[str, str]) -> None:
        """Set each column in *texts* for *rows*; with a comment goes the share token that it has."""
        if "comment" in texts:
            texts = {**texts, "share_token": read(texts["comment"])[0].share or ""}
        for row in rows:
            for column, text in texts.items():
                self._texts.setdefault(column, {})[row] = text

    def put_each(self, column: str, texts: Mapping[int, str]) -> None:
        """Set *column* for each row in *texts*."""
        if texts:
            self._texts.setdefault(column, {}).update(texts)

    def rows(self, column: str) -> list[int]:
        """Return the rows with a new text in *column*."""
        return list(self._texts.get(column, ()))

    def text(self, table: JobTable, column: str, row: int) -> str:
        """Return the present text of *row*, a new one if there is any."""
        present: Labels = getattr(table, column)
        return self._texts.get(column, {}).get(row, present[row])

    def apply(self, table: JobTable) -> JobTable:
        """Return *table* with the new texts; nothing is left to apply then."""
        columns: dict[str, Any] = {name: _with(getattr(table, name), texts) for name, texts in self._texts.items()}
        self._texts.clear()
        return table.changed(**columns)


def _with(column: Labels, texts: Mapping[int, str]) -> Labels:
    fresh = tuple(dict.fromkeys(texts.values()))
    codes = column.codes.copy()
    codes[list(texts)] = [len(column.names) + fresh.index(text) for text in texts.values()]
    names = (*column.names, *fresh)
    return Labels(codes, names).renamed(names)
