"""The allow-list: every line we may ever send to scontrol, every call to pyslurm. Nothing else here writes to Slurm.

There is no verb here that cancels a job or shortens a time limit: scancel only sends one of ``SIGNALS``. A comment is
only ever given or relieved of our share token, as it was otherwise; an AdminComment is only written where it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...cluster.actions import (
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
    Unmark,
    Unshare,
)
from ...cluster.records.node_loans import SetNodes
from ...cluster.text.comment import is_plain
from ...cluster.text.tres import are_slots_of, gpus_in, requests_in
from ..versions import NOTHING

BASIC_BAND = 0xFFFF0000
"""Priorities that priority/basic gives lie below this; those we fix lie above, in the order of their points."""

SIGNALS = ("URG", "USR1", "USR2")
"""What may ask a job to stop. Who does not know of SIGURG ignores it; the other two end a program that does not."""

MARK = "slurmsched:"
"""How an AdminComment of ours begins."""

_TOKEN = re.compile(r"[0-9]{1,3}(\+[0-9]{1,3})*(:[a-z0-9]+)*")
_NAMES = re.compile(r"[A-Za-z0-9_.,+\[\]-]*")


@dataclass(frozen=True)
class Request:
    """The generic resources that a pending job asks for, as squeue writes them; the fields in which it may."""

    per_job: str = ""
    per_node: str = ""
    per_socket: str = ""
    per_task: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return ",".join(filter(None, (self.per_job, self.per_node, self.per_socket, self.per_task)))

    @property
    def names(self) -> tuple[str, ...]:
        """What it asks for, item by item."""
        return requests_in(self.text)

    @property
    def one_field(self) -> bool:
        """Whether all of it, if anything, is asked for either per job or per node."""
        here = [bool(requests_in(text)) for text in (self.per_job, self.per_node, self.per_socket, self.per_task)]
        return sum(here) <= 1 and not any(here[2:])

    def replaced_by(self, gres: str) -> str:
        """The changes that make it ask for *gres* alone; ValueError where no single line does.

        Slurm 22.05 adds what is set to what it has, and takes away only what is set to nothing: so one of the two
        fields is emptied, and the other one, in which nothing is asked for, is set.
        """
        if not self.one_field:
            raise ValueError("it asks for generic resources in several ways, which no single change replaces")
        if requests_in(self.per_node):
            return f"trespernode= tresperjob={gres}"
        return f"tresperjob= trespernode={gres}"


def lines(action: Action, *, multifactor: bool = True, request: Request | None = None) -> tuple[str, ...]:
    """The scontrol(1) commands that carry *action* out; ValueError where it holds what no command may.

    Of a ``Share`` this is the first one, and ``slots_line`` the second. What ends or undoes it depends on the
    *request* of the job as it is now.
    """
    if not (isinstance(action.job_id, int) and action.job_id > 0):
        raise ValueError(f"{action!r}: a job id is a positive number")
    if isinstance(action, StartShared):
        return _start_shared(action, request or Request())
    if isinstance(action, Unshare):
        return _unshare(action, request or Request())
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
    if isinstance(action, Share | StartShared | Unmark | Unshare):
        return None
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


def _comment_arguments(action: Tell) -> tuple[str, ...]:
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
    slots_line(action, Request())
    token = f"{_comment(action.comment)}{';' if action.comment else ''}slurmsched:share={action.token}"
    # From here on job_submit.lua lets nobody else change what the job asks for, so that what is read of it afterwards
    # holds until the second line. On its own this line changes nothing but the begin time.
    return (f"update jobid={action.job_id} starttime=uts{int(action.until_s)} comment={token}",)


def slots_line(action: Share, request: Request) -> str:
    """The scontrol(1) command that makes slots of the GPUs in the *request* of a job, and moves it, in one.

    Slurm takes or refuses it as a whole, so that no job is ever half-way. ValueError where no single line can.
    """
    gpus = _gpus_of(action.token)
    if "gpu" in request.names and gpus_in(request.text)[0] != len(gpus):
        raise ValueError(f"it asks for {request.text} by now, which is not {len(gpus)} GPUs")
    if set(request.names) - {"gpu", "slot"}:
        raise ValueError(f"it asks for {request.text} by now, which is more than GPUs")
    slots = request.replaced_by(",".join(f"gres:slot:i{gpu}:1" for gpu in gpus))
    where = f"partition={_name(action.partition)} reqnodelist={_name(action.node)}"
    return f"update jobid={action.job_id} starttime=uts{int(action.until_s)} {where} {slots}"


def _start_shared(action: StartShared, request: Request) -> tuple[str, ...]:
    if not (request.one_field and are_slots_of(request.text, _gpus_of(action.token))):
        raise ValueError(f"it asks for {request.text or 'nothing'}, which is not what share={action.token} says")
    return (f"update jobid={action.job_id} starttime=now",)


def _unmark(action: Unmark) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} comment={_comment(action.comment)} starttime=now",)


def _unshare(action: Unshare, request: Request) -> tuple[str, ...]:
    change = f"update jobid={action.job_id}"
    home = f"partition={_name(action.home)}"
    waits = f"starttime=uts{int(action.until_s)} {home}"
    comment = "" if action.comment is None else f" comment={_comment(action.comment)}"
    gpus = f"gres:gpu:{_name(action.gpu_type)}{':' if action.gpu_type else ''}{int(action.gpus)}"
    if request.one_field and "gpu" in request.names and "slot" not in request.names:
        return (f"{change} {home} reqnodelist= starttime=now{comment}",)
    if request.one_field:
        return (f"{change} {home} reqnodelist= starttime=now{comment} {request.replaced_by(gpus)}",)
    # Somebody has added to it: all is taken away first, and the node that it requires is in none of its partitions
    # until it has GPUs again.
    return (
        f"{change} {waits} tresperjob= trespernode= trespersocket= trespertask=",
        f"{change} trespernode={gpus}",
        f"{change}{comment} reqnodelist= starttime=now",
    )


def _gpus_of(token: str) -> tuple[int, ...]:
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"{token!r} is no share token")
    return tuple(int(gpu) for gpu in token.partition(":")[0].split("+"))


def _comment(text: str) -> str:
    if not is_plain(text):
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
    Tell: _comment_arguments,
    Suspend: _suspend,
    Resume: _resume,
    MovePartition: _move,
    RequireNodes: _require,
    Share: _share,
    Unmark: _unmark,
}
_BASIC_WRITERS = _WRITERS | {Rank: _rank_basic}
