"""A trace file: plain or compressed text with numbered lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from io import BufferedReader, FileIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from .trace import TraceError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_GZIP = b"\x1f\x8b"
_HEAD_LINES = 100
_BUFFER_B = 1 << 20
_LONGEST = 65536  #: characters; a longer first line is no header


Progress = Callable[[int, int], None]
"""Receives the bytes of a file read so far, and all its bytes."""

PROGRESS: ContextVar[Progress] = ContextVar("PROGRESS", default=lambda done, total: None)
"""The callback for files read in this context: traces are cached regardless of the observer."""


class _Watched(FileIO):
    """A file that reports its progress."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._progress, self._size_b = PROGRESS.get(), path.stat().st_size

    def readinto(self, buffer: Buffer) -> int | None:
        count = super().readinto(buffer)
        self._progress(self.tell(), self._size_b)
        return count


class TraceFile:
    """A file to read jobs from; gzip is recognised by its first bytes, not by the name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @contextmanager
    def text(self) -> Iterator[IO[str]]:
        """Open the text from its start; TraceError where it is unreadable. Bytes outside UTF-8 survive a round trip."""
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(2) == _GZIP
            with BufferedReader(_Watched(self.path), _BUFFER_B) as raw:
                plain = cast("BufferedReader", gzip.GzipFile(fileobj=raw)) if packed else raw
                with TextIOWrapper(plain, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
                    yield text
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise TraceError(f"reading the trace {self.path}: {why}") from error

    @cached_property
    def head(self) -> tuple[str, ...]:
        """The first lines, without their ends."""
        with self.text() as text:
            lines = (text.readline(_LONGEST) for _ in range(_HEAD_LINES))
            return tuple(line.rstrip("\r\n") for line in islice(iter(lines), _HEAD_LINES) if line)

    @cached_property
    def header(self) -> str:
        """The first line that is not blank; empty where there is none."""
        return next((line for line in self.head if line.strip()), "")

    def fields(self, delimiter: str = ",") -> frozenset[str]:
        """Return the column names in the first line, if it is a header."""
        return frozenset(name.strip().strip('"') for name in self.header.split(delimiter))

    def at(self, line: int, problem: str, column: str = "") -> TraceError:
        """Return the error *problem* for a line, counted from 1, and a column of it."""
        return TraceError(f"{self.path}:{line}{f', column {column}' if column else ''}: {problem}")
