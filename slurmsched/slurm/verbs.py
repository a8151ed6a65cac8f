"""The allow-list: every line we may ever send to scontrol, every call to pyslurm. Nothing else here writes to Slurm.

There is no verb here that cancels a job or shortens a time limit. A comment is only ever given or relieved of our share
token, as it was otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..cluster.actions import (
    Action,
    Hold,
    MovePartition,
    Rank,
    Release,
    Requeue,
    RequireNodes,
    Resume,
    Share,
    StartShared,
    Suspend,
    Unshare,
)

BASIC_BAND = 0xFFFF0000
"""Priorities that priority/basic gives lie below this; those we fix lie above, in the order of their points."""

SETTLE_S = 3.0
"""Never let a requeued job start sooner than this after its requeue.

slurmd still holds the revoked credential of the run that was ended: a run that starts within the same second is
refused by it, and the job FAILS (seen on 22.05). Slurm's own delay of two minutes guards against just that.
"""

PLAIN_COMMENT = re.compile(r"[A-Za-z0-9_.,:;=+@%/-]*")
"""Comments that scontrol's standard input takes as they are: it cuts at blanks and keeps quotes (seen on 22.05)."""

_TOKEN = re.compile(r"[0-9]{1,3}(\+[0-9]{1,3})*(:[a-z0-9]+)*")
_NAMES = re.compile(r"[A-Za-z0-9_.,+\[\]-]*")


def lines(action: Action, *, multifactor: bool = True) -> tuple[str, ...]:
    """The scontrol(1) commands that carry *action* out; ValueError where it holds what no command may."""
    if not (isinstance(action.job_id, int) and action.job_id > 0):
        raise ValueError(f"{action!r}: a job id is a positive number")
    writer: Callable[[Any], tuple[str, ...]] = _WRITERS[type(action)] if multifactor else _BASIC_WRITERS[type(action)]
    return writer(action)


def call(action: Action) -> tuple[int, str, dict[str, object]] | None:
    """The job, the method of ``pyslurm.Job`` and its changes that carry *action* out; None where pyslurm cannot.

    Takes what ``lines`` takes, and is for sites with priority/multifactor.
    """
    lines(action)
    match action:
        case Rank(job_id, points) if points:
            return job_id, "modify", {"site_factor": int(points)}
        case Hold(job_id, until_s):
            return job_id, "modify", {"begin_time": int(until_s)}
        case Release(job_id):
            return job_id, "modify", {"begin_time": "now"}
        case Requeue(job_id):
            return job_id, "requeue", {}
        case Suspend(job_id):
            return job_id, "suspend", {}
        case Resume(job_id):
            return job_id, "unsuspend", {}
        case _:
            return None


def _rank(action: Rank) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} sitefactor={int(action.points)}",)


def _rank_basic(action: Rank) -> tuple[str, ...]:
    if action.points <= 0:
        return (f"release {action.job_id}",)
    return (f"update jobid={action.job_id} priority={min(BASIC_BAND + int(action.points), 0xFFFFFFFD)}",)


def _hold(action: Hold) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} starttime=uts{int(action.until_s)}",)


def _release(action: Release) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} starttime=now",)


def _requeue(action: Requeue) -> tuple[str, ...]:
    # a later cycle releases it (StartTime=now): Slurm overwrites a start time given while the job completes
    return (f"requeue {action.job_id}",)


def _suspend(action: Suspend) -> tuple[str, ...]:
    return (f"suspend {action.job_id}",)


def _resume(action: Resume) -> tuple[str, ...]:
    return (f"resume {action.job_id}",)


def _move(action: MovePartition) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} partition={_name(action.partition)}",)


def _require(action: RequireNodes) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} reqnodelist={_name(action.nodes)}",)


def _share(action: Share) -> tuple[str, ...]:
    if not _TOKEN.fullmatch(action.token):
        raise ValueError(f"{action.token!r} is no share token")
    slots = ",".join(f"gres:slot:i{int(gpu)}:1" for gpu in action.token.partition(":")[0].split("+"))
    token = f"{_comment(action.comment)}{';' if action.comment else ''}slurmsched:share={action.token}"
    waits = f"starttime=uts{int(action.until_s)} partition={_name(action.home)} reqnodelist={_name(action.node)}"
    # Slurm adds to a request and replaces none. What takes the GPUs away keeps the job from starting in the same line:
    # newer releases refuse a change now and then (Resource temporarily unavailable), and then the whole line.
    return (
        f"update jobid={action.job_id} {waits} comment={token} tresperjob= trespernode=",
        f"update jobid={action.job_id} trespernode={slots}",
    )


def _start_shared(action: StartShared) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} partition={_name(action.partition)} starttime=now",)


def _unshare(action: Unshare) -> tuple[str, ...]:
    change = f"update jobid={action.job_id}"
    waits = f"starttime=uts{int(action.until_s)} partition={_name(action.home)}"
    return (
        f"{change} {waits} tresperjob= trespernode=",
        f"{change} trespernode=gres:gpu:{int(action.gpus)}",
        f"{change} comment={_comment(action.comment)} reqnodelist= starttime=now",
    )


def _comment(text: str) -> str:
    if not PLAIN_COMMENT.fullmatch(text):
        raise ValueError(f"the comment {text!r} has blanks or quotes, which scontrol cannot write back as they are")
    return text


def _name(text: str) -> str:
    if not _NAMES.fullmatch(text):
        raise ValueError(f"{text!r} is no list of partition or node names")
    return text


_WRITERS: dict[type[Action], Callable[[Any], tuple[str, ...]]] = {
    Rank: _rank,
    Hold: _hold,
    Release: _release,
    Requeue: _requeue,
    Suspend: _suspend,
    Resume: _resume,
    MovePartition: _move,
    RequireNodes: _require,
    Share: _share,
    StartShared: _start_shared,
    Unshare: _unshare,
}
_BASIC_WRITERS = _WRITERS | {Rank: _rank_basic}
