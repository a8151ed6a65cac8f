"""Nodes that a partition has and Slurm does not show: those of a cloud while they are switched off (22.05). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..cluster.nodes import NodeTable, PartitionTable
from ..cluster.state import View
from ..cluster.text.hostlist import expanded, fold

NOT_SHOWN = "Slurm does not show "
"""How each of these sentences begins."""

SHOWN_MOST = 200
"""The longest list of nodes in a sentence, in letters."""

_SHOW_CLOUD = "With PrivateData=cloud in slurm.conf an administrator lets everybody see them."
_SHOW_NODES = "With PrivateData=nodes in slurm.conf only operators see nodes; an administrator can make slurmsched one."


def unshown_nodes(view: View) -> dict[int, tuple[str, str]]:
    """Return, by row of the pending jobs, which nodes of its partitions are not shown, and what would show them."""
    hidden = view.partitions.hidden_nodes
    if not hidden:
        return {}
    jobs = view.pending
    lists = [[hidden[name] for name in names.split(",") if name in hidden] for names in jobs.partition.names]
    found = jobs.partition.map([bool(some) for some in lists], np.bool_)
    words = [_words(some, view.nodes) for some in lists]
    return {row: words[jobs.partition.codes[row]] for row in np.flatnonzero(found).tolist()}


def unshown_partitions(partitions: PartitionTable, nodes: NodeTable) -> Iterator[str]:
    """Yield which partitions have nodes that are not shown, as what figures about the cluster leave out."""
    hidden = partitions.hidden_nodes
    if hidden:
        some, show = f"{_listed(hidden.values())} of {', '.join(hidden)}", _SHOW_CLOUD if len(nodes) else _SHOW_NODES
        yield f"{NOT_SHOWN}{some}: they count for nothing here, though jobs may run on them. {show}"


def _words(lists: list[str], nodes: NodeTable) -> tuple[str, str]:
    some = f"{NOT_SHOWN}{_listed(lists)} of its partition"
    if not len(nodes):  # an operator, and anybody without PrivateData=nodes, sees some
        return f"{some} to slurmsched, and may start it there at any time.", _SHOW_NODES
    return f"{some} while they are switched off, and may switch them on for it at any time.", _SHOW_CLOUD


def _listed(lists: Iterable[str]) -> str:
    nodes = fold(dict.fromkeys(node for text in lists for node in expanded(text)))
    return nodes if len(nodes) <= SHOWN_MOST else "some nodes"
