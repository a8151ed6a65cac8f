"""Excluded nodes of jobs: ours, or those of somebody else."""

from __future__ import annotations

from functools import lru_cache

from .text.hostlist import expand

ANY_TYPE = "*"
"""In place of the types to which a job is sent: it may go to any, and is only kept off nodes that it left."""

UNREAD = "?"
"""The excluded nodes, or the size, of a job that came after they were read; nobody's, so that it is left alone."""


def sent_to(steered: str) -> str:
    """Return the types of GPUs that a row of the column ``steered`` stands for, empty for any."""
    return "" if steered == ANY_TYPE else steered


@lru_cache(maxsize=4_096)  # the same lists come every cycle
def same_nodes(one: str, other: str) -> bool:
    """Return True if two host lists name the same nodes, and some."""
    try:
        return one != UNREAD and bool(one) and set(expand(one)) == set(expand(other))
    except ValueError:
        return False
