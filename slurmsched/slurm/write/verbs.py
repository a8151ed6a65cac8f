"""The allow-list of every line for scontrol and every call to pyslurm. Nothing else here writes to Slurm.

No verb cancels a job or shortens a time limit: scancel only sends one of ``SIGNALS``. A comment only gains or loses our
share token and is otherwise unchanged. An AdminComment is only written, or emptied, where it is empty or ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...cluster.actions import (
    Action,
    AskToStop,
    Hold,
    JobAction,
    MoveNodes,
    MovePartition,
    Rank,
    Release,
    Requeue,
    Resize,
    RestoreSize,
    Resume,
    Rightsize,
    SetAdminComment,
    Share,
    StartShared,
    Steer,
    Suspend,
    Unmark,
    Unshare,
    Unsteer,
)
from ...cluster.node_request import read_request
from ...cluster.records.node_loans import SetNodes
from ...cluster.text.comment import is_plain
from ...cluster.text.plural import count
from ...cluster.text.tres import NOTHING, are_slots_of, gpus_in, requests_in

BASIC_BAND = 0xFFFF0000
"""Priorities that priority/basic gives lie below this; those we fix lie above, in the order of their points."""

SIGNALS = ("URG", "USR1", "USR2")
"""The signals that may ask a job to stop. By default a program ignores SIGURG; the other two end it."""

MARK = "slurmsched:"
"""The first characters of an AdminComment of ours."""

CHANGED_MEANWHILE = "its request was changed meanwhile"
"""The refusal of new CPUs and memory over a request that is not the one that was observed."""

_TOKEN = re.compile(r"[0-9]{1,3}(\+[0-9]{1,3})*(:[a-z0-9]+)*")
_NAMES = re.compile(r"[A-Za-z0-9_.,+\[\]-]*")


@dataclass(frozen=True)
class Request:
    """The generic resources that a pending job requests, by field, as squeue writes them; and its nodes."""

    per_job: str = ""
    per_node: str = ""
    per_socket: str = ""
    per_task: str = ""
    nodes: int = 1
    most_nodes: int = 1
    node_request: str = ""  #: its CPUs and memory (``NodeRequest``), where the action needs them

    @property
    def text(self) -> str:
        """The whole request, joined by commas."""
        return ",".join(filter(None, (self.per_job, self.per_node, self.per_socket, self.per_task)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the requested resources, item by item."""
        return requests_in(self.text)

    @property
    def one_field(self) -> bool:
        """True if the whole request is either per job or per node, or is empty."""
        here = [bool(requests_in(text)) for text in (self.per_job, self.per_node, self.per_socket, self.per_task)]
        return sum(here) <= 1 and not any(here[2:])

    def replaced_by(self, gres: str) -> str:
        """Return the changes that make *gres* the whole request; ValueError where no single line does.

        Slurm 22.05 adds a new value to the present request, and removes only a field that is set to nothing. One of
        the two fields is therefore emptied, and the other one, which is empty, is set.
        """
        if not self.one_field:
            raise ValueError("it asks for generic resources in several ways, which no single change replaces")
        if requests_in(self.per_node):
            return f"trespernode= tresperjob={gres}"
        return f"tresperjob= trespernode={gres}"


def lines(action: Action, *, multifactor: bool = True, request: Request | None = None) -> tuple[str, ...]:
    """Return the scontrol(1) commands that carry out *action*; ValueError for values that no command may contain.

    For a ``Share`` this is the first command, and ``slots_line`` the second. The commands that complete or undo it
    depend on the present *request* of the job, and so does that of a ``Resize``. The commands of a ``MoveNodes`` go out
    one by one, up to a refusal.
    """
    if isinstance(action, MoveNodes):
        return tuple(_partition_line(step) for step in action.steps)
    if not (isinstance(action, JobAction) and isinstance(action.job_id, int) and action.job_id > 0):
        raise ValueError(f"{action!r}: a job id is a positive number")
    if isinstance(action, StartShared):
        return _start_shared(action, request or Request())
    if isinstance(action, Unshare):
        return _unshare(action, request or Request())
    if isinstance(action, Resize):
        return _resize(action, request or Request())
    writer: Callable[[Any], tuple[str, ...]] | None
    writer = (_WRITERS if multifactor else _BASIC_WRITERS).get(type(action))
    if writer is None:
        raise ValueError(f"{action!r} is no write to a real Slurm")
    return writer(action)


def _partition_line(change: SetNodes) -> str:
    """Return the command that sets the nodes of a partition.

    The referee ensures that all nodes exist: with an unknown one, Slurm 22.05 refuses and yet reduces the partition to
    the nodes that it knows.
    """
    if not change.nodes or not change.partition or "," in change.partition:
        raise ValueError(f"{change!r}: one partition gets at least one node")
    return f"update partitionname={_name(change.partition)} nodes={_name(change.nodes)}"


def call(action: Action) -> tuple[int, str, dict[str, object]] | None:
    """Return job id, method of ``pyslurm.Job`` and changes that carry out *action*; None where pyslurm cannot.

    Accepts the actions that ``lines`` accepts, and is for sites with priority/multifactor.
    """
    if isinstance(action, Share | StartShared | Unmark | Unshare | Resize | MoveNodes):
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


def signals(signal: str, jobs: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the scancel(1) commands that ask running *jobs* to stop; ValueError for a signal that may not be sent.

    One command signals the jobs' steps, the other their scripts with all processes they started (seen on 22.05).
    Without a state, scancel tries for a minute to signal a job that is pending again.
    """
    if not all(isinstance(job, int) and job > 0 for job in jobs) or signal not in SIGNALS:
        raise ValueError(f"{signal} to {jobs}: a job id is a positive number, and signals are {', '.join(SIGNALS)}")
    running, ids = ("scancel", "--state=RUNNING", f"--signal={signal}"), tuple(map(str, jobs))
    return ((*running, *ids), (*running, "--full", *ids))


def ours_to_tell(admin_comment: str) -> bool:
    """Return True if an AdminComment, as squeue shows it, is empty or ours."""
    return admin_comment in NOTHING or admin_comment.startswith(MARK)


def _comment_arguments(action: SetAdminComment) -> tuple[str, ...]:
    if action.text and not action.text.startswith(MARK):
        raise ValueError(f"{action.text!r} does not say that it is ours")
    return (f"update jobid={action.job_id} admincomment={_comment(action.text)}",)


def _ask_to_stop(action: AskToStop) -> tuple[str, ...]:
    signals(action.signal, [action.job_id])
    return ()  # scontrol cannot send signals; scancel does


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
    # Without "incomplete", a job that ended after the last observation would run once more. A later cycle releases
    # this one (StartTime=now): Slurm overwrites a start time given while the job completes.
    return (f"requeue incomplete {action.job_id}",)


def _suspend(action: Suspend) -> tuple[str, ...]:
    return (f"suspend {action.job_id}",)


def _resume(action: Resume) -> tuple[str, ...]:
    return (f"resume {action.job_id}",)


def _move(action: MovePartition) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} partition={_name(action.partition)}",)


def _steer(action: Steer) -> tuple[str, ...]:
    if not action.excluded:
        raise ValueError(f"{action!r}: it excludes at least one node")
    return (f"update jobid={action.job_id} excnodelist={_name(action.excluded)}",)


def _unsteer(action: Unsteer) -> tuple[str, ...]:
    return (f"update jobid={action.job_id} excnodelist=",)


def _rightsize(action: Rightsize) -> tuple[str, ...]:
    return (_request_line(action.job_id, action.after),)


def _restore_size(action: RestoreSize) -> tuple[str, ...]:
    return (_request_line(action.job_id, action.own),)


def _request_line(job_id: int, text: str) -> str:
    """Return the one command that sets CPUs and memory: Slurm takes all of it or, for a job that began, nothing."""
    wanted = read_request(text)
    if wanted is None or not wanted.changeable:
        raise ValueError(f"{text!r} are no CPUs and memory of a job")
    cpus = f"numcpus={wanted.cpus} cpuspertask={wanted.per_task} mincpusnode={wanted.per_node}"
    return f"update jobid={job_id} {cpus} minmemory{'cpu' if wanted.per_cpu else 'node'}={wanted.memory_mib}"


def _resize(action: Resize, request: Request) -> tuple[str, ...]:
    """Return the command that changes the number of GPUs in the *request*, and nothing else of it.

    The type is the one that the job has: with another one Slurm would never start it.
    """
    if not request.one_field or request.names != ("gpu",):
        raise ValueError(f"it asks for {request.text or 'nothing'} by now, which is more than one number of GPUs")
    present, gpu_type = gpus_in(request.text)
    expected = action.taken * action.each or action.before
    expected = action.each if action.each and requests_in(request.per_node) else expected
    if present != expected:
        raise ValueError(f"it asks for {request.text} by now, which is not {count(expected, 'GPU')}")
    if not action.gpus > 0:
        raise ValueError(f"{action!r}: it keeps at least one GPU")
    by_node = bool(requests_in(request.per_node))
    if by_node and not action.each and request.most_nodes > 1:
        raise ValueError(f"it may get {count(request.most_nodes, 'node')} from Slurm, with as many GPUs on each")
    field, number = ("trespernode", action.each or action.gpus) if by_node else ("tresperjob", action.gpus)
    gpus = f"gres:gpu:{_name(gpu_type)}{':' if gpu_type else ''}{int(number)}"
    nodes = f"{_by_nodes(action, request)} " if action.each else ""
    return (f"update jobid={action.job_id} {nodes}{field}={gpus}",)


def _by_nodes(action: Resize, request: Request) -> str:
    """Return the part of the command that changes the number of nodes, and tasks and CPUs with them.

    Without the tasks Slurm never starts a job on fewer nodes (``BadConstraints``); without the memory it counts that of
    the former CPUs until the job starts (both seen on 22.05).
    """
    counted, nodes = action.nodes
    before = action.taken or counted
    if request.nodes not in (before, counted) or request.most_nodes != before or nodes < 1:
        raise ValueError(f"it asks for {request.nodes} to {request.most_nodes} nodes by now, which is not {before}")
    size = read_request(request.node_request)
    if size is None or size.per_task < 1 or size.cpus % before or size.tasks % before:
        raise ValueError("its tasks, CPUs and memory do not change with its nodes")
    cpus, tasks = size.cpus // before * nodes, size.tasks // before * nodes
    memory = f" minmemory{'cpu' if size.per_cpu else 'node'}={size.memory_mib}" if size.memory_mib else ""
    return f"numnodes={nodes}-{nodes} numtasks={tasks} numcpus={cpus}{memory}"


def _share(action: Share) -> tuple[str, ...]:
    slots_line(action, Request())
    token = f"{_comment(action.comment)}{';' if action.comment else ''}slurmsched:share={action.token}"
    # From here on job_submit.lua prevents others from changing the request, so that a request read afterwards holds
    # until the second line. On its own this line changes only the begin time.
    return (f"update jobid={action.job_id} starttime=uts{int(action.until_s)} comment={token}",)


def slots_line(action: Share, request: Request) -> str:
    """Return the one scontrol(1) command that replaces the GPUs in the *request* of a job by slots, and moves it.

    Slurm accepts or refuses it as a whole, so that no job is changed in part. ValueError where no single line can.
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
    # Somebody has added to the request: it is emptied first. Until it has GPUs again, the required node is in none of
    # the job's partitions, so that it cannot start.
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
    SetAdminComment: _comment_arguments,
    Suspend: _suspend,
    Resume: _resume,
    MovePartition: _move,
    Steer: _steer,
    Unsteer: _unsteer,
    Rightsize: _rightsize,
    RestoreSize: _restore_size,
    Share: _share,
    Unmark: _unmark,
}
_BASIC_WRITERS = _WRITERS | {Rank: _rank_basic}
