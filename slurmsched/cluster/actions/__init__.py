"""Actions on a cluster as values, named by imperatives, each with its life after it was sent."""

from __future__ import annotations

from .avoid import Avoid
from .base import NO_JOB, Action, JobAction, Refusal, job_of
from .comment import SetAdminComment
from .hold import Hold, Release
from .ideal import Move, Preempt, Start
from .nodes import MoveNodes, NodeChange
from .order import Rank
from .partitions import MovePartition
from .resize import Resize
from .rightsize import RestoreSize, Rightsize
from .share import Share, StartShared, Unmark, Unshare
from .steer import Steer, Unsteer
from .stop import AskToStop, End, Requeue
from .suspend import Resume, Suspend

__all__ = [
    "ACTIONS",
    "NO_JOB",
    "POWERS",
    "Action",
    "AskToStop",
    "Avoid",
    "End",
    "Hold",
    "JobAction",
    "Move",
    "MoveNodes",
    "MovePartition",
    "NodeChange",
    "Preempt",
    "Rank",
    "Refusal",
    "Release",
    "Requeue",
    "Resize",
    "RestoreSize",
    "Resume",
    "Rightsize",
    "SetAdminComment",
    "Share",
    "Start",
    "StartShared",
    "Steer",
    "Suspend",
    "Unmark",
    "Unshare",
    "Unsteer",
    "job_of",
]

ACTIONS: dict[str, type[Action]] = {
    kind.stored: kind
    for kind in (
        *(Rank, Hold, Release, Requeue, AskToStop, End, Suspend, Resume, MovePartition, Steer, Unsteer),
        *(Rightsize, RestoreSize, Resize, Avoid, SetAdminComment, Share, StartShared, Unmark, Unshare),
        *(Start, Preempt, Move, MoveNodes),
    )
}
"""The classes of actions by their stored spelling: in records, intents, metrics and JSON."""

POWERS = tuple(dict.fromkeys([*(kind.power for kind in ACTIONS.values() if kind is not Avoid), "migrate", "profile"]))
"""All switches; nodes and profile concern partitions, not single jobs."""
