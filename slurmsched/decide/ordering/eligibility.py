"""Eligibility: select the pending jobs to order, and give the reason for leaving each other job alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.nodes import PartitionTable
from ...cluster.plan import Standing
from ...cluster.reasons import ReasonKind, of_one_way, reason_of

_BY_KIND = {
    ReasonKind.WAITS: Standing.RANKED,
    ReasonKind.LIMIT: Standing.LIMIT_BLOCKED,
    ReasonKind.HELD_BY_USER: Standing.HELD_BY_USER,
    ReasonKind.HELD_BY_ADMIN: Standing.HELD_BY_ADMIN,
    ReasonKind.HELD_BY_SLURM: Standing.HELD_BY_ADMIN,
    ReasonKind.DEPENDENCY: Standing.WAITS_FOR_DEPENDENCY,
    ReasonKind.DEPENDENCY_NEVER: Standing.WAITS_FOR_DEPENDENCY,
    ReasonKind.BEGIN: Standing.WAITS_FOR_BEGIN,
    ReasonKind.RESERVATION: Standing.IN_RESERVATION,
    ReasonKind.CLOSED: Standing.PARTITION_CLOSED,
    ReasonKind.CANNOT_RUN: Standing.CANNOT_RUN,
}

SOON_S = 60.0
"""A job whose begin time comes within this is sent to a type, or sized, now: it may start in the next cycle."""


def begins_soon(jobs: JobTable, standings: IntArray, now_s: float) -> BoolArray:
    """Select the jobs whose begin time comes so soon that they may start before the next cycle."""
    return np.asarray((standings == Standing.WAITS_FOR_BEGIN) & (jobs.eligible_s <= now_s + SOON_S), dtype=np.bool_)


def standing(jobs: JobTable, partitions: PartitionTable, only: Collection[str] = ()) -> IntArray:
    """Return a Standing per pending job. *only* names the partitions we order; empty means all.

    If several reasons apply, the one closest to a person's decision wins: the owner's ``off``, then a hold, then a
    priority or nice value set by hand, then Slurm's reason.
    """
    result = _of_reasons(jobs)
    ours = jobs.held_by_us & (result == Standing.WAITS_FOR_BEGIN)
    result[ours] = Standing.RANKED
    for rows, why in [*_of_partition(jobs, partitions, only), *_of_people(jobs, result)]:
        result[rows] = why
    return result


def _of_partition(jobs: JobTable, partitions: PartitionTable, only: Collection[str]) -> list[tuple[BoolArray, int]]:
    """Return the jobs that their partition, reservation or form keeps out of our order, and why."""
    closed = {name for name, up in zip(partitions.name, partitions.up.tolist(), strict=True) if not up}
    each = [_by_names(names.split(","), closed, only) for names in jobs.partition.names]
    found: list[tuple[BoolArray, int]] = []
    for why, rows in (
        (Standing.PARTITION_CLOSED, None),
        (Standing.IN_RESERVATION, jobs.reservation.nonempty()),
        (Standing.HETEROGENEOUS, jobs.het_job_id > 0),
        (Standing.OUT_OF_SCOPE, None),
    ):
        if rows is None and why in each:
            rows = jobs.partition.map([one == why for one in each], np.bool_)
        if rows is not None and rows.any():
            found.append((rows, why))
    return found


def _of_people(jobs: JobTable, result: IntArray) -> Iterator[tuple[BoolArray, int]]:
    """Yield the jobs that a person holds, ranks or opts out, and why; *result* has what Slurm's reasons say."""
    held = result == Standing.HELD_BY_USER
    for rows, why in ((jobs.nice != 0, Standing.NICE_SET), (jobs.fixed, Standing.PRIORITY_FIXED)):
        if rows.any():
            yield rows, why
    without_priority = jobs.priority == 0
    if without_priority.any():
        # Slurm takes the priority of a job that it can never start, and nobody holds it.
        never = jobs.reason.map([reason_of(text).kind is ReasonKind.CANNOT_RUN for text in jobs.reason.names], np.bool_)
        yield without_priority & ~never & ~held, Standing.HELD_BY_ADMIN
        yield without_priority & never, Standing.CANNOT_RUN
    # Of a job that shares, Slurm's reason (BadConstraints, BeginTime) is a result of our own change.
    for rows, why in (
        (held, Standing.HELD_BY_USER),
        (jobs.off, Standing.OWNER_SAID_OFF),
        (jobs.shares, Standing.SHARES),
    ):
        if rows.any():
            yield rows, why


def _of_reasons(jobs: JobTable) -> IntArray:
    result: IntArray = jobs.reason.map([_BY_KIND[reason_of(text).kind] for text in jobs.reason.names], np.int64)
    result[of_one_way(jobs)] = _BY_KIND[ReasonKind.WAITS]
    return result


def _by_names(names: list[str], closed: Collection[str], only: Collection[str]) -> Standing:
    if all(name in closed for name in names):
        return Standing.PARTITION_CLOSED
    if only and not any(name in only for name in names):
        return Standing.OUT_OF_SCOPE
    return Standing.RANKED
