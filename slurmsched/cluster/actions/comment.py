"""Answers in the AdminComment of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import Labels
from .base import JobAction, OwnIntents
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..jobs import JobTable


@dataclass(frozen=True)
class SetAdminComment(JobAction):
    """Write the answer to a job's deadline into its AdminComment; an empty one takes the last answer away."""

    text: str
    power = "comment"
    stored = "Tell"
    returned = "emptied", "answers taken from the AdminComment of {jobs}"
    story = (("told", "we wrote {value} into its AdminComment"),)
    settled_by_refusal = True

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the answers that we sent."""
        return {"sent_comment": sent_comments(own.of(cls), jobs)}

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True once Slurm has accepted it: observations do not show it."""
        return intent.answered_s is not None and intent.refused is None

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return False: it is ours as long as there is a job."""
        return False

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True: a refused answer would be sent again and again."""
        return True


def sent_comments(answers: Collection[Intent], jobs: JobTable) -> Labels:
    """Return the last AdminComment that we sent for each of *jobs*, accepted or refused."""
    comment_of = {intent.job_id: str(intent.value) for intent in answers if intent.answered_s is not None}
    if not comment_of:
        return Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
    return Labels.of([comment_of.get(job, "") for job in jobs.job_id.tolist()])
