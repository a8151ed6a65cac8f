"""The return of jobs and nodes to Slurm: on an ordered stop, and for ``slurmsched release-all``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Protocol

from ..clock import Clock
from ..cluster.actions import MoveNodes, MovePartition, Resize, RestoreSize, Unsteer, spelling
from ..cluster.jobs import JobTable
from ..cluster.records.node_loans import LentNodes, lent_lists
from ..cluster.resized_request import gpus_asked
from ..db.tracking.intent_records import Intent
from ..db.tracking.intents import Intents
from ..decide.rules import SharingRules
from ..decide.sharing.packing import settle_shared
from ..errors import SlurmschedError
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
    until_s, now_s = clock.monotonic() + FOR_JOBS * budget_s, clock.now()
    _close_answers(intents, now_s, keep)
    asked_for = {intent.job_id: str(intent.value) for intent in intents if intent.kind == "Share"}
    return release_all(
        cluster,
        {intent.job_id for intent in intents if intent.kind == "Rank"},
        {intent.job_id for intent in intents if intent.kind == "Hold"},
        now_s=now_s,
        settling=lambda state: [
            *moved_back(state.pending, intents),
            *let_go(state.pending, intents),
            *_noted(sizes_restored(state.pending, intents), intents, now_s, keep),
            *own_sizes(state.pending, intents),
            *settle_shared(state.pending, asked_for, sharing, now_s),
        ],
        within=lambda: clock.monotonic() < until_s,
        rest=lambda: clock.wait(REST_S, Event()),
    )


def let_go(pending: JobTable, intents: Sequence[Intent]) -> list[Unsteer]:
    """Return the ends of our exclusions of nodes, of jobs that still exclude just what we wrote."""
    steered = Intents(intent for intent in intents if intent.kind == "Steer").steered(pending)[0]
    rows = zip(pending.job_id.tolist(), steered, pending.excluded_nodes, strict=True)
    return [Unsteer(job, present) for job, types, present in rows if types]


def moved_back(pending: JobTable, intents: Sequence[Intent]) -> list[MovePartition]:
    """Return the ends of our changes of partitions, of jobs that are still in just those that we wrote."""
    own = Intents(intent for intent in intents if intent.kind == "MovePartition").moved(pending)
    rows = zip(pending.job_id.tolist(), own, strict=True)
    return [MovePartition(job, partitions, partitions) for job, partitions in rows if partitions]


def sizes_restored(pending: JobTable, intents: Sequence[Intent]) -> list[RestoreSize]:
    """Return the ends of our changes of CPUs and memory, of jobs that still ask for just what we wrote."""
    own = Intents(intent for intent in intents if intent.kind in ("Rightsize", "RestoreSize")).sized(pending)[0]
    rows = zip(pending.job_id.tolist(), pending.node_request, own, strict=True)
    return [RestoreSize(job, before, after) for job, before, after in rows if after]


def _noted(actions: list[RestoreSize], intents: Sequence[Intent], now_s: float, keep: Keep) -> list[RestoreSize]:
    """Return *actions* after they were saved as intents; without the database they are carried out all the same."""
    cycle_of = {intent.job_id: intent.cycle for intent in intents if intent.kind == "Rightsize"}
    if actions:
        try:
            keep([Intent(one.job_id, spelling(one), one.own, now_s, cycle_of[one.job_id]) for one in actions])
        except SlurmschedError as error:
            logger.warning("CPUs and memory that were given back stay as they are from now on: %s", error)
    return actions


def _close_answers(intents: Sequence[Intent], now_s: float, keep: Keep) -> None:
    """Save that our answers are no longer in AdminComments; they are taken away whether that is possible or not."""
    written = [intent for intent in intents if intent.kind == "Tell" and intent.closed_s is None]
    if written:
        try:
            keep([replace(intent, closed_s=now_s) for intent in written])
        except SlurmschedError as error:
            logger.warning("answers that were taken back are not written again by a later daemon: %s", error)


def own_sizes(pending: JobTable, intents: Sequence[Intent]) -> list[Resize]:
    """Return the changes that give jobs the GPUs back that they asked for, where they ask for what we wrote."""
    own, _, each, _, taken = Intents(intent for intent in intents if intent.kind == "Resize").resized(pending)
    asked = [
        int(pending.gpus[row]) if on_each else gpus_asked(pending, row) for row, on_each in enumerate(each.tolist())
    ]
    rows = zip(pending.job_id.tolist(), asked, own.tolist(), each.tolist(), taken.tolist(), strict=True)
    return [Resize(job, mine, gpus, mine, on_each, nodes) for job, gpus, mine, on_each, nodes in rows if mine]


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
