"""The graph of a job's tasks as one word: ``chain:8``, ``layers:4x2``, ``replicas:4``."""

from __future__ import annotations

import re
from typing import NamedTuple

_GRAPH = re.compile(r"(chain|replicas):([1-9][0-9]{0,4})|layers:([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


class TaskGraph(NamedTuple):
    """Tasks in layers, each of which feeds every task of the next; replicas feed nobody but what averages them."""

    kind: str  #: chain, layers or replicas
    depth: int  #: layers
    width: int  #: tasks of a layer

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return self.depth * self.width

    def __str__(self) -> str:
        sizes = {"chain": f"{self.depth}", "replicas": f"{self.width}", "layers": f"{self.depth}x{self.width}"}
        return f"{self.kind}:{sizes[self.kind]}"


def read_graph(text: str) -> TaskGraph | None:
    """Return the graph that *text* names; None where it names none."""
    match = _GRAPH.fullmatch(text)
    if match is None:
        return None
    if match[1] == "chain":
        return TaskGraph("chain", int(match[2]), 1)
    if match[1] == "replicas":
        return TaskGraph("replicas", 1, int(match[2]))
    return TaskGraph("layers", int(match[3]), int(match[4]))
