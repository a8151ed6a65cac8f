"""Actions that only a simulated cluster carries out: where plans happen as they are."""

from __future__ import annotations

from dataclasses import dataclass

from .base import JobAction
from .intent import Intent
from .observation import Observation


@dataclass(frozen=True)
class Start(JobAction):
    """Start a pending job now on these nodes; only a simulated cluster that carries out plans as they are can."""

    nodes: str  #: with the GPUs of each, as n1:8,n2:4
    beside: int = 0  #: the running job that it joins on its GPUs; 0 for GPUs of its own
    power = "start"
    stored = "Start"
    story = (("placed", "we gave it the node list {value}"),)

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job runs."""
        return look.running_row(intent.job_id) is not None


@dataclass(frozen=True)
class Preempt(JobAction):
    """Stop a running job at once and queue it again with its work kept; only such a simulated cluster can."""

    power = "preempt"
    stored = "Preempt"
    story = (("preempted", "we stopped it, and it keeps its work"),)

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job waits again."""
        return look.waiting(intent.job_id) is not None


@dataclass(frozen=True)
class Move(JobAction):
    """Stop a running job and let it go on at once on these nodes with its work kept; only a simulated cluster can."""

    nodes: str  #: with the GPUs of each, as n1:8,n2:4
    power = "preempt"
    stored = "Move"
    story = (("relocated", "we stopped it, and it went on at once on the node list {value}"),)

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job runs."""
        return look.running_row(intent.job_id) is not None
