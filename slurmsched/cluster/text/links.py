"""The numbers of links between the GPUs of a node, in the spelling of ``Links=`` in gres.conf."""

from __future__ import annotations

from collections.abc import Sequence

LinkCounts = tuple[tuple[int, ...], ...]
"""The number of links of each GPU (row) to each GPU (column); -1 for itself."""

_MOST = 64  #: links of a pair


def link_counts(lines: Sequence[str]) -> LinkCounts:
    """Parse a line per GPU, such as ``-1,1,1,2``; ValueError names the one that is wrong."""
    counts = tuple(_row(number, line, len(lines)) for number, line in enumerate(lines))
    for one, row in enumerate(counts):
        for other, links in enumerate(row):
            if links != counts[other][one]:
                raise ValueError(f"GPU {one} has {links} links to {other}, and {other} has {counts[other][one]} to it")
    return counts


def links_line(row: Sequence[int]) -> str:
    """Return the links of one GPU as ``Links=`` has them."""
    return ",".join(map(str, row))


def _row(number: int, line: str, gpus: int) -> tuple[int, ...]:
    try:
        row = tuple(int(part) for part in line.split(","))
    except ValueError:
        row = ()
    others = row[:number] + row[number + 1 :]
    if len(row) != gpus or row[number] != -1 or not all(0 <= links <= _MOST for links in others):
        raise ValueError(
            f"{line!r} for GPU {number}: accepted are {gpus} numbers of links, -1 for itself, as in Links= of gres.conf"
        )
    return row
