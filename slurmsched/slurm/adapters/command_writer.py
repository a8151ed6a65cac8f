"""Writes to Slurm: lines for all jobs at once on the standard input of scontrol, and each complaint to its job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from ...cluster.actions import (
    Action,
    AskToStop,
    JobAction,
    MoveNodes,
    Resize,
    RestoreSize,
    Rightsize,
    SetAdminComment,
    Share,
    StartShared,
    Steer,
    Unshare,
    Unsteer,
    job_of,
)
from ...cluster.exclusions import same_nodes
from ...cluster.squeue_values import least_and_most_nodes
from ...cluster.text.tres import NOTHING
from ...errors import SlurmError, SlurmRefused, SlurmUnavailable
from ..port import ActionResult
from ..read import squeue
from ..read.records import RecordColumns
from ..versions import IN_A_MOMENT, TASK_UNREFUSED
from ..write.verbs import CHANGED_MEANWHILE, Request, lines, ours_to_tell, signals, slots_line
from .command_runner import CommandRunner, Printed, unreachable
from .job_queries import exclusions, long, of_arrays_too, request_columns

AGAIN = 9
"""Retries of a change that Slurm refuses temporarily; after those it is left to the next cycle."""

_GRES = ("tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task")
_REQUEST = ("JobID", *_GRES, "tres", "NumNodes", "MaxNodes")

_BY_REQUEST = StartShared | Unshare | Resize
"""Actions whose commands depend on what the job asks for at that moment."""

A = TypeVar("A", bound=Action)

_ABOUT_TASKS = re.compile(r"(?P<array>\d+)_[^:]+: (?P<words>.*)")
_ABOUT_JOB = re.compile(r"\bfor job (\d+)")
_ABOUT_SIGNAL = re.compile(r"\bjob(?: id)? (\d+(?:_\d+)?)")


@dataclass(frozen=True)
class CommandWriter:
    """Sends actions by Slurm's commands; *multifactor* tells whether its priorities have points."""

    console: CommandRunner
    multifactor: Callable[[], bool]

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Send *actions* to the standard input of scontrol; a complaint about one job does not affect the others.

        Moves of nodes go out one by one. AdminComments are written after one read of their present texts.
        """
        stop_answers = iter(self._ask_to_stop([action for action in actions if isinstance(action, AskToStop)]))
        comments = [action for action in actions if isinstance(action, SetAdminComment)]
        comment_answers = iter(self._write_comments(comments))
        alone = AskToStop | SetAdminComment | MoveNodes
        rest = iter(self._batch([action for action in actions if not isinstance(action, alone)]))
        node_answers = iter([self._move_nodes(action) for action in actions if isinstance(action, MoveNodes)])
        kinds = {AskToStop: stop_answers, SetAdminComment: comment_answers, MoveNodes: node_answers}
        return [next(kinds.get(type(action), rest)) for action in actions]

    def _write_comments(self, actions: Sequence[SetAdminComment]) -> list[ActionResult]:
        """Write AdminComments, except over those that somebody else wrote."""
        why_not = self._why_not_to_tell([action.job_id for action in actions]) if actions else {}
        written = iter(self._batch([action for action in actions if action.job_id not in why_not]))
        return [
            ActionResult(action, why_not[action.job_id]) if action.job_id in why_not else next(written)
            for action in actions
        ]

    def _why_not_to_tell(self, jobs: Sequence[int]) -> dict[int, str]:
        """Map each of *jobs* whose AdminComment must not be written to the reason; an array's reaches all tasks."""
        try:
            options = ["-a", "-t", "all", "-j", ",".join(map(str, jobs))]
            shown = self._queue(options, ("JobID", "ArrayJobID", "admin_comment"))
        except SlurmRefused as error:  # with a single job id: Slurm no longer has the job
            return dict.fromkeys(jobs, str(error))
        there: set[int] = set()
        theirs: set[int] = set()
        for job, array, text in zip(*shown.by_name.values(), strict=True):
            (there if ours_to_tell(text) else theirs).update((int(job), int(array)))
        missing = dict.fromkeys(set(jobs) - there, "squeue does not show it")
        return missing | dict.fromkeys(theirs & set(jobs), "its AdminComment is somebody else's")

    def _ask_to_stop(self, actions: Sequence[AskToStop]) -> list[ActionResult]:
        """Send each signal to the steps of all its jobs, then to the scripts of those that Slurm did not refuse.

        Each command reads the whole queue, whatever the number of its jobs.
        """
        refused: dict[int, str] = {}
        for signal in dict.fromkeys(action.signal for action in actions):
            jobs = [action.job_id for action in actions if action.signal == signal]
            for place in range(2):
                if left := [job for job in jobs if job not in refused]:
                    refused |= self._signal(signals(signal, left)[place], left)
        return [ActionResult(action, refused.get(action.job_id)) for action in actions]

    def _signal(self, argv: Sequence[str], jobs: Sequence[int]) -> dict[int, str]:
        """Run one such command; return Slurm's complaint about each of *jobs* that it refused.

        One that names none of them concerns all: the command signals the jobs of which it says nothing (seen on 22.05),
        but none where it cannot read an id.
        """
        printed = self.console.run(argv)
        if unreachable(printed.err):
            raise SlurmUnavailable(f"{argv[0]}: {printed.err.strip()[:500]}")
        if not printed.code:
            return {}
        complaints = _complaints(printed.err, _ABOUT_SIGNAL)
        names = self._names_of_tasks(jobs) if any("_" in name for name in complaints) else {}
        everybody = dict.fromkeys(jobs, printed.err.strip()[:300] or f"exit status {printed.code}")
        refused = {job: complaints[name] for job in jobs if (name := names.get(job, str(job))) in complaints}
        return refused or everybody

    def _names_of_tasks(self, jobs: Sequence[int]) -> dict[int, str]:
        """Map each of *jobs* that is a task of an array to its name in complaints about signals, as ``12_3``."""
        try:
            options = ["-a", "-t", "all", "-j", ",".join(map(str, jobs))]
            shown = self._queue(options, ("JobID", "ArrayJobID", "ArrayTaskID"))
        except SlurmRefused:  # with a single job id: Slurm no longer has the job
            return {}
        rows = zip(*shown.by_name.values(), strict=True)
        return {int(job): f"{array}_{task}" for job, array, task in rows if task.isdecimal()}

    def _move_nodes(self, action: MoveNodes) -> ActionResult:
        """Run one scontrol per step up to a refusal, since its complaints do not name the partition."""
        try:
            script = lines(action)
        except ValueError as error:
            return ActionResult(action, str(error))
        for step, line in zip(action.steps, script, strict=True):
            printed = send(self.console, [line])
            if unreachable(printed.err):
                raise SlurmUnavailable(f"scontrol: {printed.err.strip()[:500]}")
            if printed.code:
                words = printed.err.strip()[:300] or f"exit status {printed.code}"
                return ActionResult(action, f"{words} for partition {step.partition}")
        return ActionResult(action)

    def _batch(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Send all lines of *actions*; then, for jobs that begin to share, the line that depends on their request."""
        multifactor = self.multifactor() if actions else True
        requests = self._requests([a.job_id for a in actions if isinstance(a, _BY_REQUEST)])
        by_nodes = [a.job_id for a in actions if isinstance(a, Resize) and a.each]
        sizes = self._sizes([*by_nodes, *(a.job_id for a in actions if isinstance(a, Rightsize | RestoreSize))])
        exclusions = self._exclusions_of([a.job_id for a in actions if isinstance(a, Steer | Unsteer)])
        there = requests.keys() & set(by_nodes)
        requests |= {job: replace(requests[job], node_request=sizes.get(job, "")) for job in there}

        def first(action: Action) -> tuple[str, ...]:
            if isinstance(action, Rightsize | RestoreSize) and sizes.get(action.job_id) != action.before:
                raise ValueError(CHANGED_MEANWHILE)
            if isinstance(action, Steer | Unsteer):
                present = exclusions.get(action.job_id)
                if present is None or not (present == action.before or same_nodes(present, action.before)):
                    raise ValueError(CHANGED_MEANWHILE)
            if isinstance(action, Share) and (hidden := self._hidden(action.job_id)):
                raise ValueError(hidden)
            request = _request_of(action, requests) if isinstance(action, _BY_REQUEST) else None
            return lines(action, multifactor=multifactor, request=request)

        refused = self._written(dict(enumerate(actions)), first)
        begun = {at: a for at, a in enumerate(actions) if isinstance(a, Share) and at not in refused}
        requests = self._requests([action.job_id for action in begun.values()])
        refused |= self._written(begun, lambda share: (slots_line(share, _request_of(share, requests)),))
        return [ActionResult(action, refused.get(at)) for at, action in enumerate(actions)]

    def _written(self, actions: Mapping[int, A], lines_of: Callable[[A], Sequence[str]]) -> dict[int, str]:
        """Run one scontrol for the first line of each action, one for the second; return refusals by key of *actions*.

        A refused action goes no further. A temporary refusal is retried up to ``AGAIN`` times.
        """
        left: dict[int, list[str]] = {}
        refused: dict[int, str] = {}
        for at, action in actions.items():
            try:
                left[at] = list(lines_of(action))
            except ValueError as error:  # a user's text must not block the other actions
                refused[at] = str(error)
        patience = AGAIN
        while left:
            complaints = self._comments([rest[0] for rest in left.values()], {job_of(actions[at]) for at in left})
            for at, rest in list(left.items()):
                words = complaints.get(job_of(actions[at]))
                if words is None:
                    del rest[0]
                elif IN_A_MOMENT not in words or not patience:
                    refused[at] = words
                if not rest or at in refused:
                    del left[at]
            patience -= bool(complaints) and patience > 0
        return refused

    def _requests(self, jobs: Sequence[int]) -> dict[int, Request]:
        """Return the generic resources that each of *jobs* requests now, without jobs that squeue does not show."""
        if not jobs:
            return {}
        try:
            shown = self._queue(["-a", "-t", "all", "-j", ",".join(map(str, jobs))], _REQUEST)
        except SlurmRefused:  # with a single job id: Slurm no longer has the job
            return {}
        rows = zip(*shown.by_name.values(), strict=True)
        return {int(job): _request(texts[: len(_GRES)], texts[len(_GRES) :]) for job, *texts in rows}

    def _sizes(self, jobs: Sequence[int]) -> dict[int, str]:
        """Return the CPUs and memory that each of *jobs* asks for now, without those that no longer wait."""
        if not jobs:
            return {}
        try:
            shown = request_columns(self.console, ["-t", "PD", "-j", ",".join(map(str, jobs))])
            found = of_arrays_too(shown, squeue.node_requests(shown))
        except SlurmRefused:  # with a single job id: Slurm no longer has the job
            return {}
        return {int(job): text for job, text in found.items()}

    def _hidden(self, job_id: int) -> str | None:
        """Return the reason against slots that squeue does not show, namely tasks per GPU; None without one."""
        shown = self.console.run(["scontrol", "show", "job", str(job_id)])
        if shown.code:
            return shown.err.strip()[:300] or f"exit status {shown.code}"
        return "it asks for tasks per GPU" if re.search("^ *NtasksPerTRES=", shown.out, re.MULTILINE) else None

    def _comments(self, script: Sequence[str], jobs: Set[int]) -> dict[int, str]:
        """Send *script* and return Slurm's complaints by job; raise where a failure concerns none of *jobs*."""
        printed = send(self.console, script)
        complaints = {int(job): words for job, words in _complaints(printed.err).items()}
        answers = _answers_of_tasks(printed.err)
        if printed.code and not jobs & (complaints.keys() | answers.keys()):
            kind = SlurmUnavailable if unreachable(printed.err) else SlurmError
            raise kind(f"scontrol: {printed.err.strip()[:500] or f'exit status {printed.code}'}")
        if unreachable(printed.err):
            raise SlurmUnavailable(f"scontrol: {printed.err.strip()[:500]}")
        return complaints | {array: words for array, words in answers.items() if words}

    def _exclusions_of(self, jobs: Sequence[int]) -> dict[int, str]:
        """Return the excluded nodes that each of *jobs* has now, without those that no longer wait."""
        if not jobs:
            return {}
        try:
            found = exclusions(self.console, ["-t", "PD", "-j", ",".join(map(str, jobs))])
        except SlurmRefused:  # with a single job id: Slurm no longer has the job
            return {}
        return {int(job): "" if text in NOTHING else text for job, text in found.items()}

    def _queue(self, options: Sequence[str], fields: Sequence[str]) -> RecordColumns:
        return long(self.console, "squeue", options, fields)


def _request_of(action: JobAction, requests: Mapping[int, Request]) -> Request:
    """Return the generic resources that the job of *action* requests; ValueError where squeue does not show it."""
    if action.job_id not in requests:
        raise ValueError("squeue does not show it")
    return requests[action.job_id]


def _request(texts: Sequence[str], nodes: Sequence[str]) -> Request:
    """Return the request that these texts are, on so many nodes."""
    per_job, per_node, per_socket, per_task = ("" if text in NOTHING else text for text in texts)
    least, most = least_and_most_nodes(*nodes)
    return Request(per_job, per_node, per_socket, per_task, max(least, 1), max(most, 1))


def _answers_of_tasks(text: str) -> dict[int, str]:
    """Return the refusal by array, empty if there was none, from answers that Slurm gives task by task.

    A task that has ended or started meanwhile no longer needs the change.
    """
    answers: dict[int, str] = {}
    for line in text.splitlines():
        if about := _ABOUT_TASKS.fullmatch(line.strip()):
            array, words = int(about["array"]), about["words"]
            refused = "" if words in TASK_UNREFUSED else f"{words[:250]} for job {array}"
            answers[array] = answers.get(array) or refused
    return answers


def _complaints(text: str, about_job: re.Pattern[str] = _ABOUT_JOB) -> dict[str, str]:
    """Return the first of Slurm's complaints about each job, by the name that it has there."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        about = about_job.search(line)
        if about:
            found.setdefault(about.group(1), line.strip()[:300])
    return found


def send(console: CommandRunner, script: Sequence[str]) -> Printed:
    """Run scontrol with a line of its standard input for each of *script*."""
    return console.run(["scontrol"], stdin="\n".join([*script, ""]))
