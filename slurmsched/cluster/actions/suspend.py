"""Suspension: running jobs that stop in place."""

from __future__ import annotations

from dataclasses import dataclass

from ..jobs import JobState
from .base import JobAction
from .intent import Intent
from .observation import Observation


@dataclass(frozen=True)
class Suspend(JobAction):
    """Stop a running job in place; its GPUs and memory stay taken."""

    power = "suspend"
    stored = "Suspend"
    story = (("suspended", "we suspended it"),)
    modifies = "suspended"

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job is suspended."""
        return _is(JobState.SUSPENDED, intent, look)


@dataclass(frozen=True)
class Resume(JobAction):
    """Continue a suspended job."""

    power = "suspend"
    stored = "Resume"
    story = (("resumed", "we resumed it"),)
    modifies = "resumed"

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the job runs."""
        return _is(JobState.RUNNING, intent, look)


def _is(wanted: JobState, intent: Intent, look: Observation) -> bool:
    row = look.running_row(intent.job_id)
    return row is not None and bool(look.running.state[row] == wanted)
