"""Trace formats: each recognises its files and reads their rows as jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .cleaning import Raw
from .file import TraceFile


@dataclass(frozen=True)
class Format:
    """A kind of trace file."""

    name: str
    accepts: str  #: description of such a file, for people
    recognises: Callable[[TraceFile], bool]
    read: Callable[[TraceFile], Raw]


def with_columns(*names: str, without: tuple[str, ...] = ()) -> Callable[[TraceFile], bool]:
    """Return a test for a header with all of *names* and none of *without*."""

    def recognises(file: TraceFile) -> bool:
        there = file.fields()
        return there.issuperset(names) and there.isdisjoint(without)

    return recognises
