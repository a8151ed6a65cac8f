"""Parts of nodes that reservations hold for the jobs inside, as rows of their own behind those of the nodes.

A job inside takes CPUs of its node and of the part; jobs outside may have what is free of the node beyond what is free
of the part. So memory, and GPUs that are not reserved, stay those of the node. Of reserved GPUs each job may have as
many, whatever others inside have: slurmctld counts them for each job anew (observed on 26.05).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from .columns import IntArray, Labels
from .nodes import NodeTable
from .reservations import ANY_NODES, FLEX, UNREAD, ReservationTable, nodes_in, part_of_node

NO_PART = -1


@dataclass(frozen=True)
class ReservedParts:
    """The rows of nodes that stand for parts of others."""

    first: int  #: the row of the first; all behind it are parts
    rows: Mapping[str, IntArray] = field(default_factory=dict)  #: by reservation: the row of the part of each node


def bounded(table: ReservationTable, row: int, nodes: NodeTable) -> bool:
    """Report whether jobs inside the window in *row* have only a part of the CPUs or GPUs of each node."""
    if any(table.has(flag)[row] for flag in (FLEX, UNREAD, ANY_NODES)):
        return False
    gpus, here = part_of_node(table, row, nodes)[1], nodes_in(table, row, nodes)
    return bool(not table.whole[row] or (table.gpus[row] and (gpus < nodes.gpus)[here].any()))


def with_parts(nodes: NodeTable, table: ReservationTable, names: Set[str]) -> tuple[NodeTable, ReservedParts]:
    """Return *nodes* with a row for each part that a reservation of *names* has of one; the nodes alone if none does.

    The row of a part has the CPUs and GPUs that are reserved, or the GPUs of the node where none are. It is in no
    partition and takes no jobs by itself.
    """
    of, cpus, gpus = list[int](), list[int](), list[int]()
    rows, texts = dict[str, IntArray](), list[str]()
    windows = {name: row for row, name in reversed(list(enumerate(table.name))) if name in names}
    for name, window in sorted(windows.items()):
        if not bounded(table, window, nodes):
            continue
        has_cpus, has_gpus = part_of_node(table, window, nodes)
        here = np.flatnonzero(has_cpus > 0)
        part = np.full(len(nodes), NO_PART, dtype=np.int64)
        part[here] = len(nodes) + len(of) + np.arange(len(here))
        rows[name] = part
        of += here.tolist()
        cpus += has_cpus[here].tolist()
        gpus += (has_gpus if table.gpus[window] else nodes.gpus)[here].tolist()
        texts += [f"{nodes.name[node]}:{name}:{nodes.gpu_type[node]}" for node in here.tolist()]
    if not of:
        return nodes, ReservedParts(len(nodes))
    behind, nothing = nodes.take(np.array(of, dtype=np.int64)), np.zeros(len(of), dtype=np.int64)
    behind = behind.changed(
        name=Labels.of(texts),
        partitions=Labels.of([""] * len(of)),
        usable=np.zeros(len(of), dtype=np.bool_),
        cpus=np.array(cpus, dtype=np.int64),
        gpus=np.array(gpus, dtype=np.int64),
        cpus_used=nothing,
        gpus_used=nothing,
        memory_used_mib=np.zeros(len(of)),
        ready_s=np.zeros(len(of)),
    )
    longer = {name: np.append(part, np.full(len(of), NO_PART)) for name, part in rows.items()}
    return nodes.joined(behind), ReservedParts(len(nodes), longer)
