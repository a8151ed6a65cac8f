"""Moves of nodes between partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..events import Value
from ..records.node_loans import LentNodes, NodeLists, SetNodes, changes, members
from ..text.hostlist import expand, fold
from .base import Action
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..nodes import PartitionTable


@dataclass(frozen=True)
class NodeChange:
    """The nodes of one partition before and after a move, as host lists."""

    partition: str
    own: str  #: those that its admin gave it
    before: str  #: those that Slurm shows now; empty for none
    after: str  #: those to set, never empty


@dataclass(frozen=True)
class MoveNodes(Action):
    """Move nodes between partitions; jobs that run there continue."""

    partitions: tuple[NodeChange, ...]
    power = "nodes"
    stored = "MoveNodes"

    def __post_init__(self) -> None:
        """Accept the changes as plain rows too, as they are stored."""
        rows: tuple[Any, ...] = tuple(self.partitions)
        made = tuple(row if isinstance(row, NodeChange) else NodeChange(*row) for row in rows)
        object.__setattr__(self, "partitions", made)

    @classmethod
    def between(cls, own: NodeLists, before: NodeLists, after: NodeLists) -> MoveNodes:
        """Return the move that leads from the nodes *before* to those *after*, by partition."""
        return cls(
            tuple(NodeChange(name, *(fold(sorted(lists[name])) for lists in (own, before, after))) for name in after)
        )

    @property
    def steps(self) -> list[SetNodes]:
        """The writes in order: no node is ever in none of the partitions, even if they stop half-way."""
        before = {one.partition: expand(one.before) for one in self.partitions}
        return changes(before, {one.partition: expand(one.after) for one in self.partitions})

    @property
    def loans(self) -> tuple[LentNodes, ...]:
        """The nodes that the partitions lend each other after the move."""
        return tuple(LentNodes(one.partition, expand(one.own), expand(one.after)) for one in self.partitions)

    @property
    def text(self) -> str:
        """The new nodes of all partitions, such as ``gpu=n[1-2] profile=n3``."""
        return " ".join(f"{one.partition}={one.after}" for one in self.partitions)

    @property
    def value(self) -> Value:
        """The new nodes of all partitions."""
        return self.text

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the partitions have these nodes."""
        return str(intent.value) == " ".join(_nodes_of(str(intent.value), look.partitions))


def _nodes_of(wanted: str, partitions: PartitionTable) -> Iterator[str]:
    """Yield the present nodes of each partition of a move, spelled as the *wanted* ones are."""
    for name in (change.partition("=")[0] for change in wanted.split(" ")):
        yield f"{name}={fold(members(partitions, name))}"
