"""Shared GPUs: pending jobs on their way to slots, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Labels, rows_with
from ..events import Value
from ..jobs import JobState
from ..text.tres import slots_in
from .base import JobAction, OwnIntents
from .hold import may_start
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import BoolArray
    from ..jobs import JobTable

LONGEST_S = 3600.0
"""The distance of the begin times of jobs that share, which their intents do not say."""


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
    stored = "Share"
    story = (("shared", "we began to change its GPUs into GPUs that it shares"),)
    of_sharing = True
    modifies = "partition"
    delays_s = LONGEST_S

    @property
    def asked_for(self) -> str:
        """The original request, for a later restore: partitions, a blank, GPUs."""
        gpus = self.token.partition(":")[0].count("+") + 1
        return f"{self.home} gpu{self.gpu_type and ':'}{self.gpu_type}:{gpus}"

    @property
    def value(self) -> Value:
        """The original request."""
        return self.asked_for

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return which jobs share, and what they asked for."""
        shares, asked_for, given_back = sharing(own.of(cls), own.of(Unshare), jobs)
        return {"shares": shares, "own_whole_gpus": asked_for, "given_back": given_back}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job asks for slots."""
        return bool(slots_in(pending.per_node[row]))

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True for a pending job with neither slots nor our token: it is ours while it has one of them."""
        row = look.waiting(intent.job_id)
        return row is not None and is_untouched(look.pending, row)

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True: the first of its two writes may have been accepted."""
        return True


SETTLED = "of jobs on their way to shared GPUs {shared} may start, {unshared} have their own"
"""How a release tells of jobs that it takes off their way to shared GPUs."""


@dataclass(frozen=True)
class StartShared(JobAction):
    """Start now a job that requests exactly the slots of *token*."""

    token: str
    power = "share"
    stored = "StartShared"
    returned = "shared", SETTLED
    story = (("let start", "we let it start on GPUs that it shares ({value})"),)
    slurm_event = "started"
    of_sharing = True
    delays_s = LONGEST_S

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job may start."""
        return may_start(pending, row, now_s)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once the job may start, or has."""
        return seen or look.waiting(intent.job_id) is None


@dataclass(frozen=True)
class Unmark(JobAction):
    """Restore the owner's *comment* of a job whose change to shared GPUs never reached its slots, and let it start."""

    comment: str
    power = "share"
    stored = "Unmark"
    returned = "unshared", SETTLED
    story = (("unmarked", "we left its GPUs as they are, and gave its comment back to it"),)
    of_sharing = True
    delays_s = 0.0
    undoes = ("Share",)

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if nothing of the change is left in the job."""
        return is_untouched(pending, row)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once nothing of the change is left, or the job has started."""
        return seen or look.waiting(intent.job_id) is None


@dataclass(frozen=True)
class Unshare(JobAction):
    """Restore a pending job's whole GPUs, *gpus* per node, and its owner's *comment*; None keeps the present one."""

    home: str
    gpus: int
    comment: str | None
    until_s: float
    gpu_type: str = ""
    power = "share"
    stored = "Unshare"
    returned = Unmark.returned
    story = (("unshared", "we gave its own GPUs back to it"),)
    of_sharing = True
    modifies = "partition"
    delays_s = LONGEST_S
    undoes = ("Share",)

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job asks for whole GPUs again."""
        return _is_whole(pending, row)

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once the job has started: until then it is not moved again."""
        return look.waiting(intent.job_id) is None


def is_untouched(jobs: JobTable, row: int) -> bool:
    """Return True if nothing of a change to sharing is left in a job; its token is written first and removed last."""
    waits = jobs.state[row] == JobState.PENDING
    return _is_whole(jobs, row) and not (waits and jobs.share_token[row])


def _is_whole(jobs: JobTable, row: int) -> bool:
    """Return True if a job requests whole GPUs, on no node that we required."""
    return bool(jobs.gpus[row] > 0) and not slots_in(jobs.per_node[row]) and not jobs.required_nodes[row]


def sharing(
    shares: Collection[Intent], unshares: Collection[Intent], jobs: JobTable
) -> tuple[BoolArray, Labels, BoolArray]:
    """Return a mask of *jobs* that share GPUs or are about to, their original requests, and a mask of those undone.

    Our record counts, not the token: an owner may have written another comment since.
    """
    share_of = {intent.job_id: str(intent.value) for intent in shares}
    given_back = np.zeros(len(jobs), dtype=np.bool_)
    given_back[rows_with(jobs.job_id, [intent.job_id for intent in unshares])] = True
    rows = rows_with(jobs.job_id, share_of)
    found = np.zeros(len(jobs), dtype=np.bool_)
    found[[row for row in rows if not is_untouched(jobs, row)]] = True
    ids, names = jobs.job_id.tolist(), [""]
    codes = np.zeros(len(jobs), dtype=np.int64)
    for row in np.flatnonzero(found).tolist():
        codes[row] = len(names)
        names.append(share_of[ids[row]])
    return found, Labels(codes, tuple(names)), given_back
