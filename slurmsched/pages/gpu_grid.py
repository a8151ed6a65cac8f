"""A chart of GPUs by node: a cell for each GPU, coloured by what its job does with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .formats import amount, duration, percent
from .svg import WIDTH, cut, frame, marks, rect, text

_LABELS, _CELL, _ROW, _COLUMNS = 112.0, 26.0, 30.0, 2
_LEVELS = 5  #: of use


@dataclass(frozen=True)
class Cell:
    """A GPU, or half of one that two jobs share."""

    kind: str  #: used, idle, unmeasured (held, never measured), free, away
    told: str
    use: float = math.nan  #: 0..1
    memory: float = math.nan  #: 0..1 of the most that is shown
    half: int = 0  #: 0 for a whole GPU; 1 and 2 for its halves


@dataclass(frozen=True)
class NodeRow:
    """A node with its cells, in order: the halves of a GPU follow each other."""

    name: str
    note: str  #: such as powered down, or in a window
    cells: Sequence[Cell]


def gpu_grid(nodes: Sequence[NodeRow], title: str) -> Markup:
    """Draw the nodes in two columns, with a legend."""
    wide = max((_width(node) for node in nodes), default=1)
    columns = _COLUMNS if _LABELS + wide * _CELL <= WIDTH / _COLUMNS - 10 else 1
    rows = math.ceil(len(nodes) / columns)
    drawn: list[Markup] = []
    for number, node in enumerate(nodes):
        x, y = (number // rows) * (WIDTH / columns), 10.0 + (number % rows) * _ROW
        drawn += _node(node, x, y)
    kinds = [(f"used u{level}", words) for level, words in ((1, "little used"), (5, "busy"))]
    kinds += [("idle", "no process"), ("unmeasured", "held, not measured"), ("free", "free"), ("away", "takes no jobs")]
    bottom = 10.0 + rows * _ROW
    return frame(bottom + 26, title, [*drawn, marks(kinds, 8.0, bottom + 18)])


def halves(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the cells of jobs that share GPUs as halves, in turn."""
    for number, cell in enumerate(cells):
        yield Cell(cell.kind, cell.told, cell.use, cell.memory, 1 + number % 2)


def _width(node: NodeRow) -> int:
    return sum(cell.half != 2 for cell in node.cells)


def _node(node: NodeRow, x: float, y: float) -> Iterator[Markup]:
    yield text(x + _LABELS - 8, y + (11 if node.note else 16), cut(node.name)[:16], "end", "name")
    if node.note:
        yield text(x + _LABELS - 8, y + 23, node.note[:17], "end", "small")
    at = x + _LABELS - _CELL
    for cell in node.cells:
        at += _CELL if cell.half != 2 else 0.0
        yield from _cell(cell, at, y)


def _cell(cell: Cell, x: float, y: float) -> Iterator[Markup]:
    height = (_CELL - 4) / (2 if cell.half else 1)
    top = y + (height if cell.half == 2 else 0.0)
    kind = cell.kind
    if kind == "used":
        kind = f"used u{1 + min(int(cell.use * _LEVELS), _LEVELS - 1)}" if math.isfinite(cell.use) else "unmeasured"
    yield rect(x, top, _CELL - 4, height - (0.8 if cell.half else 0.0), kind, cell.told)
    if math.isfinite(cell.memory) and not cell.half:
        yield rect(x, y + _CELL - 7, (_CELL - 4) * min(max(cell.memory, 0.0), 1.0), 3, "memory", "")


def use_words(use: float, memory_mib: float, idle_s: float) -> str:
    """Return in words what a job does with a GPU."""
    parts = [f"{percent(use)} used" if math.isfinite(use) else "not measured"]
    parts += [f"{amount(memory_mib / 1024)} GiB" if math.isfinite(memory_mib) else ""]
    parts += [f"no process for {duration(idle_s)}" if math.isfinite(idle_s) else ""]
    return ", ".join(filter(None, parts))
