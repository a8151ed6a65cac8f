"""A chart of GPUs over time: a panel for each group of GPUs, in which each job is a block as high as its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..cluster.text.plural import count
from .formats import amount, duration
from .scales import Scale
from .svg import cut, frame, grid_x, marks, rect, text
from .timeline import Window, from_now, shade, time_axis

_LABELS, _TOP, _GAP = 110.0, 24.0, 16.0
_LANE, _LOW, _HIGH = 6.0, 34.0, 300.0


@dataclass(frozen=True)
class Block:
    """A job on GPUs of a group, in seconds from now; NaN where unknown."""

    name: str
    group: str
    gpus: int
    kind: str  #: a class of the style
    from_s: float
    until_s: float  #: the median
    by_s: float  #: nine in ten


@dataclass(frozen=True)
class Group:
    """GPUs that are drawn together."""

    name: str
    gpus: int


def gantt(blocks: Sequence[Block], groups: Sequence[Group], windows: Sequence[Window], title: str,
          kinds: Sequence[tuple[str, str]]) -> Markup:  # fmt: skip
    """Draw each group of GPUs over time; *kinds* are the classes of blocks with their names.

    Blocks run to the median, and on, faded, to the time by which nine in ten end.
    """
    scale = time_axis([value for one in blocks for value in (one.from_s, one.until_s)], _LABELS)
    y, grounds, faded, solid = _TOP, list[Markup](), list[Markup](), list[Markup]()
    for group in groups:
        height = min(max(group.gpus * _LANE, _LOW), _HIGH)
        grounds += _ground(group, scale, y, height)
        for behind, before in _blocks(group, blocks, scale, y, height):
            faded.append(behind)
            solid.append(before)
        y += height + _GAP
    bottom = y - _GAP
    drawn = [*grounds]
    drawn += [shade(window, scale, bottom) for window in windows if window.from_s < scale.high]
    drawn.append(grid_x(scale, bottom, from_now))
    more = [("used faded", "until nine in ten end")]
    more += [("unmeasured band", "maintenance or reservation")] if windows else []
    return frame(
        bottom + 56, title, [*drawn, *faded, *solid, marks(kinds, 8.0, bottom + 26), marks(more, 8.0, bottom + 48)]
    )


def _ground(group: Group, scale: Scale, top: float, height: float) -> Iterator[Markup]:
    yield rect(scale.start, top, scale.end - scale.start, height, "pool", "")
    yield text(_LABELS - 8, top + 14, cut(group.name)[:13], "end", "name")
    yield text(_LABELS - 8, top + 29, f"{amount(group.gpus)} GPUs", "end")


def _blocks(
    group: Group, blocks: Sequence[Block], scale: Scale, top: float, height: float
) -> Iterator[tuple[Markup, Markup]]:
    """Yield the faded and the solid part of each block of a group."""
    lane, free_s = height / max(group.gpus, 1), [0.0] * group.gpus
    mine = sorted((one for one in blocks if one.group == group.name), key=lambda one: max(one.from_s, 0.0))
    for block in mine:
        if block.from_s < scale.high and group.gpus:
            yield from _block(block, free_s, scale, top, lane)


def _block(block: Block, free_s: list[float], scale: Scale, top: float, lane: float) -> Iterator[tuple[Markup, Markup]]:
    """Draw a block on the GPUs that are free the longest, and note until when it has them."""
    from_s = max(block.from_s, 0.0)
    until_s = block.until_s if math.isfinite(block.until_s) else scale.high
    by_s = block.by_s if math.isfinite(block.by_s) else until_s
    told = f"{block.name}: {count(block.gpus, 'GPU')}, {_when(block, until_s, by_s)}"
    for first, many in _places(free_s, from_s, min(block.gpus, len(free_s))):
        for at in range(first, first + many):
            free_s[at] = until_s
        y, tall = top + first * lane + 0.4, max(many * lane - 0.8, 0.6)
        left, right, faded = (scale.place(value) for value in (from_s, until_s, by_s))
        behind = rect(right, y, faded - right, tall, f"{block.kind} faded", "") if faded - right > 0.5 else Markup("")
        yield behind, rect(left, y, max(right - left, 1.0), tall, f"{block.kind} block", told)


def _places(free_s: Sequence[float], from_s: float, gpus: int) -> list[tuple[int, int]]:
    """Return stretches of GPUs, (first, many): one stretch that is free if there is any, else several."""
    open_ = [at for at, free in enumerate(free_s) if free <= from_s + 1.0]
    for start in range(len(open_) - gpus + 1):
        if open_[start + gpus - 1] - open_[start] == gpus - 1:
            return [(open_[start], gpus)]
    taken = sorted(sorted(range(len(free_s)), key=lambda at: free_s[at])[:gpus])
    found: list[tuple[int, int]] = []
    for at in taken:
        if found and found[-1][0] + found[-1][1] == at:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((at, 1))
    return found


def _when(block: Block, until_s: float, by_s: float) -> str:
    starts = "runs" if block.from_s <= 0 else f"starts in {duration(block.from_s)}"
    return f"{starts}, half end within {duration(until_s)}, nine in ten within {duration(by_s)}"
