"""The return of jobs and nodes to Slurm: on an ordered stop, and for ``slurmsched release-all``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Event
from typing import Protocol

from ..clock import Clock
from ..cluster.actions import Action, Hold, MoveNodes, Rank, RestoreSize, Rightsize, SetAdminComment, Share
from ..cluster.actions.base import OwnIntents
from ..cluster.actions.intent import Intent
from ..cluster.actions.own_columns import undone, undone_of_running
from ..cluster.records.node_loans import LentNodes, lent_lists
from ..decide.rules import SharingRules
from ..errors import SlurmschedError
from ..powers.share.packing import settle_shared
from ..slurm.port import Slurm
from ..slurm.write.release import ReleaseReport, release_all

logger = logging.getLogger(__name__)

REST_S = 1.0
FOR_JOBS = 0.75
"""The share of the time for jobs; the rest is for the command then under way, and for returning nodes."""


Keep = Callable[[Sequence[Intent]], None]
"""Saves intents; SlurmschedError where the database is away."""


def give_back(
    cluster: Slurm, intents: Sequence[Intent], clock: Clock, budget_s: float, sharing: SharingRules, keep: Keep
) -> ReleaseReport:
    """Undo our changes to every job; the last writes begin within ``FOR_JOBS`` of *budget_s* seconds.

    *sharing* names the partitions of shared GPUs. *keep* saves that CPUs and memory are given back by us, so that a
    later daemon does not take it for a wish of the job's owner, and that no answer stands in an AdminComment, so that
    it writes its own again.
    """
    until_s, now_s, own = clock.monotonic() + FOR_JOBS * budget_s, clock.now(), OwnIntents.among(intents)
    _close_answers(own, now_s, keep)
    asked_for = {intent.job_id: str(intent.value) for intent in own.of(Share)}
    return release_all(
        cluster,
        {intent.job_id for intent in own.of(Rank)},
        {intent.job_id for intent in own.of(Hold)},
        now_s=now_s,
        settling=lambda state: [
            *undone_of_running(own, state.running),
            *_noted(undone(own, state.pending), own, now_s, keep),
            *settle_shared(state.pending, asked_for, sharing, now_s),
        ],
        within=lambda: clock.monotonic() < until_s,
        rest=lambda: clock.wait(REST_S, Event()),
    )


def _noted(actions: list[Action], own: OwnIntents, now_s: float, keep: Keep) -> list[Action]:
    """Return *actions* after sizes given back were saved as intents; without the database they go out all the same."""
    cycle_of = {intent.job_id: intent.cycle for intent in own.of(Rightsize)}
    sizes = [one for one in actions if isinstance(one, RestoreSize)]
    if sizes:
        try:
            keep([Intent(one.job_id, one.stored, one.value, now_s, cycle_of[one.job_id]) for one in sizes])
        except SlurmschedError as error:
            logger.warning("CPUs and memory that were given back stay as they are from now on: %s", error)
    return actions


def _close_answers(own: OwnIntents, now_s: float, keep: Keep) -> None:
    """Save that our answers are no longer in AdminComments; they are taken away whether that is possible or not."""
    if written := own.of(SetAdminComment):
        try:
            keep([intent._replace(closed_s=now_s) for intent in written])
        except SlurmschedError as error:
            logger.warning("answers that were taken back are not written again by a later daemon: %s", error)


class LoanStore(Protocol):
    """The record of lent nodes; raises MemoryUnavailable where it is away."""

    def loans(self, cluster: str) -> tuple[LentNodes, ...]:
        """Return the partitions whose nodes we changed."""
        ...

    def save_loans(self, cluster: str, loans: tuple[LentNodes, ...]) -> None:
        """Replace the record by these loans."""
        ...


def lends(name: str, store: LoanStore) -> bool:
    """Return True if any partition of cluster *name* is known to have other nodes than its admin gave it."""
    try:
        return bool(store.loans(name))
    except SlurmschedError:
        return False


def give_nodes_back(cluster: Slurm, name: str, store: LoanStore) -> str:
    """Restore the nodes of every partition of cluster *name*; return why that failed, empty for success."""
    try:
        loans = store.loans(name)
        refused = _restored(cluster, loans) if loans else None
        if loans and refused is None:
            store.save_loans(name, ())
    except SlurmschedError as error:
        return str(error)
    return refused or ""


def _restored(cluster: Slurm, loans: tuple[LentNodes, ...]) -> str | None:
    state = cluster.observe()
    before, own = lent_lists(loans, state.partitions, state.nodes.name.names)
    if before == own:
        return None
    refused = cluster.act([MoveNodes.between(own, before, own)])[0].refused
    if refused is None:
        logger.info("gave nodes back to the partitions %s", ", ".join(own))
    return refused
