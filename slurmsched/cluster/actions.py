"""Actions on a cluster as values: named by imperatives, equal when they mean the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .records.node_loans import LentNodes, NodeLists, SetNodes, changes
from .text.hostlist import expand, fold


@dataclass(frozen=True)
class Action:
    """A change of the cluster; ``power`` is the switch that an admin must have turned on for it."""

    power: ClassVar[str]


@dataclass(frozen=True)
class JobAction(Action):
    """A change of one job."""

    job_id: int


@dataclass(frozen=True)
class Rank(JobAction):
    """Give the job this many points of SiteFactor (its fixed Priority where a site runs priority/basic)."""

    points: int
    power = "order"


@dataclass(frozen=True)
class Hold(JobAction):
    """Keep a pending job from starting until *until_s*; the hold then ends by itself."""

    until_s: float
    power = "hold"


@dataclass(frozen=True)
class Release(JobAction):
    """End a Hold of ours now."""

    power = "hold"


@dataclass(frozen=True)
class Requeue(JobAction):
    """End this run of a job that allows it (``ckpt``) and queue it again, eligible at once."""

    power = "requeue"


@dataclass(frozen=True)
class AskToStop(JobAction):
    """Signal a running job that allows it (``ckpt``) to save its work and queue itself again."""

    signal: str  #: its name, such as URG
    leaves: str = ""  #: overloaded nodes that it is kept off afterwards, a host list; empty where it only makes room
    power = "requeue"


@dataclass(frozen=True)
class End(JobAction):
    """Answer the next report of a running job that asked for this (``stop=``) with a stop; it then saves and ends."""

    power = "stop"


@dataclass(frozen=True)
class SetAdminComment(JobAction):
    """Write the answer to a job's deadline into its AdminComment; an empty one takes the last answer away."""

    text: str
    power = "comment"


@dataclass(frozen=True)
class Suspend(JobAction):
    """Stop a running job in place; its GPUs and memory stay taken."""

    power = "suspend"


@dataclass(frozen=True)
class Resume(JobAction):
    """Continue a suspended job."""

    power = "suspend"


@dataclass(frozen=True)
class MovePartition(JobAction):
    """Queue a pending job in other partitions, a comma list; back in its *own* ones it is as its owner submitted it."""

    partition: str
    own: str = field(default="", compare=False)  #: those that its owner asked for; empty in records without them
    power = "partition"

    @property
    def gives_back(self) -> bool:
        """True if the job has its own partitions again."""
        return self.partition == self.own


@dataclass(frozen=True)
class Steer(JobAction):
    """Keep a pending job off the *excluded* nodes, so that it starts on GPUs of some *types*, such as a100+v100.

    Among them are overloaded nodes that it left; for these alone the types are ``ANY_TYPE``.
    """

    types: str
    excluded: str  #: a host list, never empty
    before: str = ""  #: what Slurm has now: nothing, or a list of ours
    power = "steer"


@dataclass(frozen=True)
class Unsteer(JobAction):
    """Let a pending job start again on the nodes that we excluded."""

    before: str = ""  #: what Slurm has now, of ours
    power = "steer"


@dataclass(frozen=True)
class Rightsize(JobAction):
    """Let a pending job ask for other CPUs and memory; the texts are those of the column ``node_request``."""

    own: str  #: what its owner asked for
    before: str  #: what Slurm has now
    after: str
    power = "rightsize"


@dataclass(frozen=True)
class RestoreSize(JobAction):
    """Let a pending job ask for the CPUs and the memory of its owner again."""

    before: str  #: what Slurm has now, of ours
    own: str
    power = "rightsize"


@dataclass(frozen=True)
class Resize(JobAction):
    """Let a pending job, which asks for *before* GPUs now, ask for *gpus* of the same type.

    With *each* the number of its nodes changes with them: it has so many on each. Otherwise it stays on one node. Back
    at its *own* number the job is as its owner submitted it. Of a change of its nodes that Slurm took in part, it
    counts those of *before*, and has tasks and CPUs for the nodes *taken*.
    """

    gpus: int
    before: int
    own: int
    each: int = 0
    taken: int = 0  #: 0 where its request is whole
    power = "resize"

    @property
    def nodes(self) -> tuple[int, int]:
        """The number of its nodes with *before* GPUs, and with *gpus*."""
        return (self.before // self.each, self.gpus // self.each) if self.each else (1, 1)

    @property
    def gives_back(self) -> bool:
        """True if the job has its own number again."""
        return self.gpus == self.own


@dataclass(frozen=True)
class Avoid(JobAction):
    """Remember not to repeat *changes* of a job, which keep it from starting; nothing is sent to Slurm.

    The fields are those of ``avoided.Avoided``. Whatever powers are on, what is ours is given back.
    """

    changes: str
    request: str
    limits: str
    reason: str
    power = "order"


@dataclass(frozen=True)
class Share(JobAction):
    """Replace the GPUs of a pending job by slots: one of each GPU of *token* (0+1) on *node* of *partition*.

    From *until_s* on the job may start with its slots by itself, even if the daemon never returns to it. *home* is its
    former partition; *comment* is its owner's, to which the token is added.
    """

    home: str
    partition: str
    node: str
    token: str
    comment: str
    until_s: float
    gpu_type: str = ""  #: the type that the job requested, for a later restore
    power = "share"

    @property
    def asked_for(self) -> str:
        """The original request, for a later restore: partitions, a blank, GPUs."""
        gpus = self.token.partition(":")[0].count("+") + 1
        return f"{self.home} gpu{self.gpu_type and ':'}{self.gpu_type}:{gpus}"


@dataclass(frozen=True)
class StartShared(JobAction):
    """Start now a job that requests exactly the slots of *token*."""

    token: str
    power = "share"


@dataclass(frozen=True)
class Unmark(JobAction):
    """Restore the owner's *comment* of a job whose change to shared GPUs never reached its slots, and let it start."""

    comment: str
    power = "share"


@dataclass(frozen=True)
class Unshare(JobAction):
    """Restore a pending job's whole GPUs, *gpus* per node, and its owner's *comment*; None keeps the present one."""

    home: str
    gpus: int
    comment: str | None
    until_s: float
    gpu_type: str = ""
    power = "share"


@dataclass(frozen=True)
class Start(JobAction):
    """Start a pending job now on these nodes; only a simulated cluster that carries out plans as they are can."""

    nodes: str  #: with the GPUs of each, as n1:8,n2:4
    beside: int = 0  #: the running job that it joins on its GPUs; 0 for GPUs of its own
    power = "start"


@dataclass(frozen=True)
class Preempt(JobAction):
    """Stop a running job at once and queue it again with its work kept; only such a simulated cluster can."""

    power = "preempt"


@dataclass(frozen=True)
class NodeChange:
    """The nodes of one partition before and after a move, as host lists."""

    partition: str
    own: str  #: those that its admin gave it
    before: str  #: those that Slurm shows now; empty for none
    after: str  #: those to set, never empty


@dataclass(frozen=True)
class MoveNodes(Action):
    """Move nodes between partitions; jobs that run there continue."""

    partitions: tuple[NodeChange, ...]
    power = "nodes"

    def __post_init__(self) -> None:
        """Accept the changes as plain rows too, as they are stored."""
        rows: tuple[Any, ...] = tuple(self.partitions)
        made = tuple(row if isinstance(row, NodeChange) else NodeChange(*row) for row in rows)
        object.__setattr__(self, "partitions", made)

    @classmethod
    def between(cls, own: NodeLists, before: NodeLists, after: NodeLists) -> MoveNodes:
        """Return the move that leads from the nodes *before* to those *after*, by partition."""
        return cls(
            tuple(NodeChange(name, *(fold(sorted(lists[name])) for lists in (own, before, after))) for name in after)
        )

    @property
    def steps(self) -> list[SetNodes]:
        """The writes in order: no node is ever in none of the partitions, even if they stop half-way."""
        before = {one.partition: expand(one.before) for one in self.partitions}
        return changes(before, {one.partition: expand(one.after) for one in self.partitions})

    @property
    def loans(self) -> tuple[LentNodes, ...]:
        """The nodes that the partitions lend each other after the move."""
        return tuple(LentNodes(one.partition, expand(one.own), expand(one.after)) for one in self.partitions)

    @property
    def text(self) -> str:
        """The new nodes of all partitions, such as ``gpu=n[1-2] profile=n3``."""
        return " ".join(f"{one.partition}={one.after}" for one in self.partitions)


ACTIONS: dict[str, type[Action]] = {
    "Rank": Rank,
    "Hold": Hold,
    "Release": Release,
    "Requeue": Requeue,
    "AskToStop": AskToStop,
    "End": End,
    "Suspend": Suspend,
    "Resume": Resume,
    "MovePartition": MovePartition,
    "Steer": Steer,
    "Unsteer": Unsteer,
    "Rightsize": Rightsize,
    "RestoreSize": RestoreSize,
    "Resize": Resize,
    "Avoid": Avoid,
    "Tell": SetAdminComment,
    "Share": Share,
    "StartShared": StartShared,
    "Unmark": Unmark,
    "Unshare": Unshare,
    "Start": Start,
    "Preempt": Preempt,
    "MoveNodes": MoveNodes,
}
"""The classes of actions by their stored spelling: in records, intents, metrics and JSON. It outlives class names."""

SPELLINGS = {kind: name for name, kind in ACTIONS.items()}
"""The stored spellings by class."""

POWERS = tuple(dict.fromkeys([*(kind.power for kind in ACTIONS.values() if kind is not Avoid), "migrate", "profile"]))
"""All switches; nodes and profile concern partitions, not single jobs."""

NO_JOB = 0
"""The number in place of a job id where an action concerns partitions; Slurm's job ids are positive."""


def job_of(action: Action) -> int:
    """Return the id of the job that *action* changes; NO_JOB for a change of partitions."""
    return action.job_id if isinstance(action, JobAction) else NO_JOB


def spelling(action: Action) -> str:
    """The stored spelling of an action's class."""
    return SPELLINGS[type(action)]


def ends_change(action: Action) -> bool:
    """Return True if *action* ends a change of a job's request: its nodes, partitions, size, GPUs are its own again."""
    return isinstance(action, Unsteer | RestoreSize) or (
        isinstance(action, Resize | MovePartition) and action.gives_back
    )


@dataclass(frozen=True)
class Refusal:
    """An action that a rule prevented: the name of the rule, and details in words."""

    action: Action
    rule: str
    detail: str = ""
