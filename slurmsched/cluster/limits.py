"""Limits that jobs share: of a QOS, an account, a user, licences or an array, and the jobs that count for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, from_slurm, table_of
from .jobs import JobTable
from .reasons import Limit, Whose, reason_of

QOS, ACCOUNT, LICENCE, ARRAY = "qos", "account", "licence", "array"
GROUP, USER, EACH_ACCOUNT, JOB, NODE, LEAST = "group", "user", "account", "job", "node", "least"
"""What a limit counts together; the last three are a most for each job, and each of its nodes, and a least of a job."""

OF_ONE_JOB = (JOB, NODE, LEAST)
"""Limits that no other job uses up."""

BILLING, MINUTES = "billing", "minutes"
UNCOUNTED = (BILLING, MINUTES)
"""Resources of which the columns of a job do not tell how much it takes: by weights of its partition, or with time."""

UNREAD = "unread"
"""In place of whose a limit is: limits could not be read, and the name says why."""

_WHOSE = {Whose.QOS: QOS, Whose.ACCOUNT: ACCOUNT, Whose.LICENCES: LICENCE, Whose.ARRAY: ARRAY}
_RESOURCE = {"gres": "gpu", "license": "licence"}
_COUNTS = {"group": (GROUP,), "user": (USER,), "account": (EACH_ACCOUNT,), "job": (JOB, LEAST), "node": (NODE,)}

_LICENCE = re.compile(r"([^:=@]+)(?:@[^:=]+)?(?:[:=]\s*\+?(\d+))?")


@dataclass(frozen=True, eq=False)
class LimitTable(Table):
    """Limits as Slurm has them, one row each; empty where nobody needs them or Slurm has none."""

    whose: Labels = from_slurm()  #: QOS, ACCOUNT or LICENCE; UNREAD in a table of one row
    name: Labels = from_slurm()  #: of the QOS, account or licence
    members: Labels = from_slurm()  #: the accounts whose jobs count, a comma list; empty where they are not asked for
    user: Labels = from_slurm()  #: the one user for whose jobs it is; empty for all
    partition: Labels = from_slurm()  #: the one partition for whose jobs it is; empty for all
    counts: Labels = from_slurm()  #: GROUP, USER, EACH_ACCOUNT, JOB, NODE or LEAST
    #: jobs, gpu, gpu:TYPE, cpu, mem (MiB), node, wall (seconds), licence, or one of UNCOUNTED
    resource: Labels = from_slurm()
    most: FloatArray = from_slurm()


NO_LIMITS = table_of(LimitTable, 0, {}, {})


def unread_limits(why: str) -> LimitTable:
    """Return the limits where they could not be read."""
    return table_of(LimitTable, 1, {}, {"whose": Labels.of([UNREAD]), "name": Labels.of([why])})


def why_unread(limits: LimitTable) -> str:
    """Return why limits could not be read; empty if they were, or if nobody needs them."""
    return limits.name[0] if len(limits) and limits.whose[0] == UNREAD else ""


@dataclass(frozen=True)
class SharedLimit:
    """A limit as it concerns one job: whose it is, how much is allowed, and the jobs that it counts together."""

    whose: str
    name: str
    counts: str
    resource: str
    most: float
    user: str = ""  #: whose jobs count, where they are one user's
    account: str = ""  #: likewise, of one account
    members: str = ""
    partition: str = ""

    def counted(self, jobs: JobTable) -> BoolArray:
        """Select the *jobs* that count."""
        counted = np.ones(len(jobs), dtype=np.bool_)
        if self.whose == QOS:
            counted &= _named(jobs.qos, self.name)
        if self.whose == ARRAY:
            counted &= (jobs.array_job_id == int(self.name)) | (jobs.job_id == int(self.name))
        if self.members:
            counted &= _named(jobs.account, *self.members.split(","))
        for column, wanted in ((jobs.user, self.user), (jobs.account, self.account)):
            if wanted:
                counted &= _named(column, wanted)
        if self.partition:
            counted &= _named(jobs.partition, self.partition)
        return counted & (self.amount(jobs) > 0)

    def is_named_by(self, limit: Limit) -> bool:
        """Return True if this is the *limit* that a reason of Slurm's names, as far as its words tell."""
        family = self.resource.partition(":")[0]
        if self.whose != _WHOSE.get(limit.whose) or _RESOURCE.get(limit.resource, limit.resource) not in (
            family,
            "unknown",
        ):
            return False
        return self.whose in (LICENCE, ARRAY) or self.counts in _COUNTS.get(limit.of, ())

    def amount(self, jobs: JobTable) -> FloatArray:
        """Return how much each of *jobs* takes of it, if it counts."""
        resource, _, kind = self.resource.partition(":")
        if resource == "licence":
            return jobs.licences.map([_licences(text, self.name) for text in jobs.licences.names], np.float64)
        if resource == "gpu":
            right = _named(jobs.gpu_type, kind) if kind else np.ones(len(jobs), dtype=np.bool_)
            return np.asarray(jobs.gpus * right, dtype=np.float64)
        column = {"cpu": jobs.cpus, "mem": jobs.memory_mib, "node": jobs.nodes, "wall": jobs.time_limit_s}.get(resource)
        return np.ones(len(jobs)) if column is None else np.asarray(column, dtype=np.float64)


def limits_of(
    limits: LimitTable, jobs: JobTable, row: int, more_qos: Collection[str] = (), *, uncounted: bool = False
) -> Iterator[SharedLimit]:
    """Yield the limits that concern the job in *row*; of several of one kind of a user, the user's own alone.

    *more_qos* are those of its partitions. Limits of UNCOUNTED resources are left out unless they are asked for.
    """
    mine = {*jobs.qos[row].split(","), *more_qos}
    if jobs.array_limit[row] > 0:
        yield SharedLimit(ARRAY, str(jobs.array_job_id[row]), GROUP, "jobs", float(jobs.array_limit[row]))
    own = {
        (limits.name[at], limits.resource[at], limits.counts[at])
        for at in range(len(limits))
        if limits.user[at] and limits.user[at] == jobs.user[row]
    }
    for at in range(len(limits)):
        whose, name, counts = limits.whose[at], limits.name[at], limits.counts[at]
        if whose == UNREAD or (limits.resource[at] in UNCOUNTED and not uncounted):
            continue
        if limits.user[at] not in ("", jobs.user[row]) or limits.partition[at] not in ("", jobs.partition[row]):
            continue
        if whose == QOS and name not in mine:
            continue
        if whose == ACCOUNT and jobs.account[row] not in limits.members[at].split(","):
            continue
        if whose == LICENCE and not _licences(jobs.licences[row], name):
            continue
        if not limits.user[at] and (name, limits.resource[at], counts) in own and counts != GROUP:
            continue
        yield SharedLimit(
            whose,
            name,
            counts,
            limits.resource[at],
            float(limits.most[at]),
            user=jobs.user[row] if counts == USER else limits.user[at],
            account=jobs.account[row] if counts == EACH_ACCOUNT else "",
            members=limits.members[at],
            partition=limits.partition[at],
        )


def by_known_limits(limits: LimitTable, jobs: JobTable) -> BoolArray:
    """Select the *jobs* whose reason is a limit that is known here, and that running jobs use up."""
    named = {text: reason_of(text).limit for text in jobs.reason.names}
    limited = jobs.reason.map([limit is not None for limit in named.values()], np.bool_)
    if not limited.any():
        return limited

    def is_known(row: int) -> bool:
        reason = named[jobs.reason[row]]
        return reason is not None and any(
            limit.counts not in OF_ONE_JOB and limit.is_named_by(reason) for limit in limits_of(limits, jobs, row)
        )

    first, shape = _shapes(jobs, jobs.reason)
    return np.asarray(np.array([is_known(row) for row in first.tolist()], dtype=np.bool_)[shape] & limited)


@dataclass(frozen=True)
class Memberships:
    """Which shared limits each of some jobs counts for; the limits of job *i* are ``limit[first[i]:first[i + 1]]``."""

    first: IntArray
    limit: IntArray
    amount: FloatArray  #: beside ``limit``: how much of it the job takes
    most: FloatArray  #: by limit

    @classmethod
    def of(cls, limits: LimitTable, jobs: JobTable) -> Memberships:
        """Find the limits of all *jobs* that running jobs use up; those of a job by itself have no part in it."""
        found: dict[SharedLimit, BoolArray] = {}
        none = not len(limits) and not (jobs.array_limit > 0).any()
        for row in [] if none else _shapes(jobs)[0].tolist():
            for limit in limits_of(limits, jobs, row):
                if limit.counts not in OF_ONE_JOB and limit not in found:
                    found[limit] = limit.counted(jobs)
        rows = [np.flatnonzero(counted) for counted in found.values()]
        job = np.concatenate([*rows, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        number = np.repeat(np.arange(len(rows)), [len(some) for some in rows]).astype(np.int64)
        taken = [limit.amount(jobs)[some] for limit, some in zip(found, rows, strict=True)]
        order = np.lexsort((number, job))
        return cls(
            np.searchsorted(job[order], np.arange(len(jobs) + 1)).astype(np.int64),
            number[order],
            np.concatenate([*taken, np.zeros(0)])[order],
            np.array([limit.most for limit in found], dtype=np.float64),
        )


def _shapes(jobs: JobTable, *more: Labels) -> tuple[IntArray, IntArray]:
    """Return a row of each kind of job that the same limits concern, and which of these each job is."""
    if not len(jobs):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    arrays = np.where(jobs.array_limit > 0, jobs.array_job_id, 0)
    columns = (jobs.user, jobs.account, jobs.qos, jobs.partition, jobs.licences, *more)
    shapes = np.stack([*(column.codes for column in columns), arrays, jobs.array_limit])
    _, first, shape = np.unique(shapes, axis=1, return_index=True, return_inverse=True)
    return first, shape.reshape(-1)


def _named(column: Labels, *names: str) -> BoolArray:
    return column.map([text in names for text in column.names], np.bool_)


def _licences(text: str, name: str) -> float:
    """Return how many licences of *name* a request such as ``matlab:2,foo`` has."""
    found = (_LICENCE.fullmatch(part) for part in re.split(r"[,;|]", text) if part)
    return float(sum(int(match[2] or 1) for match in found if match is not None and match[1] == name))
