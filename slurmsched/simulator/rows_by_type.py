"""Nodes with GPUs of several types, whole ones and slices among them, as one row for each type."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import Labels
from ..cluster.nodes import NodeTable, by_type
from ..cluster.text.tres import gpus_by_type


def one_row_per_type(nodes: NodeTable) -> NodeTable:
    """Return *nodes* with a row, of the same name, for each type of GPU of a node; the type with the most comes first.

    Each row has all CPUs and all memory of the node: that jobs on its other rows use some is modelled of those that run
    already, and not of those to come. What is in
    use of a type is all of it, as far as the node has that much in use, where only the sum over its types is known.
    """
    mixed = nodes.gpu_types.nonempty()
    if not mixed.any():
        return nodes
    rows: list[int] = []
    kinds: list[tuple[str, int, int]] = []
    for row in range(len(nodes)):
        used = by_type(nodes.gpu_types_used[row])
        has = by_type(nodes.gpu_types[row]) or {nodes.gpu_type[row]: int(nodes.gpus[row])}
        for name, many in sorted(has.items(), key=lambda one: -one[1]):
            rows.append(row)
            kinds.append((name, many, min(many, used.get(name, 0) if used else int(nodes.gpus_used[row]))))
    split = nodes.take(np.array(rows, dtype=np.int64))
    none = Labels(np.zeros(len(rows), dtype=np.int64), ("",))
    return split.changed(
        name=Labels.of(split.name),
        gpu_type=Labels.of(name for name, _, _ in kinds),
        gpus=np.array([many for _, many, _ in kinds], dtype=np.int64),
        gpus_used=np.array([used for _, _, used in kinds], dtype=np.int64),
        gpu_types=none,
        gpu_types_used=none,
    )


def rows_by_name(nodes: NodeTable) -> dict[str, list[int]]:
    """Return the rows of each node."""
    found: dict[str, list[int]] = {}
    for row, name in enumerate(nodes.name):
        found.setdefault(name, []).append(row)
    return found


def rows_of_job(nodes: NodeTable, rows: list[int], gpu_type: str, request: str) -> list[int]:
    """Return those *rows* of one node on which a running job has GPUs, by its type or its *request*; else the first."""
    if len(rows) == 1:
        return rows
    try:
        asked = {kind for kind, many in gpus_by_type(request).items() if many}
    except ValueError:
        asked = set()
    kinds = {gpu_type} | (asked if len(asked) > 1 else set())
    return [row for row in rows if nodes.gpu_type[row] in kinds] or rows[:1]
