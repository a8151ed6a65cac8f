"""A table of a report, as texts for a page and a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Answer = Mapping[str, Any]
"""A report, or a part of one, in its JSON form."""


@dataclass(frozen=True)
class Sheet:
    """A table: *key* names it in links, *note* says how to read it; the first column is its heading."""

    key: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
