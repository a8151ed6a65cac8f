"""What happened to jobs between two looks at the cluster: past tense, equal when they mean the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .jobs import JobState


@dataclass(frozen=True)
class Event:
    """Something that happened to one job, at Slurm's own time where Slurm tells it."""

    job_id: int
    at_s: float
    first_submit_s: float = field(default=math.nan, compare=False, kw_only=True)  #: with the id, which job it was


@dataclass(frozen=True)
class JobSubmitted(Event):
    """Seen for the first time; ``at_s`` is its first submit time."""

    user: str = field(default="", compare=False)  #: its owner, to whom the story may be told


@dataclass(frozen=True)
class JobStarted(Event):
    """A run began: run 0, or run *restart* of a job that was queued again."""

    restart: int = 0


@dataclass(frozen=True)
class JobRequeued(Event):
    """Queued again; run *restart* is the one it waits for now."""

    restart: int


@dataclass(frozen=True)
class JobEnded(Event):
    """Over, in *state*; OTHER where it vanished between two looks and nobody saw how."""

    state: JobState
    restart: int = 0


#: What a setting of a job may be; None where there is nothing to say, or no limit.
Value = int | float | str | None


@dataclass(frozen=True)
class JobModified(Event):
    """Changed by somebody else; ``at_s`` is when it was noticed."""

    what: str  #: limit, comment, partition, qos, nice, suspended or resumed
    before: Value = None
    after: Value = None
    last: bool = False  #: no further change of this kind is noted
