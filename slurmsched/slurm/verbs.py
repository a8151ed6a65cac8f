"""The allow-list: every line we may ever send to scontrol, every call to pyslurm. Nothing else here writes to Slurm.

There is no verb here that cancels a job or shortens a time limit: scancel only sends one of ``SIGNALS``. A comment is
only ever given or relieved of our share token, as it was otherwise; an AdminComment is only written where it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..cluster.actions import (
    Action,
    AskToStop,
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
    Tell,
    Unshare,
)
from ..cluster.lending import SetNodes
from .versions import NOTHING

BASIC_BAND = 0xFFFF0000
"""Priorities that priority/basic gives lie below this; those we fix lie above, in the order of their points."""

SETTLE_S = 3.0
"""Never let a requeued job start sooner than this after its requeue.

slurmd still holds the revoked credential of the run that was ended: a run that starts within the same second is
refused by it, and the job FAILS (seen on 22.05). Slurm's own delay of two minutes guards against just that.
"""

PLAIN_COMMENT = re.compile(r"[A-Za-z0-9_.,:;=+@%/-]*")
"""Comments that scontrol's standard input takes as they are: it cuts at blanks and keeps quotes (seen on 22.05)."""

SIGNALS = ("URG", "USR1", "USR2")
"""What may ask a job to stop. Who does not know of SIGURG ignores it; the other two end a program that does not."""

MARK = "slurmsched:"
"""How an AdminComment of ours begins."""

_TOKEN = re.compile(r"[0-9]{1,3}(\+[0-9]{1,3})*(:[a-z0-9]+)*")
_NAMES = re.compile(r"[A-Za-z0-9_.,+\[\]-]*")


def lines(action: Action, *, multifactor: bool = True) -> tuple[str, ...]:
    """The scontrol(1) commands that carry *action* out; ValueError where it holds what no command may."""
    if not (isinstance(action.job_id, int) and action.job_id > 0):
        raise ValueError(f"{action!r}: a job id is a positive number")
    writer: Callable[[Any], tuple[str, ...]] = _WRITERS[type(action)] if multifactor else _BASIC_WRITERS[type(action)]
    return writer(action)


def partition_line(change: SetNodes) -> str:
    """The scontrol(1) command that gives a partition its nodes; ValueError where it names what no command may.

    The caller sees to it that all nodes exist: with one that does not, Slurm 22.05 says no and yet leaves the partition
    only those of the nodes that it knows.
    """
    if not change.nodes or not change.partition or "," in change.partition:
        raise ValueError(f"{change!r}: one partition gets at least one node")
    return f"update partitionname={_name(change.partition)} nodes={_name(change.nodes)}"


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
        case Suspend(job_id):
            return job_id, "suspend", {}
        case Resume(job_id):
            return job_id, "unsuspend", {}
        case _:
            return None


def signals(action: AskToStop) -> tuple[tuple[str, ...], ...]:
    """The scancel(1) commands that ask a running job to stop; ValueError where no such signal may be sent.

    Its steps get the signal by one command, its script with all it started by the other (seen on 22.05). Without a
    state, scancel tries for a minute to signal a job that waits again.
    """
    if not (isinstance(action.job_id, int) and action.job_id > 0) or action.signal not in SIGNALS:
        raise ValueError(f"{action!r}: a job id is a positive number, and signals are {', '.join(SIGNALS)}")
    running = ("scancel", "--state=RUNNING", f"--signal={action.signal}")
    return ((*running, str(action.job_id)), (*running, "--full", str(action.job_id)))


def ours_to_tell(admin_comment: str) -> bool:
    """Whether an AdminComment, as squeue shows it, is none or ours."""
    return admin_comment in NOTHING or admin_comment.startswith(MARK)


def _tell(action: Tell) -> tuple[str, ...]:
    if not action.text.startswith(MARK):
        raise ValueError(f"{action.text!r} does not say that it is ours")
    return (f"update jobid={action.job_id} admincomment={_comment(action.text)}",)


def _ask_to_stop(action: AskToStop) -> tuple[str, ...]:
    signals(action)
    return ()  # scontrol has no word for it


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
    # A job that has ended since we looked would run once more without "incomplete". A later cycle releases this one
    # (StartTime=now): Slurm overwrites a start time given while the job completes.
    return (f"requeue incomplete {action.job_id}",)


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
    # Slurm adds to a request and replaces none. What takes the GPUs away keeps the job from starting in the same line,
    # since a line is refused as a whole, and with it those that follow.
    return (
        f"update jobid={action.job_id} {waits} comment={token} tresperjob= trespernode=",
        f"update jobid={action.job_id} trespernode={slots}",
    )


def _start_shared(action: StartShared) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} partition={_name(action.partition)} starttime=now",)


def _unshare(action: Unshare) -> tuple[str, ...]:
    change = f"update jobid={action.job_id}"
    waits = f"starttime=uts{int(action.until_s)} partition={_name(action.home)}"
    comment = "" if action.comment is None else f" comment={_comment(action.comment)}"
    kind = f"{_name(action.gpu_type)}:" if action.gpu_type else ""
    return (
        f"{change} {waits} tresperjob= trespernode=",
        f"{change} trespernode=gres:gpu:{kind}{int(action.gpus)}",
        f"{change}{comment} reqnodelist= starttime=now",
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
    AskToStop: _ask_to_stop,
    Tell: _tell,
    Suspend: _suspend,
    Resume: _resume,
    MovePartition: _move,
    RequireNodes: _require,
    Share: _share,
    StartShared: _start_shared,
    Unshare: _unshare,
}
_BASIC_WRITERS = _WRITERS | {Rank: _rank_basic}
