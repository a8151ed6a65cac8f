"""Right-sizing: CPUs and memory of pending jobs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..columns import Labels, rows_with
from ..events import Value
from ..exclusions import UNREAD
from ..node_request import read_request
from ..reasons import ReasonKind, where_kind
from .base import HALF, Action, JobAction, OwnIntents
from .intent import Intent, by_job, by_request
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import BoolArray, FloatArray
    from ..jobs import JobTable


@dataclass(frozen=True)
class Rightsize(JobAction):
    """Let a pending job ask for other CPUs and memory; the texts are those of the column ``node_request``."""

    own: str  #: what its owner asked for
    before: str  #: what Slurm has now
    after: str
    power = "rightsize"
    stored = "Rightsize"
    story = (("sized", "we changed its CPUs and memory, from the first to the second of {value}"),)
    accumulates = True

    @property
    def value(self) -> Value:
        """What its owner asked for, and behind a blank what we wrote."""
        return f"{self.own} {self.after}"

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"node_request": self.after}

    def expects(self) -> Mapping[str, Value]:
        """Return what it replaces."""
        return {"node_request": self.before}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return what is ours of CPUs and memory."""
        sizes = own_sizes(own.of(cls), own.of(RestoreSize), pending)
        return {
            "own_request": sizes.own,
            "sized_s": sizes.sized_s,
            "request_changed": sizes.theirs,
            HALF: sizes.half,
        }

    @classmethod
    def undone(cls, own: OwnIntents, pending: JobTable) -> Sequence[Action]:
        """Return the sizes of owners."""
        own_request = own_sizes(own.of(cls), own.of(RestoreSize), pending).own
        rows = zip(pending.job_id.tolist(), pending.node_request, own_request, strict=True)
        return [RestoreSize(job, before, after) for job, before, after in rows if after]

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job asks for this."""
        return pending.node_request[row] == str(value).partition(" ")[2]

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: a requeue keeps what we wrote."""
        return False

    @classmethod
    def reads(cls, intent: Intent) -> tuple[str, ...]:
        """Return the column of CPUs and memory."""
        return ("node_request",)

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True: Slurm takes such a change over in part."""
        return True


@dataclass(frozen=True)
class RestoreSize(JobAction):
    """Let a pending job ask for the CPUs and the memory of its owner again."""

    before: str  #: what Slurm has now, of ours
    own: str
    power = "rightsize"
    stored = "RestoreSize"
    returned = "restored", "{jobs} with their own CPUs and memory again"
    story = (("size restored", "we gave it back the CPUs and memory of its owner ({value})"),)

    @property
    def value(self) -> Value:
        """What its owner asked for."""
        return self.own

    @property
    def ends_change(self) -> bool:
        """True: the request is the owner's again."""
        return True

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"node_request": self.own}

    def expects(self) -> Mapping[str, Value]:
        """Return what it replaces."""
        return {"node_request": self.before}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job asks for this."""
        return pending.node_request[row] == value

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once the job has started: until then it is not sized again for a while."""
        return look.waiting(intent.job_id) is None


class OwnSizes(NamedTuple):
    """What is ours of the CPUs and the memory of pending jobs."""

    own: Labels  #: what their owners asked for, where the present ones are ours; else empty
    sized_s: FloatArray  #: when we last changed them or gave them back
    theirs: BoolArray
    """Somebody else changed them after us: the job asks for something else, or again for its own though we saw ours in
    force and did not give them back."""
    half: BoolArray  #: Slurm took our change in part: such a request is ours by our intent alone


def own_sizes(sizes: Collection[Intent], restores: Collection[Intent], pending: JobTable) -> OwnSizes:
    """Return what is ours of the CPUs and the memory of *pending* jobs."""
    ours, restored = by_job(by_request(sizes)), by_job(restores)
    names, codes = [""], np.zeros(len(pending), dtype=np.int64)
    times_s, (theirs, half) = np.zeros(len(pending)), np.zeros((2, len(pending)), dtype=np.bool_)
    if ours:
        stuck = where_kind(pending, ReasonKind.CANNOT_RUN)
    for row in rows_with(pending.job_id, ours):
        job, present = int(pending.job_id[row]), pending.node_request[row]
        if present == UNREAD:
            continue
        mine, backs = ours[job], restored.get(job, [])
        times_s[row] = max(intent.requested_s for intent in (*mine, *backs))
        own_of = {given: own for own, _, given in (str(intent.value).partition(" ") for intent in mine)}
        if present in own_of:
            codes[row] = len(names)
            names.append(own_of[present])
            continue
        back_s = max((intent.requested_s for intent in backs), default=-math.inf)
        done_s = max((i.requested_s for i in backs if i.answered_s is not None), default=-math.inf)
        if mine[-1].requested_s > done_s and _half_taken(mine[-1], present, bool(stuck[row])):
            half[row], codes[row] = True, len(names)
            names.append(str(mine[-1].value).partition(" ")[0])
            continue
        if not present:
            continue
        unseen = all(intent.seen_s is None for intent in mine if intent.requested_s > back_s)
        theirs[row] = not (unseen and present in own_of.values())
    return OwnSizes(Labels(codes, tuple(names)).renamed(names), times_s, theirs, half)


def _half_taken(intent: Intent, present: str, stuck: bool) -> bool:
    """Return True where CPUs and memory are in part those of *intent*: no others than those and the former ones.

    A *present* request that cannot be read contradicts itself, since Slurm took over a part; once ours was seen whole,
    that counts only for a job that is *stuck*.
    """
    own, _, given = str(intent.value).partition(" ")
    if not present:
        return stuck or intent.seen_s is None
    parts = (read_request(text) for text in (present, own, given))
    here, before, after = (astuple(part) if part is not None else () for part in parts)
    mixed = all(one in two for one, two in zip(here, zip(before, after, strict=True), strict=True))
    return intent.seen_s is None and mixed and here not in (before, after)
