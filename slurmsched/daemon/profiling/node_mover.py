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
"""From one move to the next: slurmctld builds its tables anew after each, and jobs need time to take to the nodes."""

BACK_OFF_S = 600.0


class LoanStore(Protocol):
    """What remembers that nodes are lent; raises MemoryUnavailable where it cannot."""

    def loans(self, cluster: str) -> tuple[LentNodes, ...]:
        """The partitions whose nodes we changed."""
        ...

    def save_loans(self, cluster: str, loans: tuple[LentNodes, ...]) -> None:
        """Let these be all of them."""
        ...


@dataclass
class NodeMover:
    """One move at a time, remembered before it is made; while the database is away none is made."""

    cluster: Slurm
    name: str  #: of the cluster
    loans: LoanStore
    leads: Callable[[], bool]  #: whether no other daemon may be at it
    wait: Timer = field(default_factory=lambda: Timer(time.monotonic))  #: before the next move
    _clear: bool = False  #: nothing is lent, for sure

    def turn(self, view: View, rules: ProfilingRules, wanted_gpus: int) -> None:
        """Make the next move, if there is one and it is time."""
        self._clear = False
        self._in_turn(lambda: self._move(view, rules, wanted_gpus))

    def end(self) -> None:
        """Lending was switched off: give back what is lent, when it is time."""
        if not self._clear:
            self._in_turn(self._end)

    def lends(self) -> bool:
        """Whether any partition has other nodes than its admin gave it, as far as is known."""
        try:
            return bool(self.loans.loans(self.name))
        except SlurmschedError:
            return False

    def give_back(self) -> str:
        """Let every partition have its own nodes again; why not, empty if so."""
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
        """Whether nodes were given back, and what went wrong."""
        lends = bool(self.loans.loans(self.name))
        if lends and not self.leads():
            return False, ""
        trouble = give_nodes_back(self.cluster, self.name, self.loans)
        self._clear = not trouble
        return lends, trouble

    def _move(self, view: View, rules: ProfilingRules, wanted_gpus: int) -> tuple[bool, str]:
        """Whether anything was moved, and what went wrong."""
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
    """The nodes that an admin gave each partition *current*, where some are *loans*.

    Nodes that came to a partition or left both since are the admin's doing: Slurm shows them there, or does not.
    """
    own = {one.partition: set(one.own) for one in loans if one.partition in current}
    if own.keys() != current.keys():
        return current
    theirs, there = set().union(*own.values()), set().union(*current.values())
    return {name: tuple(sorted((own[name] & there) | (set(current[name]) - theirs))) for name in current}


def give_nodes_back(cluster: Slurm, name: str, store: LoanStore) -> str:
    """Let every partition have its own nodes again; why not, empty if so. SlurmschedError where nobody answers."""
    loans = store.loans(name)
    if not loans:
        return ""
    state = cluster.observe()
    current = {one.partition: members(state.partitions, one.partition) for one in loans}
    # Of a list with one name that it does not know, Slurm keeps no node at all (seen on 22.05).
    there = set(state.nodes.name.names)
    bare = {one.partition: tuple(sorted(there & set(one.own))) for one in loans if not current[one.partition]}
    own = {**own_lists(loans, {partition: nodes for partition, nodes in current.items() if nodes}), **bare}
    refused = cluster.set_nodes(changes(current, {partition: nodes for partition, nodes in own.items() if nodes}))
    if refused:
        return refused
    store.save_loans(name, ())
    logger.info("gave nodes back to the partitions %s", ", ".join(own))
    return ""
