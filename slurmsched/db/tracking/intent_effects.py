"""The effects of intents on the jobs of one observation of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...cluster.events import Value
from ...cluster.exclusions import same_nodes
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.node_loans import members
from ...cluster.state import ClusterState
from ...cluster.text.hostlist import fold
from ...cluster.text.tres import slots_in
from .intent_records import Intent

#: Slurm may round a start time; a hold this close to the requested one is ours.
HOLD_WITHIN_S = 5.0
#: The longest time after a stop request in which a requeue of the job counts as its effect.
GIVING_WAY_S = 3600.0

#: The reason to ignore a stop request: a suspended job cannot act, and is asked again once it runs.
SUSPENDED = "it was suspended before it had acted"

QUEUES_AGAIN = ("Requeue", "AskToStop")


class IntentEffects:
    """An observation of the cluster, indexed for the check of intents."""

    def __init__(self, state: ClusterState, requeued: set[int], now_s: float) -> None:
        self._pending, self._running, self._partitions = state.pending, state.running, state.partitions
        self._pending_row = {job: row for row, job in enumerate(state.pending.job_id.tolist())}
        self._running_row = {job: row for row, job in enumerate(state.running.job_id.tolist())}
        self._requeued, self._now_s = requeued, now_s

    def judge(self, intent: Intent) -> Intent:
        """Return *intent* itself, or a copy with ``seen_s``, ``closed_s`` or ``refused`` filled in."""
        if self._in_vain(intent):
            intent = replace(intent, refused=SUSPENDED)
        seen_s = intent.seen_s
        if seen_s is None and self._is_visible(intent):
            seen_s = self._now_s
        closed_s = self._now_s if self._over(intent, seen_s is not None) else None
        if seen_s == intent.seen_s and closed_s is None:
            return intent
        return replace(intent, seen_s=seen_s, closed_s=closed_s)

    def _in_vain(self, intent: Intent) -> bool:
        """Return True for a stop request to a suspended job, which Slurm accepts though the signal has no effect."""
        if intent.kind != "AskToStop" or intent.answered_s is None or intent.refused is not None:
            return False
        row = self._running_row.get(intent.job_id)
        return row is not None and bool(self._running.state[row] == JobState.SUSPENDED)

    def _is_visible(self, intent: Intent) -> bool:
        if intent.kind in QUEUES_AGAIN:
            return intent.job_id in self._requeued
        if intent.kind in ("End", "Avoid"):  # visible in the job's end alone, and not at all
            return False
        if intent.kind == "Tell":
            return intent.answered_s is not None and intent.refused is None
        if intent.kind in ("Start", "Preempt"):
            return intent.job_id in (self._running_row if intent.kind == "Start" else self._pending_row)
        if intent.kind == "MoveNodes":
            return str(intent.value) == " ".join(self._nodes_of(str(intent.value)))
        row = self._running_row.get(intent.job_id)
        if intent.kind in ("Suspend", "Resume"):
            wanted = JobState.SUSPENDED if intent.kind == "Suspend" else JobState.RUNNING
            return row is not None and bool(self._running.state[row] == wanted)
        row = self._pending_row.get(intent.job_id)
        return row is not None and _PENDING_LOOKS[intent.kind](self._pending, row, intent.value, self._now_s)

    def _nodes_of(self, wanted: str) -> Iterator[str]:
        """Yield the present nodes of each partition of a move, spelled as the *wanted* ones are."""
        for name in (change.partition("=")[0] for change in wanted.split(" ")):
            yield f"{name}={fold(members(self._partitions, name))}"

    def _over(self, intent: Intent, visible: bool) -> bool:
        pending = intent.job_id in self._pending_row
        if not pending and intent.job_id not in self._running_row:
            return True
        if intent.kind == "Rank":  # ours until the job starts, unless it was given back
            return not pending or (visible and intent.value == 0)
        if intent.kind == "AskToStop" and not visible and intent.requested_s < self._now_s - GIVING_WAY_S:
            return True
        if intent.kind in QUEUES_AGAIN:  # ours until its next run starts
            return visible and not pending
        if intent.kind == "Tell":  # ours as long as there is a job
            return False
        if intent.kind == "Share":  # ours while it has slots, or no GPUs at all
            return pending and is_untouched(self._pending, self._pending_row[intent.job_id])
        if intent.kind == "Avoid":
            return False
        if intent.kind in ("MovePartition", "Steer", "Rightsize", "Resize"):  # a requeue keeps what we wrote
            return False
        if intent.kind in ("Unsteer", "RestoreSize"):  # such a job is not changed again for a while
            return not pending
        if intent.kind in ("StartShared", "Unmark"):
            return visible or not pending
        if intent.kind == "Unshare":  # such a job is not moved again
            return not pending
        if intent.kind == "Hold":
            return not pending or (isinstance(intent.value, int | float) and intent.value <= self._now_s)
        return visible


def _points_are(pending: JobTable, row: int, value: Value, now_s: float) -> bool:
    return bool(pending.site_points[row] == value)


def _waits_until(pending: JobTable, row: int, value: Value, now_s: float) -> bool:
    return isinstance(value, int | float) and bool(abs(pending.eligible_s[row] - value) <= HOLD_WITHIN_S)


def _is_free(pending: JobTable, row: int, value: Value, now_s: float) -> bool:
    return not pending.eligible_s[row] > now_s


def sizes_in(value: Value) -> tuple[int, int, int]:
    """Return the GPUs that a ``Resize`` wrote, those that the job's owner asked for, and those on each of its nodes.

    The last is 0 where it has one node.
    """
    gpus, own, *each = map(int, str(value).split(" "))
    return gpus, own, each[0] if each else 0


def _is_whole(jobs: JobTable, row: int) -> bool:
    """Return True if a job requests whole GPUs, on no node that we required."""
    return bool(jobs.gpus[row] > 0) and not slots_in(jobs.per_node[row]) and not jobs.required_nodes[row]


def is_untouched(jobs: JobTable, row: int) -> bool:
    """Return True if nothing of a change to sharing is left in a job; its token is written first and removed last."""
    waits = jobs.state[row] == JobState.PENDING
    return _is_whole(jobs, row) and not (waits and jobs.share_token[row])


_PENDING_LOOKS: dict[str, Callable[[JobTable, int, Value, float], bool]] = {
    "Rank": _points_are,
    "Hold": _waits_until,
    "Release": _is_free,
    "MovePartition": lambda pending, row, value, now_s: pending.partition[row] == str(value).partition(" ")[0],
    "Steer": lambda pending, row, value, now_s: same_nodes(pending.excluded_nodes[row], str(value).partition(" ")[2]),
    "Unsteer": lambda pending, row, value, now_s: not pending.excluded_nodes[row],
    "Rightsize": lambda pending, row, value, now_s: pending.node_request[row] == str(value).partition(" ")[2],
    "RestoreSize": lambda pending, row, value, now_s: pending.node_request[row] == value,
    "Resize": lambda pending, row, value, now_s: bool(pending.gpus[row] == sizes_in(value)[0]),
    "Share": lambda pending, row, value, now_s: bool(slots_in(pending.per_node[row])),
    "StartShared": _is_free,
    "Unmark": lambda pending, row, value, now_s: is_untouched(pending, row),
    "Unshare": lambda pending, row, value, now_s: _is_whole(pending, row),
}
