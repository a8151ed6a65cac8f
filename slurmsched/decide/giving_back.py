"""Give jobs their own back where a change of ours keeps them from starting, and remember not to repeat it. Pure.

Slurm tells by its reason that it never starts a job as it is. Whatever made it so (a limit lowered after our write, a
write that Slurm took over in half, a node that lost memory), what its owner asked for is not worse than our change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..cluster.actions import Action, Avoid, MovePartition, Resize, RestoreSize, Unsteer
from ..cluster.avoided import HALF_TAKEN
from ..cluster.jobs import JobTable
from ..cluster.limits import limits_of
from ..cluster.node_request import read_request
from ..cluster.reasons import Limit, Reason, ReasonKind, reason_of
from ..cluster.resized_request import gpus_asked
from ..cluster.state import View
from .blocked import never_starts
from .job_nodes import plain_request
from .not_repeated import MOVE, RESIZE, RIGHTSIZE, STEER, avoids, digests
from .rules import Rules

_AMOUNTS = ("cpu", "mem", "gres", "node", "billing", "energy", "unknown")
"""What of a job counts for limits of groups and may be ours."""


@dataclass(frozen=True)
class GivenBack:
    """What goes back in one decision."""

    wishes: tuple[Action, ...] = ()
    jobs: frozenset[int] = field(default_factory=frozenset)  #: ids of those that get no other change


def give_back_wishes(view: View, rules: Rules) -> GivenBack:
    """Return the ends of all changes of jobs that do not start with them, and what to remember of these."""
    jobs = view.pending
    changed = (
        jobs.steered.nonempty() | jobs.own_request.nonempty() | (jobs.own_gpus > 0) | jobs.own_partition.nonempty()
    )
    if not rules.executor.changes_requests or not changed.any():
        return GivenBack()
    wishes: list[Action] = []
    given: set[int] = set()
    for row in np.flatnonzero(changed).tolist():
        changes, reason = _to_give_back(view, row)
        if not changes:
            continue
        ends = list(_ends(jobs, row, changes))
        if not ends:
            continue
        given.add(int(jobs.job_id[row]))
        wishes += ends
        note = Avoid(int(jobs.job_id[row]), "+".join(changes), *digests(view, jobs, row), reason)
        if not all(avoids(view, jobs, row, change) for change in changes):
            wishes.append(note)
    return GivenBack(tuple(wishes), frozenset(given))


def _to_give_back(view: View, row: int) -> tuple[tuple[str, ...], str]:
    """Return the changes of a pending job that go back, and the reason for that."""
    jobs = view.pending
    all_ours = _changes(jobs, row)
    reason = reason_of(jobs.reason[row])
    if never_starts(jobs, row):
        return all_ours, reason.word
    if reason.kind is ReasonKind.LIMIT and (larger := tuple(_enlarged(view, row, all_ours, reason))):
        return larger, reason.word
    half = tuple(change for change in all_ours if change in jobs.half_written[row].split("+"))
    return half, HALF_TAKEN


def _changes(jobs: JobTable, row: int) -> tuple[str, ...]:
    ours = (
        (STEER, bool(jobs.steered[row])),
        (RIGHTSIZE, bool(jobs.own_request[row])),
        (RESIZE, bool(jobs.own_gpus[row] > 0)),
        (MOVE, bool(jobs.own_partition[row])),
    )
    return tuple(change for change, is_ours in ours if is_ours)


def _enlarged(view: View, row: int, changes: tuple[str, ...], reason: Reason) -> Iterator[str]:
    """Yield those of *changes* by which a job counts for more of the limit of a group or user."""
    jobs, limit = view.pending, reason.limit
    if limit is None or limit.resource not in _AMOUNTS:
        return
    own, present = read_request(jobs.own_request[row]), read_request(jobs.node_request[row])
    many = max(int(jobs.nodes[row]), 1)
    for change in changes:
        if change == RESIZE and max(int(jobs.gpus[row]), gpus_asked(jobs, row)) > jobs.own_gpus[row]:
            yield change
        elif change == RIGHTSIZE and own is not None and present is not None:
            more_mib = present.node_memory_mib(many) > own.node_memory_mib(many)
            if present.node_cpus(many) > own.node_cpus(many) or more_mib:
                yield change
        elif change == STEER and limit.resource == "gres" and _of_types(view, row, limit):
            yield change


def _of_types(view: View, row: int, named: Limit) -> bool:
    """Return whether the limit may be one of the type of GPU to which a job was sent: known so, or not known at all."""
    found = [limit for limit in limits_of(view.limits, view.partitions, view.pending, row) if limit.is_named_by(named)]
    return not found or any(":" in limit.resource for limit in found)


def _ends(jobs: JobTable, row: int, changes: tuple[str, ...]) -> Iterator[Action]:
    """Yield the writes that end *changes* of a pending job."""
    job = int(jobs.job_id[row])
    if MOVE in changes:
        yield MovePartition(job, jobs.own_partition[row], jobs.own_partition[row])
    if STEER in changes:
        yield Unsteer(job, jobs.excluded_nodes[row])
    if RESIZE in changes and plain_request(jobs, by_nodes=True)[row]:
        own = int(jobs.own_gpus[row])
        yield Resize(job, own, gpus_asked(jobs, row), own, int(jobs.gpus_each[row]), int(jobs.taken_nodes[row]))
    if RIGHTSIZE in changes:
        yield RestoreSize(job, jobs.node_request[row], jobs.own_request[row])
