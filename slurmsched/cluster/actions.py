"""Actions on a cluster as values: named by imperatives, equal when they mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Action:
    """A change of one job; ``power`` is the switch that an admin must have turned on for it."""

    job_id: int
    power: ClassVar[str]


@dataclass(frozen=True)
class Rank(Action):
    """Give the job this many points of SiteFactor (its fixed Priority where a site runs priority/basic)."""

    points: int
    power = "order"


@dataclass(frozen=True)
class Hold(Action):
    """Keep a pending job from starting until *until_s*; the hold then ends by itself."""

    until_s: float
    power = "hold"


@dataclass(frozen=True)
class Release(Action):
    """End a Hold of ours now."""

    power = "hold"


@dataclass(frozen=True)
class Requeue(Action):
    """End this run of a job that allows it (``ckpt``) and queue it again, eligible at once."""

    power = "requeue"


@dataclass(frozen=True)
class AskToStop(Action):
    """Signal a running job that allows it (``ckpt``) to save its work and queue itself again."""

    signal: str  #: its name, such as URG
    power = "requeue"


@dataclass(frozen=True)
class SetAdminComment(Action):
    """Write the answer to a job's deadline into its AdminComment."""

    text: str
    power = "comment"


@dataclass(frozen=True)
class Suspend(Action):
    """Stop a running job in place; its GPUs and memory stay taken."""

    power = "suspend"


@dataclass(frozen=True)
class Resume(Action):
    """Continue a suspended job."""

    power = "suspend"


@dataclass(frozen=True)
class MovePartition(Action):
    """Queue a pending job in another partition."""

    partition: str
    power = "partition"


@dataclass(frozen=True)
class RequireNodes(Action):
    """Make a pending job run on these nodes; an empty text removes the requirement."""

    nodes: str
    power = "partition"


@dataclass(frozen=True)
class Share(Action):
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
class StartShared(Action):
    """Start now a job that requests exactly the slots of *token*."""

    token: str
    power = "share"


@dataclass(frozen=True)
class Unmark(Action):
    """Restore the owner's *comment* of a job whose change to shared GPUs never reached its slots, and let it start."""

    comment: str
    power = "share"


@dataclass(frozen=True)
class Unshare(Action):
    """Restore a pending job's whole GPUs, *gpus* per node, and its owner's *comment*; None keeps the present one."""

    home: str
    gpus: int
    comment: str | None
    until_s: float
    gpu_type: str = ""
    power = "share"


@dataclass(frozen=True)
class Start(Action):
    """Start a pending job now on these nodes; only a simulated cluster that carries out plans as they are can."""

    nodes: str  #: with the GPUs of each, as n1:8,n2:4
    power = "start"


@dataclass(frozen=True)
class Preempt(Action):
    """Stop a running job at once and queue it again with its work kept; only such a simulated cluster can."""

    power = "preempt"


ACTIONS: dict[str, type[Action]] = {
    "Rank": Rank,
    "Hold": Hold,
    "Release": Release,
    "Requeue": Requeue,
    "AskToStop": AskToStop,
    "Suspend": Suspend,
    "Resume": Resume,
    "MovePartition": MovePartition,
    "RequireNodes": RequireNodes,
    "Tell": SetAdminComment,
    "Share": Share,
    "StartShared": StartShared,
    "Unmark": Unmark,
    "Unshare": Unshare,
    "Start": Start,
    "Preempt": Preempt,
}
"""The classes of actions by their stored spelling: in records, intents, metrics and JSON. It outlives class names."""

SPELLINGS = {kind: name for name, kind in ACTIONS.items()}
"""The stored spellings by class."""

POWERS = tuple(dict.fromkeys([*(kind.power for kind in ACTIONS.values()), "profile", "nodes"]))
"""All switches; the last two concern partitions, not single jobs."""


def spelling(action: Action) -> str:
    """The stored spelling of an action's class."""
    return SPELLINGS[type(action)]


@dataclass(frozen=True)
class Refusal:
    """An action that a rule prevented: the name of the rule, and details in words."""

    action: Action
    rule: str
    detail: str = ""
