"""Partitions of pending jobs, and their way back to those of their owners."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Labels
from ..events import Value
from .base import Action, JobAction, OwnIntents, refused_for
from .intent import Intent, by_request
from .observation import Observation

if TYPE_CHECKING:
    from ..jobs import JobTable


@dataclass(frozen=True)
class MovePartition(JobAction):
    """Queue a pending job in other partitions, a comma list; back in its *own* ones it is as its owner submitted it."""

    partition: str
    own: str = field(default="", compare=False)  #: those that its owner asked for; empty in records without them
    power = "partition"
    stored = "MovePartition"
    returned = "moved", "{jobs} in their own partitions again"
    story = (("moved", "we moved it to partition {value}"),)
    modifies = "partition"
    accumulates = True

    @property
    def value(self) -> Value:
        """The partitions, and behind a blank the owner's."""
        return f"{self.partition} {self.own}".rstrip()

    @property
    def event(self) -> tuple[str, Value]:
        """The partitions to which it was moved."""
        return "moved", self.partition

    @property
    def ends_change(self) -> bool:
        """True if the job has its own partitions again."""
        return self.partition == self.own

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"partition": self.partition}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the owner's partitions."""
        return {"own_partition": own_partitions(own.of(cls), pending)}

    @classmethod
    def undone(cls, own: OwnIntents, pending: JobTable) -> Sequence[Action]:
        """Return the moves back to the partitions of owners."""
        rows = zip(pending.job_id.tolist(), own_partitions(own.of(cls), pending), strict=True)
        return [cls(job, partitions, partitions) for job, partitions in rows if partitions]

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job is in these partitions."""
        return pending.partition[row] == str(value).partition(" ")[0]

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: a requeue keeps what we wrote."""
        return False

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True where Slurm itself refused it."""
        return refused_for(intent, refused)


def own_partitions(moves: Collection[Intent], pending: JobTable) -> Labels:
    """Return the partitions that the owners of *pending* jobs asked for, where the present ones are ours.

    They are while they are those that we wrote, answered or not: others are theirs.
    """
    own_of: dict[int, dict[str, str]] = {}
    for intent in by_request(moves):
        given, _, own = str(intent.value).partition(" ")
        own_of.setdefault(intent.job_id, {})[given] = own if own != given else ""
    if not own_of:
        return Labels(np.zeros(len(pending), dtype=np.int64), ("",))
    rows = zip(pending.job_id.tolist(), pending.partition, strict=True)
    return Labels.of([own_of.get(job, {}).get(present, "") for job, present in rows])
