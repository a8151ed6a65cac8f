"""Step times that were interpolated before, on disk beside compiled code: scipy takes longer to load than most replays.

The name of the file has a digest of the measurements behind them, so that others never find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ...policies.codecache import directories

Point = tuple[int, int, int]
"""Nodes, GPUs and micro-batch."""

_END = "."  #: of a line that was written whole


class StoredTimes:
    """The seconds of a step and of its communication at points, interpolated from the same *measurements*."""

    def __init__(self, measurements: bytes, directory: Path | None = None) -> None:
        """Read what there is; *directory* is for reading and writing, None for those of compiled code."""
        places, writable = directories(Path(__file__)) if directory is None else ([directory], directory)
        name = f"step-times-{sha256(measurements).hexdigest()[:16]}.txt"
        self._times: dict[Point, tuple[float, float]] = {}
        self._file = None if writable is None else writable / name
        for place in places:
            with suppress(OSError, ValueError):
                self._times |= dict(_parsed((place / name).read_text(encoding="ascii")))

    def get(self, point: Point) -> tuple[float, float] | None:
        """Return the times at *point*; None if nobody has stored them."""
        return self._times.get(point)

    def add(self, point: Point, times: tuple[float, float]) -> None:
        """Store *times*, if the caller may write."""
        self._times[point] = times
        if self._file is not None:
            with suppress(OSError), self._file.open("a", encoding="ascii") as file:
                file.write(" ".join(map(repr, (*point, *times))) + f" {_END}\n")


def _parsed(text: str) -> Iterator[tuple[Point, tuple[float, float]]]:
    for line in text.splitlines():
        match line.split(" "):
            case nodes, gpus, micro, step_s, sync_s, end if end == _END:
                yield (int(nodes), int(gpus), int(micro)), (float(step_s), float(sync_s))
