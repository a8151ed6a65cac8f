"""Moves nodes between the profiling partition and another one, and gives them back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ...clock import Timer
from ...cluster.records.node_loans import LentNodes, NodeLists, changes, members
from ...cluster.state import View
from ...decide.profiling_nodes import lend
from ...decide.rules import ProfilingRules
from ...errors import SlurmschedError
from ...slurm.port import Slurm

logger = logging.getLogger(__name__)

STEP_S = 60.0
"""The time between moves: slurmctld rebuilds its tables after each, and jobs need time to start on the nodes."""

BACK_OFF_S = 600.0


class LoanStore(Protocol):
    """The record of lent nodes; raises MemoryUnavailable where it is away."""

    def loans(self, cluster: str) -> tuple[LentNodes, ...]:
        """Return the partitions whose nodes we changed."""
        ...

    def save_loans(self, cluster: str, loans: tuple[LentNodes, ...]) -> None:
        """Replace the record by these loans."""
        ...


@dataclass
class NodeMover:
    """Moves nodes one step at a time, each recorded before it is made; none while the database is away."""

    cluster: Slurm
    name: str  #: of the cluster
    loans: LoanStore
    leads: Callable[[], bool]  #: whether this daemon leads
    wait: Timer = field(default_factory=lambda: Timer(time.monotonic))  #: before the next move
    _clear: bool = False  #: nothing is lent, for sure

    def turn(self, view: View, rules: ProfilingRules, wanted_gpus: int) -> None:
        """Make the next move, if there is one and it is due."""
        self._clear = False
        self._in_turn(lambda: self._move(view, rules, wanted_gpus))

    def end(self) -> None:
        """Give back lent nodes, when due, after lending was switched off."""
        if not self._clear:
            self._in_turn(self._end)

    def lends(self) -> bool:
        """True if any partition is known to have other nodes than its admin gave it."""
        try:
            return bool(self.loans.loans(self.name))
        except SlurmschedError:
            return False

    def give_back(self) -> str:
        """Restore the nodes of every partition; return why that failed, empty for success."""
        try:
            return give_nodes_back(self.cluster, self.name, self.loans)
        except SlurmschedError as error:
            return str(error)

    def _in_turn(self, step: Callable[[], tuple[bool, str]]) -> None:
        if not self.wait.due:
            return
        try:
            moved, trouble = step()
        except SlurmschedError as error:
            moved, trouble = True, str(error)
        if trouble:
            logger.warning("no nodes were lent: %s", trouble)
        if moved or trouble:
            self.wait.put_off(BACK_OFF_S if trouble else STEP_S)

    def _end(self) -> tuple[bool, str]:
        """Return whether nodes were given back, and the error, if any."""
        lends = bool(self.loans.loans(self.name))
        if lends and not self.leads():
            return False, ""
        trouble = give_nodes_back(self.cluster, self.name, self.loans)
        self._clear = not trouble
        return lends, trouble

    def _move(self, view: View, rules: ProfilingRules, wanted_gpus: int) -> tuple[bool, str]:
        """Return whether nodes were moved, and the error, if any."""
        current = {name: members(view.partitions, name) for name in (rules.partition, rules.home)}
        loans = self.loans.loans(self.name)
        if not all(current.values()):
            empty = next(name for name, nodes in current.items() if not nodes)
            return False, f"there is no partition {empty} with nodes"
        if loans and {one.partition for one in loans} != current.keys():
            return self._end()  # profile.home is another one now
        own = own_lists(loans, current)
        if set(own[rules.partition]) & set(own[rules.home]):
            return False, f"{rules.partition} and {rules.home} have nodes in common"
        wanted = lend(view, rules, current, own, wanted_gpus)
        if wanted == current:
            if loans and current == own:
                self.loans.save_loans(self.name, ())
            return False, ""
        if not self.leads():
            return False, ""
        self.loans.save_loans(self.name, tuple(LentNodes(name, own[name], wanted[name]) for name in wanted))
        refused = self.cluster.set_nodes(changes(current, wanted))
        for name in wanted if not refused else ():
            logger.info("partition %s has the nodes %s now", name, ",".join(wanted[name]))
        return True, refused or ""


def own_lists(loans: tuple[LentNodes, ...], current: NodeLists) -> NodeLists:
    """Return the nodes that an admin gave each partition *current*, where some are *loans*.

    The admin's later changes hold: nodes that Slurm shows as added to a partition, or removed from both.
    """
    own = {one.partition: set(one.own) for one in loans if one.partition in current}
    if own.keys() != current.keys():
        return current
    theirs, there = set().union(*own.values()), set().union(*current.values())
    return {name: tuple(sorted((own[name] & there) | (set(current[name]) - theirs))) for name in current}


def give_nodes_back(cluster: Slurm, name: str, store: LoanStore) -> str:
    """Restore the nodes of every partition; return why that failed, else empty. SlurmschedError on any outage."""
    loans = store.loans(name)
    if not loans:
        return ""
    state = cluster.observe()
    current = {one.partition: members(state.partitions, one.partition) for one in loans}
    # Given a list with one unknown name, Slurm drops every node of it (observed on 22.05).
    there = set(state.nodes.name.names)
    bare = {one.partition: tuple(sorted(there & set(one.own))) for one in loans if not current[one.partition]}
    own = {**own_lists(loans, {partition: nodes for partition, nodes in current.items() if nodes}), **bare}
    refused = cluster.set_nodes(changes(current, {partition: nodes for partition, nodes in own.items() if nodes}))
    if refused:
        return refused
    store.save_loans(name, ())
    logger.info("gave nodes back to the partitions %s", ", ".join(own))
    return ""
