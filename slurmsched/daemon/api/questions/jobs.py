"""Questions about why jobs wait: one job, or all of the asker's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from ....db.tracking.story import StoryEvent
from ....explain.explain import Explanation
from ....explain.why import Why
from ..privacy import owns
from ..query_arguments import JOB, limit
from .contract import Asked, OfCycle, Who, for_users

MINE_USUAL = 10
MINE_MOST = 100  #: jobs explained in one answer


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


class Story(TypedDict):
    """All that happened to a job."""

    job_id: int
    story: Sequence[StoryEvent]
    passed: str  #: who went before it because of our order, and where it would be by Slurm's alone; empty: not known


def _why(asked: Asked) -> WhyAnswer:
    job_id = asked.given["job_id"]
    told = asked.sources.why(asked.view, asked.plan, job_id, asked.beside(job_id))
    return {**asked.head, "job_id": job_id, "why": told}


def _mine(asked: Asked) -> MyJobs:
    """Explain each of the asker's pending jobs, those next in Slurm's order first."""
    user, most, pending = asked.asker.user, min(asked.given["limit"], MINE_MOST), asked.view.pending
    rows = np.flatnonzero(owns(pending, user))
    first = rows[np.lexsort((pending.job_id[rows], -pending.priority[rows]))][:most]
    told = [
        asked.sources.why(asked.view, asked.plan, job_id, asked.beside(job_id))
        for job_id in pending.job_id[first].tolist()
    ]
    return {**asked.head, "user": user, "pending": len(rows), "limit": most, "mine": told}


def _explain(asked: Asked) -> ExplainAnswer:
    job_id = asked.given["job_id"]
    told = asked.sources.explain(asked.view, asked.plan, job_id, asked.beside(job_id))
    return {**asked.head, "job_id": job_id, "explain": told}


def _story(asked: Asked) -> Story:
    # Only the queue names a job's owner: the story of a job that has ended is for users who may see all jobs.
    job_id = asked.given["job_id"]
    passed = asked.latest and asked.sources.passed(asked.view, asked.plan, job_id, asked.beside(job_id))
    return {
        "job_id": job_id,
        "story": asked.sources.story(job_id, asked.identity(job_id)[1]),
        "passed": passed or "",
    }


QUESTIONS = (
    for_users("why", "why a job waits", _why, WhyAnswer, (JOB,), Who.OWNER, "why"),
    for_users("mine", "why your pending jobs wait", _mine, MyJobs, (limit(MINE_USUAL),), command="why", slow=True),
    for_users("explain", "the terms of a job's place", _explain, ExplainAnswer, (JOB,), Who.OWNER, "explain"),
    for_users("story", "all that happened to a job", _story, Story, (JOB,), Who.OWNER, "story", decided=False),
)
