"""The form of the daemon's answers about jobs; those from a recorded cycle have the same.

``slurmsched schema`` prints them. Dataclasses in them go out as objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from ...cluster.kind_speeds import TypeSpeed
from ...cluster.records.profiles import LinkUse
from ...cluster.stranded_gpus import StrandedBy
from ...db.tracking.story import StoryEvent
from ...decide.deadlines.deadline_usage import DeadlineUsage
from ...decide.fragmented_waits import Fragmentation
from ...explain.deadlines import DeadlineAnswer
from ...explain.eta import Coverage, Eta
from ...explain.explain import Explanation, QueueRow
from ...explain.impact import GroupImpact
from ...explain.lease_chart import LeaseChart
from ...explain.why import Why
from ...models.runtime.overruns import Overrunner


class OfCycle(TypedDict):
    """An answer from one cycle."""

    as_of_s: float
    cycle: int
    mode: NotRequired[str]


class WhyAnswer(OfCycle):
    """Why a job waits."""

    job_id: int
    why: Why


class MyJobs(OfCycle):
    """Why each of the asker's pending jobs waits."""

    user: str
    pending: int
    limit: int
    mine: Sequence[Why]


class ExplainAnswer(OfCycle):
    """The forecast, rank and priority of a job."""

    job_id: int
    explain: Explanation


class QueueAnswer(OfCycle):
    """The pending jobs."""

    order_off: str
    pending: int
    limit: int
    queue: Sequence[QueueRow]


class EtaAnswer(OfCycle):
    """Predicted starts and finishes."""

    jobs: NotRequired[int]
    limit: NotRequired[int]
    eta: Sequence[Eta]
    coverage: Coverage | None
    coverage_words: str


class DeadlineOfJob(OfCycle):
    """The promise to a job."""

    job_id: NotRequired[int]
    deadline: DeadlineAnswer


class DeadlineOfNewJob(OfCycle):
    """What a new job would be promised."""

    check: DeadlineAnswer


class Deadlines(OfCycle):
    """The answers to all jobs with deadlines."""

    deadlines: Sequence[DeadlineAnswer]


class Claims(OfCycle):
    """Requests for deadlines, by user and account."""

    claims: Sequence[DeadlineUsage]


class ChartAnswer(OfCycle):
    """The plan around a job."""

    job_id: NotRequired[int]
    chart: LeaseChart


class SpreadRow(TypedDict):
    """The speed of a kind of job on more nodes than it needs."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    iteration_s: float
    spread_runs: int
    spread_iteration_s: float
    speed: float


class SettingsGainRow(TypedDict):
    """The gain of one row over Slurm alone: mean JCTs divided, with the interval of 90 % of redraws."""

    policy: str
    meaning: str
    ratio: float
    low: float
    high: float


class SettingsGain(TypedDict):
    """The gain of the settings, replayed on the latest jobs; *why_none* says why there is none."""

    jobs: int
    span_s: float
    assumed: Sequence[str]
    rows: Sequence[SettingsGainRow]
    why_none: str


class AdviceAnswer(OfCycle):
    """Who gains and who loses by our order; the command adds the gain of the settings."""

    advice: Sequence[GroupImpact]
    gain: NotRequired[SettingsGain]
    overrunners: NotRequired[Sequence[Overrunner]]
    links: NotRequired[Sequence[LinkUse]]
    spread: NotRequired[Sequence[SpreadRow]]
    types: NotRequired[Sequence[TypeSpeed]]
    stranded: NotRequired[Sequence[StrandedBy]]
    fragmented: NotRequired[Sequence[Fragmentation]]


class Story(TypedDict):
    """All that happened to a job."""

    job_id: int
    story: Sequence[StoryEvent]
