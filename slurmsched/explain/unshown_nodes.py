"""Nodes that a partition has and Slurm does not show: those of a cloud while they are switched off (22.05). Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.state import View
from ..cluster.text.hostlist import expanded, fold

NOT_SHOWN = "Slurm does not show "
"""How each of these sentences begins."""

SHOWN_MOST = 200
"""The longest list of nodes in a sentence, in letters."""


def unshown_nodes(view: View) -> dict[int, tuple[str, str]]:
    """Return, by row of the pending jobs, which nodes of its partitions are not shown, and what would show them."""
    hidden = {name: text for name, text in zip(view.partitions.name, view.partitions.unshown, strict=True) if text}
    if not hidden:
        return {}
    jobs = view.pending
    lists = [[hidden[name] for name in names.split(",") if name in hidden] for names in jobs.partition.names]
    found = jobs.partition.map([bool(some) for some in lists], np.bool_)
    return {row: _words(lists[jobs.partition.codes[row]]) for row in np.flatnonzero(found).tolist()}


def _words(lists: list[str]) -> tuple[str, str]:
    nodes = fold(dict.fromkeys(node for text in lists for node in expanded(text)))
    some = nodes if len(nodes) <= SHOWN_MOST else "some nodes"
    return (
        f"{NOT_SHOWN}{some} of its partition while they are switched off, and may switch them on for it at any time.",
        "With PrivateData=cloud in slurm.conf an administrator lets everybody see them.",
    )
