"""Slurm's reasons of pending jobs: what each means, whether waiting can end it, and a clause that says so.

The words are those that squeue prints, of Slurm 22.05 to 26.05 (squeue(1), "JOB REASON CODES"; job_reason_codes.html).
Some reasons are texts with a name or a number in them: their beginning decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np

from .columns import BoolArray, Labels


class ReasonKind(Enum):
    """What has to happen before a job with a reason may start."""

    WAITS = "waits"  #: for nodes, its turn, a licence server, the end of its last run: Slurm goes on by itself
    LIMIT = "limit"  #: a limit of a QOS, an account, a user, an array or licences
    HELD_BY_USER = "held by its user"
    HELD_BY_ADMIN = "held by an administrator"
    HELD_BY_SLURM = "held by Slurm"  #: after a failure, until somebody releases it
    DEPENDENCY = "dependency"
    DEPENDENCY_NEVER = "dependency that can never be met"
    BEGIN = "begin time"
    RESERVATION = "reservation"
    CLOSED = "closed partition"
    CANNOT_RUN = "cannot run"  #: as it is: the request or the cluster must change


class Whose(Enum):
    """The owner of a limit."""

    PARTITION = "its partition"
    QOS = "its QOS"
    ACCOUNT = "its account"
    ARRAY = "its array"
    LICENCES = "its licences"


class Ends(Enum):
    """How a limit stops to block a job."""

    WITH_JOBS = "when jobs that count for the limit end"
    WITH_TIME = "when the usage that counts for the limit has decayed or is reset"
    NEVER = "not by waiting: the job asks for more than is allowed, or for less than is required"


@dataclass(frozen=True)
class Limit:
    """A limit that blocks a job."""

    whose: Whose
    resource: str  #: cpu, mem, node, gres, license, bb, energy, billing, jobs, submit, wall or unknown
    of: str  #: what it counts together: group, user, account, job, node, array
    ends: Ends


@dataclass(frozen=True)
class Reason:
    """What Slurm's reason for a pending job means."""

    word: str  #: Slurm's word, or its text where that has none; empty where it gives no reason
    kind: ReasonKind
    clause: str  #: "it waits for ...", without a full stop
    limit: Limit | None = None
    one_partition: bool = False  #: judged for one partition, so of a job in several it tells nothing of the others
    known: bool = True  #: False for a text that no release known to us prints


_W = ReasonKind.WAITS
_NOT_SEEN = "Slurm has not looked at it since its last change"
_ENDED = "its last run ended badly, and Slurm puts it back into the queue"
_TOPOLOGY = "no part of the network's topology has room for it now"
_HELD = "it was put back into the queue under a hold"

_PLAIN: Mapping[str, tuple[ReasonKind, str]] = {
    "": (_W, _NOT_SEEN),
    "None": (_W, _NOT_SEEN),
    "(null)": (_W, _NOT_SEEN),
    "WaitingForScheduling": (_W, _NOT_SEEN),
    "InvalidReason": (_W, _NOT_SEEN),
    "Priority": (_W, "jobs with a higher priority stand before it"),
    "Resources": (_W, "it waits for free nodes"),
    "ReqNodeNotAvail": (_W, "nodes that it asks for are down, drained, reserved or in use"),
    "Constraints": (_W, "no nodes meet its constraints at present"),
    "SchedDefer": (_W, "Slurm starts jobs only in its next pass"),
    "Prolog": (_W, "the prolog of its start is still running"),
    "Cleaning": (_W, "its last run is still being cleaned up"),
    "FrontEndDown": (_W, "no front-end node is available"),
    "BurstBufferResources": (_W, "it waits for room in a burst buffer"),
    "BurstBufferStageIn": (_W, "its files are being copied to a burst buffer"),
    "PowerNotAvail": (_W, "it waits for electrical power"),
    "PowerReserved": (_W, "it waits for electrical power, which is reserved"),
    "MaxPoweredUpNodes": (_W, "as many nodes are powered up as Slurm may power up"),
    "MpiPortsBusy": (_W, "it waits for free MPI ports"),
    "NvidiaImexChannels": (_W, "it waits for a free NVIDIA IMEX channel"),
    "BlockMaxError": (_W, "its block of nodes is in an error state"),
    "BlockFreeAction": (_W, "its block of nodes is being freed"),
    "FedJobLock": (_W, "the clusters of the federation agree on where it runs"),
    "NodeDown": (_W, "a node of its last run went down, and Slurm puts it back into the queue"),
    "SystemFailure": (_W, _ENDED),
    "JobLaunchFailure": (_W, _ENDED),
    "NonZeroExitCode": (_W, _ENDED),
    "RaisedSignal": (_W, _ENDED),
    "TimeLimit": (_W, _ENDED),
    "InactiveLimit": (_W, _ENDED),
    "OutOfMemory": (_W, _ENDED),
    "JobHeldUser": (ReasonKind.HELD_BY_USER, "its owner holds it"),
    "JobHeldAdmin": (ReasonKind.HELD_BY_ADMIN, "an administrator holds it"),
    "JobHoldMaxRequeue": (ReasonKind.HELD_BY_SLURM, "Slurm holds it: it failed to start too many times"),
    "BurstBufferOperation": (ReasonKind.HELD_BY_SLURM, "Slurm holds it: an operation of its burst buffer failed"),
    "Dependency": (ReasonKind.DEPENDENCY, "it waits for the jobs it depends on"),
    "DependencyNeverSatisfied": (ReasonKind.DEPENDENCY_NEVER, "a job it depends on ended so that it never may start"),
    "BeginTime": (ReasonKind.BEGIN, "its begin time has not come"),
    "Reservation": (ReasonKind.RESERVATION, "it waits for its reservation"),
    "ReservationDeleted": (ReasonKind.RESERVATION, "its reservation was deleted"),
    "ReservationInvalid": (ReasonKind.RESERVATION, "its reservation is no longer valid"),
    "PartitionDown": (ReasonKind.CLOSED, "its partition starts no jobs now (it is down)"),
    "PartitionInactive": (ReasonKind.CLOSED, "its partition neither takes nor starts jobs now (it is inactive)"),
    "BadConstraints": (ReasonKind.CANNOT_RUN, "no nodes meet its request"),
    "PartitionConfig": (ReasonKind.CANNOT_RUN, "its request is outside the limits of its partition"),
    "DeadLine": (ReasonKind.CANNOT_RUN, "it can no longer end before the time of its --deadline"),
    "InvalidAccount": (ReasonKind.CANNOT_RUN, "its account is not valid"),
    "InvalidQOS": (ReasonKind.CANNOT_RUN, "its QOS is not valid"),
    "AccountNotAllowed": (ReasonKind.CANNOT_RUN, "its account or group may not use its partition"),
    "QOSNotAllowed": (ReasonKind.CANNOT_RUN, "its QOS is not allowed in its partition or for its account"),
}  # fmt: skip
"""Reasons without a limit."""

_WITH_LIMIT: Mapping[str, tuple[ReasonKind, str, Limit]] = {
    "PartitionTimeLimit": (
        ReasonKind.CANNOT_RUN, "its time limit is longer than its partition allows",
        Limit(Whose.PARTITION, "wall", "job", Ends.NEVER),
    ),
    "PartitionNodeLimit": (
        ReasonKind.CANNOT_RUN, "its number of nodes is outside what its partition allows or has",
        Limit(Whose.PARTITION, "node", "job", Ends.NEVER),
    ),
    "MaxMemPerLimit": (
        ReasonKind.CANNOT_RUN, "it asks for more memory on a node, or for a CPU, than its partition allows",
        Limit(Whose.PARTITION, "mem", "node", Ends.NEVER),
    ),
    "Licenses": (
        ReasonKind.LIMIT, "the licences that it asks for are in use",
        Limit(Whose.LICENCES, "license", "group", Ends.WITH_JOBS),
    ),
    "JobArrayTaskLimit": (
        ReasonKind.LIMIT, "as many tasks of its array run as the array allows at once",
        Limit(Whose.ARRAY, "jobs", "array", Ends.WITH_JOBS),
    ),
    "AccountingPolicy": (
        ReasonKind.LIMIT, "a limit of its account or QOS blocks it",
        Limit(Whose.ACCOUNT, "unknown", "group", Ends.WITH_JOBS),
    ),
    "AssociationJobLimit": (
        ReasonKind.LIMIT, "as many jobs run as its account allows",
        Limit(Whose.ACCOUNT, "jobs", "group", Ends.WITH_JOBS),
    ),
    "AssociationResourceLimit": (
        ReasonKind.LIMIT, "a limit of its account on resources is reached",
        Limit(Whose.ACCOUNT, "unknown", "group", Ends.WITH_JOBS),
    ),
    "AssociationTimeLimit": (
        ReasonKind.LIMIT, "a limit of its account on time is reached",
        Limit(Whose.ACCOUNT, "wall", "group", Ends.WITH_TIME),
    ),
    "QOSJobLimit": (
        ReasonKind.LIMIT, "as many jobs run as its QOS allows", Limit(Whose.QOS, "jobs", "group", Ends.WITH_JOBS),
    ),
    "QOSResourceLimit": (
        ReasonKind.LIMIT, "a limit of its QOS on resources is reached",
        Limit(Whose.QOS, "unknown", "group", Ends.WITH_JOBS),
    ),
    "QOSTimeLimit": (
        ReasonKind.LIMIT, "a limit of its QOS on time is reached", Limit(Whose.QOS, "wall", "group", Ends.WITH_TIME),
    ),
    "QOSUsageThreshold": (
        ReasonKind.LIMIT, "its account has used more than its QOS lets accounts with a fair share use",
        Limit(Whose.QOS, "unknown", "account", Ends.WITH_TIME),
    ),
}  # fmt: skip
"""Reasons with a limit whose words follow no pattern."""

_STEMS: tuple[tuple[str, str, str], ...] = (
    ("Nodes required for job are DOWN, DRAINED or reserved", "Resources",
     "nodes that it needs are down, drained or reserved for partitions of a higher tier"),
    ("launch failed requeued held", "JobHoldMaxRequeue", "Slurm holds it: its start failed on a node"),
    ("launch failure limit exceeded requeued held", "JobHoldMaxRequeue", ""),
    ("user env retrieval failed requeued held", "JobHoldMaxRequeue", "Slurm holds it: its environment is not readable"),
    ("job requeued in held state", "JobHoldMaxRequeue", _HELD),
    ("job requeued in special exit state", "JobHoldMaxRequeue", f"{_HELD} (special exit)"),
    ("License request ", "JobHoldMaxRequeue", "Slurm holds it: a licence that it asks for is no longer known"),
    ("Job's account not ", "AccountNotAllowed", ""),
    ("Job's QOS not ", "QOSNotAllowed", ""),
    ("Required nodes lack available resources", "Resources", "the nodes that it asks for have too little free"),
    ("Required nodes do not fit topology", "Resources", "its nodes do not fit the network's topology now"),
    ("No suitable topology unit found", "Resources", _TOPOLOGY),
    ("Insufficient resources in topology unit", "Resources", _TOPOLOGY),
    ("Weight-based selection could not satisfy request", "Resources", _TOPOLOGY),
    ("Exceeded maximum node limit during topology", "Resources", _TOPOLOGY),
    ("No available nodes in topology", "Resources", _TOPOLOGY),
)  # fmt: skip
"""How texts begin, the word of the same meaning, and a clause where that word's says less."""

_PATTERNS = (
    (re.compile(r"uid \d+ not in group permitted to use this partition"), "AccountNotAllowed"),
    (re.compile(r"Reservation \S+ was deleted"), "ReservationDeleted"),
    (re.compile(r"Reservation \S+ is invalid"), "ReservationInvalid"),
    (re.compile(r"Reservation \S+, which this job was running under, has ended"), "Reservation"),
)

_ONE_PARTITION = {
    *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "PartitionDown", "PartitionInactive"),
    *("BadConstraints", "AccountNotAllowed", "QOSNotAllowed", "MaxMemPerLimit"),
}

_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc|)(?P<of>Grp|Max|Min)"
    r"(?P<resource>Cpu|CPU|Memory|Mem|Node|GRES|License|BB|Energy|Billing|SubmitJobs?|Jobs|WallDuration|Wall|Unknown)"
    r"(?P<time>RunMinutes|RunMins|Minutes|)(?:Per(?P<per>Job|Node|User|Account)|)(?:Limit|NotSatisfied|)"
)
"""The words of limits of a QOS and of an association; without an owner they are the QOS's for each user or account."""

_NAMES = {
    "cpu": "CPUs",
    "mem": "memory",
    "node": "nodes",
    "gres": "GPUs or other generic resources",
    "license": "licences",
    "bb": "burst buffer",
    "energy": "energy",
    "billing": "billing units",
    "jobs": "running jobs",
    "submit": "submitted jobs",
    "wall": "time",
    "unknown": "a resource that Slurm does not name",
}
_SHORT = {"memory": "mem", "submitjob": "submit", "submitjobs": "submit", "wallduration": "wall"}


@lru_cache(maxsize=4096)
def reason_of(text: str) -> Reason:
    """Return what squeue's *text* means; a text that no known release prints means that the job waits."""
    for word in (text, text.partition(",")[0], text.partition(":")[0]):
        if found := _of_word(word):
            return found
    for stem, word, clause in _STEMS:
        if text.startswith(stem) and (found := _of_word(word)):
            return Reason(text, found.kind, clause or found.clause, found.limit, found.one_partition)
    for pattern, word in _PATTERNS:
        if pattern.match(text) and (found := _of_word(word)):
            return Reason(text, found.kind, found.clause, found.limit, found.one_partition)
    return Reason(text, ReasonKind.WAITS, f"Slurm says: {text}", known=False)


def where_kind(reasons: Labels, partitions: Labels, *kinds: ReasonKind) -> BoolArray:
    """Select the rows whose reason is one of *kinds*; *partitions* are the lists that each job asks for.

    Of a job in several partitions, a reason that is judged for one of them means that the job waits.
    """
    wanted = reasons.map([reason_of(text).kind in kinds for text in reasons.names], np.bool_)
    one = reasons.map([reason_of(text).one_partition for text in reasons.names], np.bool_)
    several = partitions.map(["," in names for names in partitions.names], np.bool_)
    selected: BoolArray = np.where(one & several, ReasonKind.WAITS in kinds, wanted)
    return selected


def _of_word(word: str) -> Reason | None:
    one_partition = word in _ONE_PARTITION
    if word in _PLAIN:
        kind, clause = _PLAIN[word]
        return Reason(word, kind, clause, one_partition=one_partition)
    if word in _WITH_LIMIT:
        kind, clause, limit = _WITH_LIMIT[word]
        return Reason(word, kind, clause, limit, one_partition)
    parts = _LIMIT.fullmatch(word)
    return _of_limit(word, **parts.groupdict()) if parts else None


def _of_limit(word: str, whose: str, of: str, resource: str, time: str, per: str | None) -> Reason:
    short = resource.lower()
    short = _SHORT.get(short, short)
    owner = Whose.ACCOUNT if whose == "Assoc" else Whose.QOS
    counted = (per or {"Grp": "Group", "Min": "Job", "Max": "User"}[of]).lower()
    if of == "Min" or counted in ("job", "node"):
        ends = Ends.NEVER
    elif time == "Minutes" or (short == "wall" and counted == "group"):
        ends = Ends.WITH_TIME
    else:
        ends = Ends.WITH_JOBS
    limit = Limit(owner, short, counted, ends)
    return Reason(word, ReasonKind.LIMIT, _limit_clause(limit, of, bool(time)), limit)


def _limit_clause(limit: Limit, of: str, by_time: bool) -> str:
    name = _NAMES[limit.resource] + (" times time" if by_time else "")
    whose = limit.whose.value
    if of == "Min":
        return f"it asks for less than the least that {whose} requires ({name})"
    if limit.ends is Ends.NEVER:
        place = "on one node" if limit.of == "node" else "for one job"
        return f"it asks for more than {whose} allows {place} ({name})"
    holders = {"group": "all together", "user": "for one user", "account": "for one account"}[limit.of]
    if limit.ends is Ends.WITH_TIME:
        return f"what {whose} allows {holders} ({name}) is used up"
    return f"running jobs use what {whose} allows {holders} ({name})"
