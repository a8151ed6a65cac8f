"""Moves of nodes: the loans that the database has, and the wait before the next move."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...clock import Timer
from ...cluster.actions import MoveNodes
from ...cluster.records.node_loans import LentNodes, lent_lists
from ...cluster.state import ClusterState
from .intents import BACK_OFF_S

logger = logging.getLogger(__name__)

STEP_S = 60.0
"""The time between moves: slurmctld rebuilds its tables after each, and jobs need time to start on the nodes."""


class NodeMoves:
    """The partitions whose nodes we changed, and the wait before the next move."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.loans: tuple[LentNodes, ...] = ()
        self.ours = False  #: no other daemon may have changed the stored loans since they were read
        self._wait = Timer(monotonic)

    @property
    def due(self) -> bool:
        """True if nodes may move now."""
        return self._wait.due

    def put_off(self) -> None:
        """Begin the wait for the next move."""
        self._wait.put_off(STEP_S)

    def answered(self, move: MoveNodes, refused: str | None) -> None:
        """Note Slurm's answer to *move*; a refusal makes the wait longer."""
        if refused is not None:
            logger.warning("no nodes were lent: %s", refused)
            self._wait.put_off(BACK_OFF_S)
        for one in move.partitions if refused is None else ():
            logger.info("partition %s has the nodes %s now", one.partition, one.after)

    def all_back(self, state: ClusterState) -> bool:
        """Return True if every partition has its own nodes again; False if none was changed."""
        before, own = lent_lists(self.loans, state.partitions, state.nodes.name.names)
        return bool(self.loans) and bool(len(state.partitions)) and before == own
