"""Whether Slurm starts a job neither now nor later as it is, by its reason and priority. Pure."""

from __future__ import annotations

from ..cluster.jobs import JobTable
from ..cluster.reasons import Ends, ReasonKind, reason_of


def never_starts(jobs: JobTable, row: int) -> bool:
    """Return True if Slurm never starts a pending job as it is: it says so, or has taken its priority.

    A job of several partitions or QOS may be blocked in one of them alone, as long as it has a priority.
    """
    reason = reason_of(jobs.reason[row])
    of_one = reason.of_one_way(jobs.partition[row], jobs.qos[row])
    if reason.kind is ReasonKind.CANNOT_RUN:
        return not of_one or bool(jobs.priority[row] == 0)
    return (
        not of_one and reason.kind is ReasonKind.LIMIT and reason.limit is not None and reason.limit.ends is Ends.NEVER
    )


def counts_for_a_limit(jobs: JobTable, row: int, *resources: str) -> bool:
    """Return True if a limit of a group or user of one of *resources* blocks a job, until others end or time passes."""
    reason = reason_of(jobs.reason[row])
    return reason.kind is ReasonKind.LIMIT and reason.limit is not None and reason.limit.resource in resources
