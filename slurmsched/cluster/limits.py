"""Limits that jobs share: of a QOS, an account, a user, licences or an array, and the jobs that count for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .columns import BoolArray, FloatArray, IntArray, Labels, Table, from_slurm, table_of
from .jobs import JobTable
from .nodes import PartitionTable
from .reason_table import MINUTES, RUN_MINUTES
from .reasons import Limit, Whose, reason_of

QOS, ACCOUNT, LICENCE, ARRAY = "qos", "account", "licence", "array"
GROUP, USER, EACH_ACCOUNT, JOB, NODE, LEAST = "group", "user", "account", "job", "node", "least"
"""What a limit counts together; the last three are a most for each job, and each of its nodes, and a least of a job."""

OF_ONE_JOB = (JOB, NODE, LEAST)
"""Limits that no other job uses up."""

BILLING = "billing"
UNCOUNTED = (BILLING, MINUTES)
"""Resources of which the columns of a job do not tell how much it takes: by weights of its partition, or of which the
use so far is not known."""

OVER_TIME = (MINUTES, RUN_MINUTES)
"""What stands before another resource, as in ``minutes:gpu``: its amount times the minutes of the job's time limit. All
the minutes that were ever used count for a group's MINUTES, those that running jobs may still use for RUN_MINUTES."""

SUBMIT = "submit"
"""The resource of a most of jobs that wait or run: sbatch refuses more, and those that are there are held by none."""

OVER_PARTITION = "OverPartQOS"
"""The flag of a QOS that comes before the one of the job's partition."""

DENIES = "DenyOnLimit"
"""The flag of a QOS with which sbatch refuses a job that is beyond a limit by itself."""

SAFE = "Safe"
"""The flag of a limit of MINUTES of a group that starts a job only if its whole time limit is left of them; else a
minute is enough (``AccountingStorageEnforce=safe``)."""

RULES = "rules of a QOS"
"""In place of whose a limit is: the flags of a QOS, and the factor by which it enlarges limits of associations."""

UNREAD = "unread"
"""In place of whose a limit is: limits could not be read, and the name says why."""

_WHOSE = {Whose.QOS: QOS, Whose.ACCOUNT: ACCOUNT, Whose.LICENCES: LICENCE, Whose.ARRAY: ARRAY}
_RESOURCE = {"gres": "gpu", "license": "licence"}
_SLURMS = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "gpu": "GRES", "wall": "WallDuration", "jobs": "Jobs"}
_TIMES = {MINUTES: "Minutes", RUN_MINUTES: "RunMinutes"}
_PER = {JOB: "PerJob", NODE: "PerNode", USER: "PerUser", EACH_ACCOUNT: "PerAccount"}
_COUNTS = {"group": (GROUP,), "user": (USER,), "account": (EACH_ACCOUNT,), "job": (JOB, LEAST), "node": (NODE,)}

_NOT_ENLARGED = ("jobs", SUBMIT, "wall", MINUTES)

FEW = 4
"""Texts for which a comparison each takes less than a search in all of them."""

_LICENCE = re.compile(
    r"([^:=]+)(?:[:=]\s*\+?(\d+))?"
)  # that of a server of licences has its name behind it, as foo@flex


@dataclass(frozen=True, eq=False)
class LimitTable(Table):
    """Limits as Slurm has them, one row each; empty where nobody needs them or Slurm has none."""

    whose: Labels = from_slurm()  #: QOS, ACCOUNT or LICENCE, or RULES; UNREAD in a table of one row
    name: Labels = from_slurm()  #: of the QOS, account or licence
    members: Labels = from_slurm()  #: the accounts whose jobs count, a comma list; empty where they are not asked for
    user: Labels = from_slurm()  #: the one user for whose jobs it is; empty for all
    partition: Labels = from_slurm()  #: the one partition for whose jobs it is; empty for all
    counts: Labels = from_slurm()  #: GROUP, USER, EACH_ACCOUNT, JOB, NODE or LEAST
    #: jobs, gpu, gpu:TYPE, cpu, mem (MiB), node, wall (seconds), licence, SUBMIT, or one of UNCOUNTED; gpu, gpu:TYPE,
    #: cpu and node also behind one of OVER_TIME
    resource: Labels = from_slurm()
    most: FloatArray = from_slurm()  #: of RULES the factor (LimitFactor), 0 for none
    flags: Labels = from_slurm(given=False)  #: of the QOS, a comma list; and SAFE
    used: FloatArray = from_slurm(given=False)  #: minutes that are gone, of a group's limit of MINUTES; else 0

    @property
    def has_minutes(self) -> bool:
        """True if some limit is used up with time."""
        return any(text.startswith(f"{MINUTES}:") for text in self.resource.names)


def limit_table(rows: Sequence[Mapping[str, str | float]]) -> LimitTable:
    """Return limits of *rows* with their columns by name; missing ones are empty or 0."""
    names = {name for row in rows for name in row}
    columns = {name: [row.get(name, 0.0 if name in ("most", "used") else "") for row in rows] for name in names}
    return table_of(LimitTable, len(rows), {}, columns)


NO_LIMITS = limit_table([])


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
    of_partitions: str = ""  #: the partitions that have this QOS, a comma list: all their jobs count for it
    of_all_users: bool = False  #: of an association, and each user of the account may have one of his own
    used: float = 0.0  #: what is gone for good
    whole: bool = True  #: a job starts only if all that it asks for is left; else if anything is
    #: sbatch refuses a job that is beyond it by itself; hangs on the way in which the job may start, not on the limit
    denies: bool = field(default=False, compare=False)

    def counted(self, jobs: JobTable) -> BoolArray:
        """Select the *jobs* that count."""
        return self.concerns(jobs) & (self.amount(jobs) > 0)

    def concerns(self, jobs: JobTable) -> BoolArray:
        """Select the *jobs* that count if they take any of it."""
        counted = np.ones(len(jobs), dtype=np.bool_)
        if self.whose == QOS:
            counted &= _named(jobs.qos, self.name)
            if self.of_partitions:
                counted |= _named(jobs.partition, *self.of_partitions.split(","))
        if self.whose == ARRAY:
            counted &= (jobs.array_job_id == int(self.name)) | (jobs.job_id == int(self.name))
        if self.members:
            counted &= _named(jobs.account, *self.members.split(","))
        for column, wanted in ((jobs.user, self.user), (jobs.account, self.account)):
            if wanted:
                counted &= _named(column, wanted)
        if self.partition:
            counted &= _named(jobs.partition, self.partition)
        return counted

    @property
    def over(self) -> str:
        """One of OVER_TIME, or empty: jobs take of the resource only while they run."""
        family, _, kind = self.resource.partition(":")
        return family if kind and family in OVER_TIME else ""

    @property
    def taken(self) -> str:
        """The resource without the time."""
        return self.resource.removeprefix(f"{self.over}:") if self.over else self.resource

    def is_named_by(self, limit: Limit) -> bool:
        """Return True if this is the *limit* that a reason of Slurm's names, as far as its words tell."""
        if self.over != limit.over:
            return False
        family = self.taken.partition(":")[0]
        if self.whose != _WHOSE.get(limit.whose) or _RESOURCE.get(limit.resource, limit.resource) not in (
            family,
            "unknown",
        ):
            return False
        return self.whose in (LICENCE, ARRAY) or self.counts in _COUNTS.get(limit.of, ())

    def amount(self, jobs: JobTable) -> FloatArray:
        """Return how much each of *jobs* takes of it, if it counts."""
        if self.over:
            amount = replace(self, resource=self.taken).amount(jobs)
            return np.multiply(amount, jobs.time_limit_s / 60.0, where=amount > 0, out=np.zeros(len(jobs)))
        resource, _, kind = self.resource.partition(":")
        if resource == "licence":
            return jobs.licences.map([_licences(text, self.name) for text in jobs.licences.names], np.float64)
        if resource == "gpu":
            right = _named(jobs.gpu_type, kind) if kind else np.ones(len(jobs), dtype=np.bool_)
            return np.asarray(jobs.gpus * right, dtype=np.float64)
        column = {
            "cpu": jobs.cpus,
            "mem": jobs.memory_mib,
            "node": jobs.nodes,
            "wall": jobs.time_limit_s,
            SUBMIT: jobs.tasks,
        }.get(resource)
        return np.ones(len(jobs)) if column is None else np.asarray(column, dtype=np.float64)

    def asked(self, jobs: JobTable, row: int) -> float:
        """Return how much the job in *row* asks for by itself; of a node, Slurm takes the whole part of the mean."""
        amount = float(self.amount(jobs)[row])
        return float(np.floor(amount / max(int(jobs.nodes[row]), 1))) if self.counts == NODE else amount

    def is_beyond(self, asked: float) -> bool:
        """Return True if a job that asks for so much by itself is beyond it, whatever others take of it now."""
        if self.counts == LEAST:
            return asked < self.most
        left = self.most - self.used
        return asked > left if self.whole else asked > 0 >= left or self.is_refused(asked)

    def is_refused(self, asked: float) -> bool:
        """Return True if sbatch refuses a job that asks for so much by itself; it does not look at what is gone."""
        return self.denies and (asked < self.most if self.counts == LEAST else asked > self.most)

    @property
    def reason(self) -> str:
        """The reason of Slurm that names it."""
        whose = {ACCOUNT: "Assoc", QOS: "QOS"}.get(self.whose, "")
        of = {GROUP: "Grp", LEAST: "Min"}.get(self.counts, "Max")
        what = _SLURMS.get(self.taken.partition(":")[0], "Unknown")
        return f"{whose}{of}{what}{_TIMES.get(self.over, '')}{_PER.get(self.counts, '')}"


def limits_of(
    limits: LimitTable, partitions: PartitionTable, jobs: JobTable, row: int, *, uncounted: bool = False
) -> list[SharedLimit]:
    """Return the limits in force for the job in *row*, with whichever of its partitions and QOS it starts.

    Limits of UNCOUNTED resources and of SUBMIT are left out unless they are asked for.
    """
    first, *others = ways_of(limits, partitions, jobs, row, uncounted=uncounted)
    return [limit for limit in first if all(limit in other for other in others)]


def ways_of(
    limits: LimitTable, partitions: PartitionTable, jobs: JobTable, row: int, *, uncounted: bool = False
) -> list[list[SharedLimit]]:
    """Return the limits in force for the job in *row*, for each partition and QOS with which it may start.

    Of several limits of one kind Slurm holds a job to the first alone: of the partition's QOS, of its own (the other
    way round where that has OVER_PARTITION), of its association, of a user before that of all users of an account; but
    groups within groups all count (sacctmgr(1), qos(5)).
    """
    qos_of = dict(zip(partitions.name, partitions.qos, strict=True))
    ways = dict.fromkeys(
        (part, qos_of.get(part, ""), own) for part in jobs.partition[row].split(",") for own in jobs.qos[row].split(",")
    )
    every = {name for _, *names in ways for name in names}
    candidates = [
        _shared(limits, at, jobs, row, partitions) for at in _concerned(limits, jobs, row, every, uncounted).tolist()
    ]
    flags, factors = {name: _flags(limits, name) for name in every}, _factors(limits)
    found = []
    for part, of_part, own in ways:
        ranked = _ranked(of_part, own, flags)
        factor = next((factors[name] for name in ranked if name in factors), 0.0)
        held_to = (_enlarged(limit, factor) for limit in _in_force(candidates, part, ranked, flags))
        found.append([*_of_array(jobs, row), *held_to])
    return found


def _of_array(jobs: JobTable, row: int) -> list[SharedLimit]:
    """Return the limit of tasks that run at once, of the array of the job in *row*."""
    most = float(jobs.array_limit[row])
    return [SharedLimit(ARRAY, str(jobs.array_job_id[row]), GROUP, "jobs", most)] if most > 0 else []


def _concerned(limits: LimitTable, jobs: JobTable, row: int, qos: Collection[str], uncounted: bool) -> IntArray:
    """Return the rows of the limits of a job's user, account and licences, and of *qos*, in any partition."""
    account, asked = jobs.account[row], jobs.licences[row]
    of_account = [account in text.split(",") for text in limits.members.names]
    of_licence = [bool(asked) and _licences(asked, name) > 0 for name in limits.name.names]
    concerned = (
        (_named(limits.whose, QOS) & _named(limits.name, *qos))
        | (_named(limits.whose, ACCOUNT) & limits.members.map(of_account, np.bool_))
        | (_named(limits.whose, LICENCE) & limits.name.map(of_licence, np.bool_))
    ) & _named(limits.user, "", jobs.user[row])
    return np.flatnonzero(concerned if uncounted else concerned & ~_named(limits.resource, *UNCOUNTED, SUBMIT))


def _shared(limits: LimitTable, at: int, jobs: JobTable, row: int, partitions: PartitionTable) -> SharedLimit:
    """Return the limit in row *at* as it concerns a job."""
    whose, name, counts = limits.whose[at], limits.name[at], limits.counts[at]
    of_partitions = [part for part, qos in zip(partitions.name, partitions.qos, strict=True) if qos == name]
    return SharedLimit(
        whose,
        name,
        counts,
        limits.resource[at],
        float(limits.most[at]),
        user=jobs.user[row] if counts == USER else limits.user[at],
        account=jobs.account[row] if counts == EACH_ACCOUNT else "",
        members=limits.members[at],
        partition=limits.partition[at],
        of_partitions=",".join(of_partitions) if whose == QOS else "",
        of_all_users=whose == ACCOUNT and counts != GROUP and not limits.user[at],
        used=float(limits.used[at]),
        whole=counts != GROUP or not limits.resource[at].startswith(f"{MINUTES}:") or SAFE in limits.flags[at],
    )


def _flags(limits: LimitTable, qos: str) -> list[str]:
    rows = np.flatnonzero(_named(limits.whose, RULES, QOS) & _named(limits.name, qos))
    return sorted({flag for row in rows.tolist() for flag in limits.flags[row].split(",")})


def _factors(limits: LimitTable) -> dict[str, float]:
    """Return the factor of each QOS that has one."""
    rows = np.flatnonzero(_named(limits.whose, RULES) & (limits.most > 0))
    return {limits.name[row]: float(limits.most[row]) for row in rows.tolist()}


def _enlarged(limit: SharedLimit, factor: float) -> SharedLimit:
    """Return a limit as a QOS with a *factor* has it: GrpTRES and MaxTRES of associations are that much larger."""
    if not factor or limit.whose != ACCOUNT or limit.counts == NODE or limit.over or limit.resource in _NOT_ENLARGED:
        return limit
    return replace(limit, most=float(int(limit.most * factor)))


def _ranked(of_partition: str, own: str, flags: Mapping[str, list[str]]) -> list[str]:
    """Return the QOS of a partition and that of a job, that first whose limits come before the other's."""
    both = [own, of_partition] if OVER_PARTITION in flags[own] else [of_partition, own]
    return list(dict.fromkeys(filter(None, both)))


def _in_force(
    candidates: Sequence[SharedLimit], partition: str, qos: Sequence[str], flags: Mapping[str, list[str]]
) -> list[SharedLimit]:
    """Return those of the *candidates* to which a job is held in one *partition*, with its *qos* by rank."""
    denies = any(DENIES in flags[name] for name in qos)
    found: list[tuple[int, SharedLimit]] = []
    for limit in candidates:
        if limit.partition not in ("", partition) or (limit.whose == QOS and limit.name not in qos):
            continue
        rank = qos.index(limit.name) if limit.whose == QOS else len(qos) + limit.of_all_users
        found.append((rank, replace(limit, denies=denies and limit.whose in (QOS, ACCOUNT))))
    first: dict[tuple[str, str], int] = {}
    for rank, limit in found:
        for kind in _kinds(limit):
            first[kind] = min(rank, first.get(kind, rank))
    return [limit for rank, limit in found if all(rank <= first[kind] for kind in _kinds(limit)[:1])]


def _kinds(limit: SharedLimit) -> list[tuple[str, str]]:
    """Return the kind of limits of which the first alone counts, and those of others that it stands for; may be none.

    A limit of minutes whose use is not known may be one of each resource. A most of running jobs, be it of one user or
    of each account, stands for that of an association, which counts those of one user in one account.
    """
    if limit.whose not in (QOS, ACCOUNT) or limit.resource == MINUTES:
        return []
    if limit.resource in ("jobs", SUBMIT) and limit.counts in (USER, EACH_ACCOUNT):
        of_association = ("association", limit.resource)
        return [of_association] if limit.whose == ACCOUNT else [(limit.counts, limit.resource), of_association]
    return [(limit.counts, limit.resource)]


def by_known_limits(limits: LimitTable, partitions: PartitionTable, jobs: JobTable) -> BoolArray:
    """Select the *jobs* whose reason is a limit that is known here, and that running jobs use up."""
    named = {text: reason_of(text).limit for text in jobs.reason.names}
    limited = jobs.reason.map([limit is not None for limit in named.values()], np.bool_)
    if not limited.any():
        return limited

    def is_known(row: int) -> bool:
        reason = named[jobs.reason[row]]
        return reason is not None and any(
            limit.counts not in OF_ONE_JOB and not limit.over and limit.is_named_by(reason)
            for limit in limits_of(limits, partitions, jobs, row)
        )

    first, shape = shapes_of(jobs, jobs.reason)
    return np.asarray(np.array([is_known(row) for row in first.tolist()], dtype=np.bool_)[shape] & limited)


@dataclass(frozen=True)
class Memberships:
    """Which shared limits each of some jobs counts for; the limits of job *i* are ``limit[first[i]:first[i + 1]]``."""

    first: IntArray
    limit: IntArray
    amount: FloatArray  #: beside ``limit``: how much of it the job takes
    binds: BoolArray  #: likewise: the job starts only where it has room; others take of it all the same
    most: FloatArray  #: by limit

    @classmethod
    def of(cls, limits: LimitTable, partitions: PartitionTable, jobs: JobTable) -> Memberships:
        """Find the limits of all *jobs* that running jobs use up; those of a job by itself have no part in it."""
        shapes, shape = shapes_of(jobs)
        bound: dict[SharedLimit, list[int]] = {}
        none = not len(limits) and not (jobs.array_limit > 0).any()
        for at, row in enumerate([] if none else shapes.tolist()):
            for limit in limits_of(limits, partitions, jobs, row):
                if limit.counts not in OF_ONE_JOB and not limit.over:
                    bound.setdefault(limit, []).append(at)
        by_shape = np.argsort(shape, kind="stable")
        begins = np.searchsorted(shape[by_shape], np.arange(len(shapes) + 1)).tolist()
        one_of_each, all_amounts = jobs.take(shapes), {}
        rows, taken, binds = [], [], []
        for limit, bound_shapes in bound.items():
            concerned = np.flatnonzero(limit.concerns(one_of_each)).tolist()
            some = np.concatenate([by_shape[begins[one] : begins[one + 1]] for one in concerned])
            key = limit.resource, limit.name if limit.resource == "licence" else ""
            if key not in all_amounts:
                all_amounts[key] = limit.amount(jobs)
            amounts = all_amounts[key][some]
            rows.append(some[amounts > 0])
            taken.append(amounts[amounts > 0])
            binds.append(np.isin(shape[rows[-1]], bound_shapes))
        job = np.concatenate([*rows, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        number = np.repeat(np.arange(len(rows)), [len(some) for some in rows]).astype(np.int64)
        order = np.lexsort((number, job))
        return cls(
            np.searchsorted(job[order], np.arange(len(jobs) + 1)).astype(np.int64),
            number[order],
            np.concatenate([*taken, np.zeros(0)])[order],
            np.concatenate([*binds, np.zeros(0, dtype=np.bool_)])[order],
            np.array([limit.most for limit in bound], dtype=np.float64),
        )


def shapes_of(jobs: JobTable, *more: Labels) -> tuple[IntArray, IntArray]:
    """Return a row of each kind of job that the same limits concern, and which of these kinds each job is."""
    if not len(jobs):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    arrays = np.where(jobs.array_limit > 0, jobs.array_job_id, 0)
    columns = (jobs.user, jobs.account, jobs.qos, jobs.partition, jobs.licences, *more)
    shapes = np.stack([*(column.codes for column in columns), arrays, jobs.array_limit])
    _, first, shape = np.unique(shapes, axis=1, return_index=True, return_inverse=True)
    return first, shape.reshape(-1)


def _named(column: Labels, *names: str) -> BoolArray:
    codes = [column.names.index(name) for name in names if name in column.names]
    if len(codes) > FEW:
        return np.isin(column.codes, codes)
    found: BoolArray = np.zeros(len(column), dtype=np.bool_)
    for code in codes:
        found |= column.codes == code
    return found


def _licences(text: str, name: str) -> float:
    """Return how many licences of *name* a request such as ``matlab:2,foo`` has."""
    found = (_LICENCE.fullmatch(part) for part in re.split(r"[,;|]", text) if part)
    return float(sum(int(match[2] or 1) for match in found if match is not None and match[1] == name))
