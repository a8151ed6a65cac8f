"""A format: how its files are told from others, and how its rows become jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .cleaning import Raw
from .file import TraceFile


@dataclass(frozen=True)
class Format:
    """One kind of trace file."""

    name: str
    accepts: str  #: what a file of this kind looks like, for people
    recognises: Callable[[TraceFile], bool]
    read: Callable[[TraceFile], Raw]


def with_columns(*names: str, without: tuple[str, ...] = ()) -> Callable[[TraceFile], bool]:
    """Recognises files whose header has all these columns and none of the others."""

    def recognises(file: TraceFile) -> bool:
        there = file.fields()
        return there.issuperset(names) and there.isdisjoint(without)

    return recognises
