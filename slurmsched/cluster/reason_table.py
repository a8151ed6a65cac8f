"""Slurm's reasons of pending jobs: what each means, a sentence that says so, and what the owner of the job can do.

The words are those of Slurm 22.05 to 26.05, each with its meaning. A sentence may name a field of the job in braces
(``job, partition, nodes, limit, longest, allowed, account, qos, reservation``) or what Slurm's text names (``named``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


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


MINUTES, RUN_MINUTES = "minutes", "run-minutes"


@dataclass(frozen=True)
class Limit:
    """A limit that blocks a job."""

    whose: Whose
    resource: str  #: cpu, mem, node, gres, license, bb, energy, billing, jobs, submit, wall or unknown
    of: str  #: what it counts together: group, user, account, job, node, array
    ends: Ends
    over: str = ""  #: what it counts is an amount times minutes: MINUTES, or RUN_MINUTES of those still to run


@dataclass(frozen=True)
class Meaning:
    """What a reason means, and how to say it."""

    kind: ReasonKind
    clause: str  #: "it waits for ...", without a full stop and without fields
    advice: str = ""  #: what the owner can do; empty takes that of the kind
    sentence: str = ""  #: empty takes the clause
    limit: Limit | None = None
    in_turn: bool = False  #: the job waits for its turn or for nodes: the jobs ahead and free nodes tell more
    plain: bool = False  #: and the reason tells nothing more


MOVE = "'scontrol update jobid={job} partition=NAME' moves it to another one."
ASK = "Ask an administrator"
NOTHING = "Nothing: Slurm goes on by itself."
RELEASE = "'scontrol release {job}' lets it try again"
ONLY_ADMIN = "Only an administrator can release it"
CHANGE = "Change its request with 'scontrol update jobid={job} ...', or submit it anew."

ADVICE: Mapping[ReasonKind, str] = {
    ReasonKind.WAITS: NOTHING,
    ReasonKind.LIMIT: "'scontrol show job {job}' has its account and QOS, and 'sacctmgr show qos' and 'sacctmgr show "
    "assoc' their limits.",
    ReasonKind.HELD_BY_USER: "'scontrol release {job}' lets it queue.",
    ReasonKind.HELD_BY_ADMIN: f"{ASK} to release it; 'scontrol show job {{job}}' may have a comment.",
    ReasonKind.HELD_BY_SLURM: f"{RELEASE}, once the cause is mended.",
    ReasonKind.DEPENDENCY: "Nothing is needed; 'scontrol update jobid={job} dependency=' lets it run without waiting.",
    ReasonKind.DEPENDENCY_NEVER: "'scancel {job}' ends it; 'scontrol update jobid={job} dependency=' lets it run "
    "without waiting.",
    ReasonKind.BEGIN: "'scontrol update jobid={job} starttime=now' lets it queue at once.",
    ReasonKind.RESERVATION: "'scontrol update jobid={job} reservationname=' lets it queue like any other job.",
    ReasonKind.CLOSED: f"{ASK} when it opens; {MOVE}",
    ReasonKind.CANNOT_RUN: CHANGE,
}
"""What the owner of a job can do, by what the reason means."""


def _waits(clause: str, advice: str = "", sentence: str = "") -> Meaning:
    return Meaning(ReasonKind.WAITS, clause, advice, sentence)


def _turn(clause: str, advice: str = "") -> Meaning:
    return Meaning(ReasonKind.WAITS, clause, advice, in_turn=True)


def _plain(clause: str) -> Meaning:
    return Meaning(ReasonKind.WAITS, clause, in_turn=True, plain=True)


def _held(clause: str, advice: str, sentence: str = "") -> Meaning:
    return Meaning(ReasonKind.HELD_BY_SLURM, clause, advice, sentence)


def _never(clause: str, advice: str = "", sentence: str = "") -> Meaning:
    return Meaning(ReasonKind.CANNOT_RUN, clause, advice, sentence)


def _beyond(clause: str, resource: str, of: str, advice: str = "", sentence: str = "") -> Meaning:
    limit = Limit(Whose.PARTITION, resource, of, Ends.NEVER)
    return Meaning(ReasonKind.CANNOT_RUN, clause, advice, sentence, limit)


def _limited(
    clause: str, whose: Whose, resource: str, of: str = "group", ends: Ends = Ends.WITH_JOBS, advice: str = ""
) -> Meaning:
    return Meaning(ReasonKind.LIMIT, clause, advice, limit=Limit(whose, resource, of, ends))


UNSEEN = _plain("Slurm has not looked at it since its last change")
_ROOM = _plain("it waits for free nodes")
_ENDED = _turn("its last run ended badly, and Slurm has put it back into the queue")
_UNAVAILABLE = _turn(
    "nodes that it needs are down, drained, reserved or in use",
    "'sinfo -R' says which nodes are out of service, and 'scontrol show reservation' which are reserved.",
)
MAINTENANCE = _waits(
    "a maintenance of nodes that it needs is near: with its time limit it would not end before",
    "'scontrol show reservation' has the time; 'scontrol update jobid={job} timelimit=TIME' with an end before that "
    "lets it start earlier, otherwise it starts afterwards.",
    "It waits for the end of a maintenance of its nodes: with its time limit of {limit} it would not end before that "
    "begins.",
)
MAY_BE_RESERVED = _turn(
    "nodes that it needs are kept for another job or a reservation", "'scontrol show reservation' has those."
)
NODES_NAMED = replace(_UNAVAILABLE, sentence="Nodes that it may need take no jobs now: {named}.")
NODES_AWAY = _turn(
    "nodes that it needs are down, drained or reserved for partitions of a higher tier", _UNAVAILABLE.advice
)
_TOPOLOGY = _turn("no part of the network's topology has room for it now", "Nothing: it starts when a part has room.")
_EXCEEDED = _turn("its last run was ended by a limit of its account or QOS on time used, and it is queued again")

WORDS: Mapping[str, Meaning] = {
    "": UNSEEN,
    "None": UNSEEN,
    "(null)": UNSEEN,
    "WaitingForScheduling": UNSEEN,
    "InvalidReason": UNSEEN,
    "Priority": _plain("jobs with a higher priority stand before it"),
    "Resources": _ROOM,
    "ReqNodeNotAvail": _UNAVAILABLE,
    "Constraints": _waits(
        "no nodes meet its constraints on the nodes' extra information at present",
        "'scontrol show job {job}' has its Extra, and 'scontrol show nodes' that of nodes; it starts when some fit.",
    ),
    "SchedDefer": _turn("Slurm starts jobs only in its next pass"),
    "Prolog": _waits("the prolog of its start is still running"),
    "Cleaning": _waits("its last run is still being cleaned up"),
    "FrontEndDown": _waits("no front-end node is available", f"{ASK} when one comes back."),
    "BurstBufferResources": _waits("it waits for room in a burst buffer", "'scontrol show burstbuffer' has its use."),
    "BurstBufferStageIn": _waits("its files are being copied to a burst buffer"),
    "PowerNotAvail": _waits("it waits for electrical power"),
    "PowerReserved": _waits("it waits for electrical power, which is reserved"),
    "MaxPoweredUpNodes": _waits("as many nodes are powered up as Slurm may power up"),
    "MpiPortsBusy": _waits("it waits for free MPI ports"),
    "NvidiaImexChannels": _waits("it waits for a free NVIDIA IMEX channel"),
    "BlockMaxError": _waits("its block of nodes is in an error state", f"{ASK}: the block has to be mended."),
    "BlockFreeAction": _waits("its block of nodes is being freed"),
    "FedJobLock": _waits("the clusters of the federation agree on where it runs"),
    "NodeDown": _turn("a node of its last run went down, and Slurm has put it back into the queue"),
    "SystemFailure": _ENDED,
    "JobLaunchFailure": _ENDED,
    "NonZeroExitCode": _ENDED,
    "RaisedSignal": _ENDED,
    "TimeLimit": _ENDED,
    "InactiveLimit": _ENDED,
    "OutOfMemory": _ENDED,
    "JobHeldUser": Meaning(ReasonKind.HELD_BY_USER, "its owner holds it", sentence="Its owner holds it."),
    "JobHeldAdmin": Meaning(
        ReasonKind.HELD_BY_ADMIN, "an administrator holds it", sentence="An administrator holds it."
    ),
    "JobHoldMaxRequeue": _held(
        "Slurm holds it: it was queued again as many times as MaxBatchRequeue allows after starts that failed",
        f"{ONLY_ADMIN}, who finds the cause in the log of slurmd on its last nodes.",
    ),
    "BurstBufferOperation": _held(
        "Slurm holds it: an operation of its burst buffer failed",
        f"{ONLY_ADMIN}; 'scontrol show job {{job}}' has what the burst buffer said. {CHANGE}",
    ),
    "Dependency": Meaning(ReasonKind.DEPENDENCY, "it waits for the jobs it depends on"),
    "DependencyNeverSatisfied": Meaning(
        ReasonKind.DEPENDENCY_NEVER, "a job it depends on ended so that it never may start"
    ),
    "BeginTime": Meaning(ReasonKind.BEGIN, "its begin time has not come"),
    "Reservation": Meaning(
        ReasonKind.RESERVATION, "it waits for its reservation",
        "'scontrol show reservation {reservation}' has its times; 'scontrol update jobid={job} reservationname=' lets "
        "it queue like any other job.",
        "It belongs to reservation {reservation}, whose time has not come or whose nodes are in use.",
    ),
    "ReservationDeleted": _held(
        "Slurm holds it: its reservation has ended or was deleted",
        "'scontrol release {job}' lets it queue without a reservation; 'scontrol update jobid={job} "
        "reservationname=NAME' before that gives it another one.",
    ),
    "ReservationInvalid": _held(
        "Slurm holds it: its reservation is not, or no longer, one that it may use",
        "'scontrol update jobid={job} reservationname=' lets it queue without a reservation.",
    ),
    "PartitionDown": Meaning(
        ReasonKind.CLOSED, "its partition starts no jobs now (it is down)", f"{ASK} when it comes back; {MOVE}",
        "Its partition ({partition}) is down: jobs queue there and do not start.",
    ),
    "PartitionInactive": Meaning(
        ReasonKind.CLOSED, "its partition neither takes nor starts jobs now (it is inactive)", f"{ASK} why; {MOVE}",
        "Its partition ({partition}) is inactive: it starts no jobs.",
    ),
    "BadConstraints": _never(
        "no nodes meet its request",
        "Correct the request with 'scontrol update jobid={job} ...': Slurm then looks at it again. Or submit it anew.",
        "No nodes fit what it asks for, says Slurm (BadConstraints): type of GPU, features, nodes or their number.",
    ),
    "PartitionConfig": _never("its request is outside the limits of its partition", f"{CHANGE} {MOVE}"),
    "DeadLine": _never(
        "it can no longer end before the time of its --deadline",
        "A shorter time limit may still fit: 'scontrol update jobid={job} timelimit=TIME'; or submit it anew.",
    ),
    "InvalidAccount": _never(
        "its account is not valid", "'scontrol update jobid={job} account=NAME' gives it one that is.",
        "Its account ({account}) is not valid for its owner now.",
    ),
    "InvalidQOS": _never(
        "its QOS is not valid", "'scontrol update jobid={job} qos=NAME' gives it one that is.",
        "Its QOS ({qos}) is not valid for its owner now.",
    ),
    "AccountNotAllowed": _never(
        "its account or group may not use its partition", MOVE,
        "Its partition ({partition}) takes no jobs of its account or group ({account}).",
    ),
    "QOSNotAllowed": _never(
        "its QOS is not allowed in its partition or for its account", MOVE,
        "Its partition ({partition}) takes no jobs of its QOS ({qos}).",
    ),
    "PartitionTimeLimit": _beyond(
        "its time limit is longer than its partition allows", "wall", "job",
        "'scontrol update jobid={job} timelimit={allowed}' makes it fit; only an administrator raises the limit, and "
        f"{MOVE}",
        "Its time limit of {limit} is longer than its partition ({partition}) allows{longest}: it cannot start so.",
    ),
    "PartitionNodeLimit": _beyond(
        "its number of nodes is outside what its partition allows or has", "node", "job",
        "'scontrol show partition {partition}' has MinNodes and MaxNodes; 'scontrol update jobid={job} numnodes=N' "
        f"changes the number, and {MOVE}",
        "It asks for {nodes}, and its partition ({partition}) allows or has another number: it cannot start so.",
    ),
    "MaxMemPerLimit": _beyond(
        "it asks for more memory on a node, or for a CPU, than its partition allows", "mem", "node",
        "'scontrol show partition {partition}' has MaxMemPerNode and MaxMemPerCPU; 'scontrol update jobid={job} "
        f"minmemorynode=MIB' lowers its request, and {MOVE}",
    ),
    "Licenses": _limited(
        "the licences that it asks for are in use", Whose.LICENCES, "license",
        advice="Nothing: it starts when enough licences are free.",
    ),
    "JobArrayTaskLimit": _limited(
        "as many tasks of its array run as the array allows at once", Whose.ARRAY, "jobs", "array",
        advice="Nothing is needed; 'scontrol update jobid={job} arraytaskthrottle=N' lets N of its tasks run at once.",
    ),
    "AccountingPolicy": _limited("a limit of its account or QOS blocks it", Whose.ACCOUNT, "unknown"),
    "AssociationJobLimit": _limited("as many jobs run as its account allows", Whose.ACCOUNT, "jobs"),
    "AssociationResourceLimit": _limited(
        "a limit of its account on resources is reached", Whose.ACCOUNT, "unknown"
    ),
    "AssociationTimeLimit": _limited(
        "a limit of its account on time is reached", Whose.ACCOUNT, "wall", ends=Ends.WITH_TIME
    ),
    "QOSJobLimit": _limited("as many jobs run as its QOS allows", Whose.QOS, "jobs"),
    "QOSResourceLimit": _limited("a limit of its QOS on resources is reached", Whose.QOS, "unknown"),
    "QOSTimeLimit": _limited("a limit of its QOS on time is reached", Whose.QOS, "wall", ends=Ends.WITH_TIME),
    "QOSUsageThreshold": _limited(
        "its account has used more than its QOS lets accounts with a fair share use", Whose.QOS, "unknown", "account",
        Ends.WITH_TIME,
    ),
}  # fmt: skip
"""The words that all releases print; those of limits by a pattern are in ``reasons``."""

ONE_PARTITION = frozenset({
    *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "PartitionDown", "PartitionInactive"),
    *("BadConstraints", "AccountNotAllowed", "QOSNotAllowed", "MaxMemPerLimit"),
})  # fmt: skip
"""Words that are judged for one partition, so that they tell nothing of a job in several."""

_NODES = r"(?P<named>[A-Za-z0-9_.,\[\]-]{1,400})"
_NAME = r"(?P<named>[A-Za-z0-9_.@:-]{1,80})"
_LAUNCH = (
    f"{RELEASE}; if that fails too, an administrator finds the cause in the log of slurmd, and the node may be drained."
)

REQUEUED_HELD = _held("it was put back into the queue under a hold", f"{RELEASE}.")
SPECIAL_EXIT = _held("it was put back into the queue under a hold, with the mark of a special exit", f"{RELEASE}.")

_TEXTS: tuple[tuple[str, str, Meaning | None], ...] = (
    (r"burst_buffer/\w+: Stage-out in progress", "Cleaning",
     _waits("the files of its last run are still being copied out of a burst buffer")),
    ("burst_buffer/", "BurstBufferOperation", None),
    ("ReqNodeNotAvail, Reserved for maintenance", "ReqNodeNotAvail", MAINTENANCE),
    ("ReqNodeNotAvail, May be reserved", "ReqNodeNotAvail", MAY_BE_RESERVED),
    (f"ReqNodeNotAvail, UnavailableNodes:{_NODES}", "ReqNodeNotAvail",
     NODES_NAMED),
    ("Nodes required for job are DOWN, DRAINED", "Resources",
     NODES_AWAY),
    ("launch failed requeued held", "JobHoldMaxRequeue",
     _held("Slurm holds it: its start failed on a node", _LAUNCH,
           "Its last start failed on the node, and Slurm queued it again under a hold (launch failed requeued held).")),
    ("launch failure limit exceeded requeued held", "JobHoldMaxRequeue", None),
    ("user env retrieval failed requeued held", "JobHoldMaxRequeue",
     _held("Slurm holds it: its owner's environment could not be read on the node (--get-user-env)", _LAUNCH)),
    ("job requeued in held state", "JobHoldMaxRequeue", REQUEUED_HELD),
    ("job requeued in special exit state", "JobHoldMaxRequeue", SPECIAL_EXIT),
    ("License request ", "JobHeldAdmin",
     _held("Slurm holds it: a licence that it asks for is no longer known",
           f"{ONLY_ADMIN}; 'scontrol show licenses' has those that there are, and 'scontrol update jobid={{job}} "
           "licenses=NAME' changes its request.")),
    ("Job's account not ", "AccountNotAllowed", None),
    ("Job's QOS not ", "QOSNotAllowed", None),
    (r"uid \d+ not in group permitted to use this partition", "AccountNotAllowed", None),
    (f"Reservation {_NAME} was deleted", "ReservationDeleted", None),
    (f"Reservation {_NAME} is invalid", "ReservationInvalid", None),
    (f"Reservation {_NAME}, which this job was running under, has ended", "TimeLimit",
     _turn("its last run ended with its reservation, and Slurm has put it back into the queue")),
    ("Job is at or exceeds ", "TimeLimit", _EXCEEDED),
    ("Memory resize to ", "Resources", _turn("a change of its memory failed on a node of its last run")),
    ("Could not find burst buffer record", "BurstBufferOperation", None),
    ("Error managing persistent burst buffers", "BurstBufferOperation", None),
    ("Burst buffer pre run error", "BurstBufferOperation", None),
    ("Burst buffer create persistent error", "BurstBufferOperation", None),
    ("Required nodes lack available resources", "Resources",
     _turn("the nodes that it asks for have too little free")),
    ("Required nodes do not fit topology", "Resources",
     _turn("the nodes that it asks for do not lie together in the network's topology",
           "'scontrol update jobid={job} reqnodelist=' lets Slurm choose the nodes.")),
    ("No suitable topology unit found for segment", "Resources",
     _turn("no part of the network's topology has room for one of its segments now", _TOPOLOGY.advice)),
    ("No suitable topology unit found", "Resources", _TOPOLOGY),
    ("Insufficient resources in topology unit", "Resources", _TOPOLOGY),
    ("Weight-based selection could not satisfy request", "Resources", _TOPOLOGY),
    ("Exceeded maximum node limit during topology", "Resources",
     _turn("the nodes that lie together in the network's topology are more than it may have", _TOPOLOGY.advice)),
    ("No available nodes in topology", "Resources", _TOPOLOGY),
)  # fmt: skip
"""How texts begin, the word of the same meaning, and what the text means where that word says less."""

TEXTS = tuple((re.compile(begin.replace(" ", "[ _]")), word, meaning or WORDS[word]) for begin, word, meaning in _TEXTS)
"""The same, with patterns: squeue prints spaces, scontrol underscores."""
