"""What can be asked of a cluster: imperative, equal when they mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Action:
    """A wish about one job; ``power`` is the switch an admin must have turned on for it."""

    job_id: int
    power: ClassVar[str]


@dataclass(frozen=True)
class Rank(Action):
    """Give the job this many points of SiteFactor (its fixed Priority where a site runs priority/basic)."""

    points: int
    power = "order"


@dataclass(frozen=True)
class Hold(Action):
    """Keep a pending job from starting until a time; frees itself when that time comes."""

    until_s: float
    power = "hold"


@dataclass(frozen=True)
class Release(Action):
    """End a Hold of ours now."""

    power = "hold"


@dataclass(frozen=True)
class Requeue(Action):
    """End this run of a job that consented (``ckpt``) and queue it again, eligible at once."""

    power = "requeue"


@dataclass(frozen=True)
class AskToStop(Action):
    """Signal a running job that consented (``ckpt``) to save its work and queue itself again."""

    signal: str  #: its name, such as URG
    power = "requeue"


@dataclass(frozen=True)
class Tell(Action):
    """Write what a job's deadline was answered into its AdminComment."""

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
    """Make a pending job run on these nodes; an empty text lifts the wish."""

    nodes: str
    power = "partition"


@dataclass(frozen=True)
class Share(Action):
    """Ask for slots in place of the GPUs of a pending job: one of each GPU of *token* (0+1) on *node* of *partition*.

    It may start by itself from a time on, with its slots, even if nobody ever comes back to it. *home* is where it
    waited; *comment* is its owner's, to which the token is added.
    """

    home: str
    partition: str
    node: str
    token: str
    comment: str
    until_s: float
    gpu_type: str = ""  #: that it asked for, to be remembered
    power = "share"

    @property
    def asked_for(self) -> str:
        """What the job would have back: its partitions, a blank, its GPUs."""
        gpus = self.token.partition(":")[0].count("+") + 1
        return f"{self.home} gpu{self.gpu_type and ':'}{self.gpu_type}:{gpus}"


@dataclass(frozen=True)
class StartShared(Action):
    """Let a job that asks for the slots of *token* and nothing else start now."""

    token: str
    power = "share"


@dataclass(frozen=True)
class Unmark(Action):
    """Give a job whose change to shared GPUs never came to its slots its owner's *comment* back, and let it start."""

    comment: str
    power = "share"


@dataclass(frozen=True)
class Unshare(Action):
    """Give a pending job its whole GPUs back, *gpus* per node, and its owner's *comment*; None leaves it as it is."""

    home: str
    gpus: int
    comment: str | None
    until_s: float
    gpu_type: str = ""
    power = "share"


ACTIONS: dict[str, type[Action]] = {
    kind.__name__: kind
    for kind in (
        *(Rank, Hold, Release, Requeue, AskToStop, Suspend, Resume, MovePartition, RequireNodes, Tell),
        *(Share, StartShared, Unmark, Unshare),
    )
}
POWERS = tuple(dict.fromkeys([*(kind.power for kind in ACTIONS.values()), "profile", "nodes"]))
"""Every switch there is; the last two are about partitions, not about single jobs."""


@dataclass(frozen=True)
class Refusal:
    """An action that was wanted and not done: the rule that stood against it, and details in words."""

    action: Action
    rule: str
    detail: str = ""
