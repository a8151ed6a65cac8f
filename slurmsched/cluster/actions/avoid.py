"""Changes that kept jobs from starting, and are not repeated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..avoided import BETWEEN, Avoided
from ..columns import Labels
from ..events import Value
from .base import JobAction, OwnIntents
from .intent import Intent, by_request
from .observation import Observation

if TYPE_CHECKING:
    from ..jobs import JobTable


@dataclass(frozen=True)
class Avoid(JobAction):
    """Remember not to repeat *changes* of a job, which keep it from starting; nothing is sent to Slurm.

    The fields are those of ``avoided.Avoided``. Whatever powers are on, what is ours is given back.
    """

    changes: str
    request: str
    limits: str
    reason: str
    power = "order"
    stored = "Avoid"
    story = (
        ("given back", "a change of ours kept it from starting ({value}): we give its own back, and do not repeat it"),
    )
    is_write = False
    accumulates = True

    @property
    def value(self) -> Value:
        """The changes, the two digests and the reason."""
        return f"{self.changes} {self.request} {self.limits} {self.reason}"

    @property
    def event(self) -> tuple[str, Value]:
        """What was given back, and why."""
        return "given back", f"{self.changes.replace('+', ', ')}: {self.reason}"

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the changes that are not repeated."""
        return {"avoided": avoided(own.of(cls), jobs)}

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: it counts as long as there is a job."""
        return False


def avoided(notes: Collection[Intent], jobs: JobTable) -> Labels:
    """Return our changes of *jobs* that kept them from starting, and are not repeated: the column ``avoided``."""
    found: dict[int, list[str]] = {}
    for intent in by_request(notes):
        changes, _, rest = str(intent.value).partition(" ")
        request, limits, reason = rest.split(" ", 2)
        note = Avoided(changes, intent.requested_s, request, limits, reason)
        found.setdefault(intent.job_id, []).append(str(note))
    if not found:
        return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
    return Labels.of([BETWEEN.join(found.get(job, ())) for job in jobs.job_id.tolist()])
