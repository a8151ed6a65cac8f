"""Steering: nodes that pending jobs are kept off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Labels, rows_with
from ..events import Value
from ..exclusions import ANY_TYPE, same_nodes
from .base import Action, JobAction, OwnIntents, refused_for
from .intent import Intent, by_job, by_request
from .observation import Observation

if TYPE_CHECKING:
    from ..columns import FloatArray
    from ..jobs import JobTable


@dataclass(frozen=True)
class Steer(JobAction):
    """Keep a pending job off the *excluded* nodes, so that it starts on GPUs of some *types*, such as a100+v100.

    Among them are overloaded nodes that it left; for these alone the types are ``ANY_TYPE``.
    """

    types: str
    excluded: str  #: a host list, never empty
    before: str = ""  #: what Slurm has now: nothing, or a list of ours
    power = "steer"
    stored = "Steer"
    story = (
        ("steered", "we sent it to a type of GPU, away from other nodes ({value})"),
        ("kept off", "we keep it off nodes that it left because they were overloaded ({value})"),
    )
    accumulates = True

    @property
    def value(self) -> Value:
        """The types, and behind a blank the excluded nodes."""
        return f"{self.types} {self.excluded}"

    @property
    def event(self) -> tuple[str, Value]:
        """That it was steered, or is kept off nodes."""
        return ("kept off", self.excluded) if self.types == ANY_TYPE else ("steered", self.value)

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"excluded_nodes": self.excluded}

    def expects(self) -> Mapping[str, Value]:
        """Return what it replaces."""
        return {"excluded_nodes": self.before}

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the types to which jobs were sent."""
        return {"steered": steered(own.of(cls), own.of(Unsteer), jobs)[0]}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return also when they were sent there, or let go."""
        types, times_s = steered(own.of(cls), own.of(Unsteer), pending)
        return {"steered": types, "steered_s": times_s}

    @classmethod
    def undone(cls, own: OwnIntents, pending: JobTable) -> Sequence[Action]:
        """Return the ends of our exclusions."""
        rows = zip(pending.job_id.tolist(), steered(own.of(cls), (), pending)[0], pending.excluded_nodes, strict=True)
        return [Unsteer(job, present) for job, types, present in rows if types]

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job excludes these nodes."""
        return same_nodes(pending.excluded_nodes[row], str(value).partition(" ")[2])

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: a requeue keeps what we wrote."""
        return False

    @classmethod
    def reads(cls, intent: Intent) -> tuple[str, ...]:
        """Return the column of excluded nodes."""
        return ("excluded_nodes",)

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True where Slurm itself refused it."""
        return refused_for(intent, refused)


@dataclass(frozen=True)
class Unsteer(JobAction):
    """Let a pending job start again on the nodes that we excluded."""

    before: str = ""  #: what Slurm has now, of ours
    power = "steer"
    stored = "Unsteer"
    returned = "let_go", "{jobs} may start again on the nodes that we excluded"
    story = (("let go", "we lifted the nodes that we had excluded"),)

    @property
    def ends_change(self) -> bool:
        """True: no node of ours is excluded any more."""
        return True

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the column that it sets."""
        return {"excluded_nodes": ""}

    def expects(self) -> Mapping[str, Value]:
        """Return what it replaces."""
        return {"excluded_nodes": self.before}

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the job excludes no nodes."""
        return not pending.excluded_nodes[row]

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True once the job has started: until then it is not steered again for a while."""
        return look.waiting(intent.job_id) is None


def steered(steers: Collection[Intent], unsteers: Collection[Intent], jobs: JobTable) -> tuple[Labels, FloatArray]:
    """Return the types to which we sent each of *jobs*, empty for none, and when; for others when we let it go.

    They count while its excluded nodes are those that we wrote, answered or not: a list of others is theirs.
    """
    ours, let_go_s = by_job(by_request(steers)), dict[int, float]()
    for intent in unsteers:
        let_go_s[intent.job_id] = max(intent.requested_s, let_go_s.get(intent.job_id, 0.0))
    names, codes, times_s = [""], np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs))
    for row in rows_with(jobs.job_id, [*ours, *let_go_s]):
        job, excluded = int(jobs.job_id[row]), jobs.excluded_nodes[row]
        times_s[row] = let_go_s.get(job, 0.0)
        for intent in ours.get(job, []):
            types, _, nodes = str(intent.value).partition(" ")
            if same_nodes(excluded, nodes):
                times_s[row] = intent.requested_s
                codes[row] = len(names)
                names.append(types)
    return Labels(codes, tuple(names)).renamed(names), times_s
