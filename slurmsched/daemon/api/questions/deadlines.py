"""Questions about promised deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NotRequired

import numpy as np

from ....decide.deadlines.deadline_usage import DeadlineUsage, claims
from ....explain.deadlines import DeadlineAnswer, deadline, deadlines
from ....explain.lease_chart import LeaseChart, chart
from ..query_arguments import JOB, OPTIONS, QUEUE_MOST
from .contract import Asked, OfCycle, Who, for_users


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


def _deadline(asked: Asked) -> DeadlineOfJob:
    job_id = asked.given["job_id"]
    return {**asked.head, "job_id": job_id, "deadline": deadline(asked.view, asked.plan, job_id)}


def _chart(asked: Asked) -> ChartAnswer:
    job_id = asked.given["job_id"]
    return {**asked.head, "job_id": job_id, "chart": chart(asked.view, asked.plan, job_id, asked.sources.rules())}


def _deadlines(asked: Asked) -> Deadlines:
    plan, only = asked.plan, asked.asker.only
    if only is not None:
        theirs = np.array([name == only for name in plan.promises.user], dtype=np.bool_)
        plan = replace(plan, promises=plan.promises.take(theirs))
    return {**asked.head, "deadlines": deadlines(asked.decided.view, plan)[:QUEUE_MOST]}


def _claims(asked: Asked) -> Claims:
    return {**asked.head, "claims": claims(asked.view, asked.plan, asked.sources.rules().deadlines)}


def _check(asked: Asked) -> DeadlineOfNewJob:
    view, plan = asked.decided.view, asked.plan
    return {**asked.head, "check": asked.sources.check(view, plan, asked.given["options"], asked.asker.user)}


_planned = partial(for_users, command="deadline", slow=True)

QUESTIONS = (
    for_users("deadline", "the promise to a job", _deadline, DeadlineOfJob, (JOB,), Who.OWNER, "deadline"),
    _planned(
        *("check", "what a new job would be promised", _check, DeadlineOfNewJob, (OPTIONS,)),
        live_only="only a running daemon can answer about a new job",
        compiled=True,
    ),
    _planned("deadlines", "the promises to jobs", _deadlines, Deadlines),
    _planned("claims", "the promises of each user", _claims, Claims, who=Who.OPERATOR),
    _planned("chart", "the plan around a job", _chart, ChartAnswer, (JOB,), Who.OWNER, compiled=True),
)
