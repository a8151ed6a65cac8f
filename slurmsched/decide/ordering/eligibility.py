"""Eligibility: select the pending jobs to order, and give the reason for leaving each other job alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.nodes import PartitionTable
from ...cluster.plan import Standing

_WAITING = {"", "None", "Resources", "Priority", "(null)"}
#: Nodes taken by a higher partition tier or a reservation become free like any others, and nodes that are down return;
#: Slurm 22.05 also leaves ReqNodeNotAvail on a job behind others long after its nodes have returned.
_WAITING_PREFIXES = ("Nodes required for job are DOWN, DRAINED or reserved", "ReqNodeNotAvail")
_LIMIT_PREFIXES = ("Assoc", "QOS", "Max", "Grp", "Licenses", "JobArrayTaskLimit")
_BY_REASON = {
    "JobHeldUser": Standing.HELD_BY_USER,
    "JobHeldAdmin": Standing.HELD_BY_ADMIN,
    "Dependency": Standing.WAITS_FOR_DEPENDENCY,
    "DependencyNeverSatisfied": Standing.WAITS_FOR_DEPENDENCY,
    "BeginTime": Standing.WAITS_FOR_BEGIN,
    "Reservation": Standing.IN_RESERVATION,
    "ReservationDeleted": Standing.IN_RESERVATION,
    "PartitionDown": Standing.PARTITION_CLOSED,
    "PartitionInactive": Standing.PARTITION_CLOSED,
    "PartitionNodeLimit": Standing.LIMIT_BLOCKED,
    "PartitionTimeLimit": Standing.LIMIT_BLOCKED,
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
    closed = {name for name, up in zip(partitions.name, partitions.up.tolist(), strict=True) if not up}
    result = jobs.reason.map([_of_reason(reason) for reason in jobs.reason.names], np.int64)
    ours = jobs.held_by_us & (result == Standing.WAITS_FOR_BEGIN)
    result[ours] = Standing.RANKED
    by_partition = [_of_partitions(names.split(","), closed, only) for names in jobs.partition.names]
    for rows, why in (
        (
            jobs.partition.map([s == Standing.PARTITION_CLOSED for s in by_partition], np.bool_),
            Standing.PARTITION_CLOSED,
        ),
        (jobs.reservation.map([bool(name) for name in jobs.reservation.names], np.bool_), Standing.IN_RESERVATION),
        (jobs.het_job_id > 0, Standing.HETEROGENEOUS),
        (jobs.partition.map([s == Standing.OUT_OF_SCOPE for s in by_partition], np.bool_), Standing.OUT_OF_SCOPE),
        (jobs.nice != 0, Standing.NICE_SET),
        (jobs.fixed, Standing.PRIORITY_FIXED),
        ((jobs.priority == 0) & (result != Standing.HELD_BY_USER), Standing.HELD_BY_ADMIN),
        (result == Standing.HELD_BY_USER, Standing.HELD_BY_USER),
        (jobs.off, Standing.OWNER_SAID_OFF),
        # Slurm's reason (BadConstraints, BeginTime) is a result of our own change.
        (jobs.shares, Standing.SHARES),
    ):
        if rows.any():
            result[rows] = why
    return result


def _of_reason(reason: str) -> Standing:
    if reason in _WAITING or reason.startswith(_WAITING_PREFIXES):
        return Standing.RANKED
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if reason.startswith(_LIMIT_PREFIXES):
        return Standing.LIMIT_BLOCKED
    return Standing.CANNOT_RUN


def _of_partitions(names: list[str], closed: Collection[str], only: Collection[str]) -> Standing:
    if all(name in closed for name in names):
        return Standing.PARTITION_CLOSED
    if only and not any(name in only for name in names):
        return Standing.OUT_OF_SCOPE
    return Standing.RANKED
