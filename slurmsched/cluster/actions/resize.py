"""Sizes: the number of GPUs, and of nodes with them, of pending jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..columns import Labels, rows_with
from ..events import Value
from ..resized_request import gpus_asked, nodes_taken
from .base import HALF, Action, JobAction, OwnIntents, refused_for
from .intent import Intent, by_job
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import BoolArray, FloatArray, IntArray
    from ..jobs import JobTable


@dataclass(frozen=True)
class Resize(JobAction):
    """Let a pending job, which asks for *before* GPUs now, ask for *gpus* of the same type.

    With *each* the number of its nodes changes with them: it has so many on each. Otherwise it stays on one node. Back
    at its *own* number the job is as its owner submitted it. Of a change of its nodes that Slurm took in part, it
    counts those of *before*, and has tasks and CPUs for the nodes *taken*.
    """

    gpus: int
    before: int
    own: int
    each: int = 0
    taken: int = 0  #: 0 where its request is whole
    power = "resize"
    stored = "Resize"
    returned = "resized", "{jobs} have the GPUs back that they asked for"
    story = (("resized", "we set the GPUs that it asks for (those of its owner last): {value}"),)
    accumulates = True

    @property
    def nodes(self) -> tuple[int, int]:
        """The number of its nodes with *before* GPUs, and with *gpus*."""
        return (self.before // self.each, self.gpus // self.each) if self.each else (1, 1)

    @property
    def value(self) -> Value:
        """The GPUs, those that its owner asked for, and those on each of its nodes where their number changes."""
        return f"{self.gpus} {self.own}{f' {self.each}' if self.each else ''}"

    @property
    def ends_change(self) -> bool:
        """True if the job has its own number again."""
        return self.gpus == self.own

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return what is ours of the GPUs."""
        return own_gpus(own.of(cls), jobs).columns()

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return also what Slurm took in part."""
        found = own_gpus(own.of(cls), pending)
        node_range = _without(pending.node_range, found.taken > 0)
        return {**found.columns(), "taken_nodes": found.taken, "node_range": node_range, HALF: found.half}

    @classmethod
    def undone(cls, own: OwnIntents, pending: JobTable) -> Sequence[Action]:
        """Return the numbers of GPUs of owners."""
        found = own_gpus(own.of(cls), pending)
        return [
            cls(
                int(pending.job_id[row]),
                mine := int(found.own[row]),
                int(pending.gpus[row]) if found.each[row] else gpus_asked(pending, row),
                mine,
                int(found.each[row]),
                int(found.taken[row]),
            )
            for row in np.flatnonzero(found.own).tolist()
        ]

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if Slurm counts this number for the job."""
        return bool(pending.gpus[row] == _numbers(value)[0])

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: a requeue keeps what we wrote."""
        return False

    @classmethod
    def reads(cls, intent: Intent) -> tuple[str, ...]:
        """Return the range of nodes, where their number changes."""
        return ("node_range",) if _numbers(intent.value)[2] else ()

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True where Slurm itself refused it."""
        return refused_for(intent, refused)


def _numbers(value: Value) -> tuple[int, int, int]:
    """Return the GPUs that we wrote, those that the job's owner asked for, and those on each node; 0 on one node."""
    gpus, own, *each = map(int, str(value).split(" "))
    return gpus, own, each[0] if each else 0


class OwnGpus(NamedTuple):
    """What is ours of the GPUs that jobs ask for."""

    own: IntArray  #: those that their owners asked for, 0 where we changed nothing
    resized_s: FloatArray  #: when we last changed them
    each: IntArray  #: those on each node where we changed the number of nodes with them; else 0
    half: BoolArray  #: Slurm took a change in part
    taken: IntArray  #: the nodes that it took then, 0 where it took no nodes so

    def columns(self) -> Mapping[str, Any]:
        """Return the columns of all jobs, by name."""
        return {"own_gpus": self.own, "resized_s": self.resized_s, "gpus_each": self.each}


def own_gpus(resizes: Collection[Intent], jobs: JobTable) -> OwnGpus:
    """Return what is ours of the GPUs that *jobs* ask for.

    A job is changed by us while it asks for a number that we wrote, answered or not: another one is theirs. It may ask
    for one of both numbers while Slurm counts the other.
    """
    ours = by_job(resizes)
    (own, each), times_s = np.zeros((2, len(jobs)), dtype=np.int64), np.zeros(len(jobs))
    half, taken = np.zeros(len(jobs), dtype=np.bool_), np.zeros(len(jobs), dtype=np.int64)
    for row in rows_with(jobs.job_id, ours):
        intents = ours[int(jobs.job_id[row])]
        mine = [_numbers(intent.value) for intent in intents]
        times_s[row] = max(intent.requested_s for intent in intents)
        known = {number for gpus, asked_for, _ in mine for number in (gpus, asked_for)}
        for gpus, asked_for, on_each in mine:
            nodes = nodes_taken(jobs, row, on_each) if on_each else 0
            shown = {int(jobs.gpus[row]), gpus_asked(jobs, row)}
            if nodes and jobs.gpus[row] in known and nodes * on_each == gpus:
                own[row], each[row], half[row], taken[row] = asked_for, on_each, True, nodes
            elif not nodes and gpus in shown <= {gpus, asked_for} != {asked_for}:
                own[row], each[row], half[row] = asked_for, on_each, len(shown) > 1
    return OwnGpus(own, times_s, each, half, taken)


def _without(column: Labels, rows: BoolArray) -> Labels:
    """Return *column* without the texts in *rows*."""
    if not rows.any():
        return column
    return Labels.of("" if is_one else text for text, is_one in zip(column, rows.tolist(), strict=True))
