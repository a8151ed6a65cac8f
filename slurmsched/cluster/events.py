"""Events of jobs between two observations of the cluster, named in the past tense, equal when they mean the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .jobs import JobState


@dataclass(frozen=True)
class Event:
    """An event of one job, at Slurm's own time where Slurm reports it."""

    job_id: int
    at_s: float
    first_submit_s: float = field(default=math.nan, compare=False, kw_only=True)  #: identifies the job, with its id


@dataclass(frozen=True)
class JobSubmitted(Event):
    """The first observation of a job; ``at_s`` is its first submit time."""

    user: str = field(default="", compare=False)  #: its owner, who may read the story
    partition: str = field(default="", compare=False)  #: a comma list, before any move of ours
    request: str = field(default="", compare=False)  #: the tokens for us in its comment


@dataclass(frozen=True)
class JobStarted(Event):
    """The start of a run: run 0, or run *restart* of a job that was queued again."""

    restart: int = 0


@dataclass(frozen=True)
class JobRequeued(Event):
    """The requeue of a job, which now waits for run *restart*."""

    restart: int


@dataclass(frozen=True)
class JobEnded(Event):
    """The end of a job, in *state*; OTHER where it vanished between two observations."""

    state: JobState
    restart: int = 0


#: The value of a job's setting; None for no value or no limit.
Value = int | float | str | None


@dataclass(frozen=True)
class JobModified(Event):
    """A change of a job by somebody else; ``at_s`` is the time of its observation."""

    what: str  #: limit, comment, partition, qos, nice, suspended or resumed
    before: Value = None
    after: Value = None
    last: bool = False  #: no further change of this kind is recorded
