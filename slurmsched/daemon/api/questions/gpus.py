"""Questions about GPUs: over time, on each node, and what a job does with its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired

from ....explain.node_gpus import JobGpus, NodeGpus, job_gpus, node_gpus, node_rows
from ....explain.schedule import Schedule, schedule
from ..query_arguments import JOB, ONLY_PARTITION, SKIP, limit
from .contract import Asked, OfCycle, Who, for_users

NODES_USUAL, NODES_MOST = 200, 1000


class ScheduleAnswer(OfCycle):
    """The GPUs over time; *no_starts* says why no starts are predicted."""

    schedule: Schedule
    no_starts: str


class NodesAnswer(OfCycle):
    """The GPUs of nodes, by name."""

    nodes: Sequence[NodeGpus]
    total: int
    limit: int


class JobGpusAnswer(OfCycle):
    """What a job does with its GPUs."""

    job_id: NotRequired[int]
    gpus: JobGpus


def _schedule(asked: Asked) -> ScheduleAnswer:
    predictions = asked.sources.predictions()
    why_none = "" if predictions.table is not None else predictions.why_none
    return {**asked.head, "schedule": schedule(asked.view, predictions.table), "no_starts": why_none}


def _nodes(asked: Asked) -> NodesAnswer:
    given, most = asked.given, min(asked.given["limit"], NODES_MOST)
    rows = node_rows(asked.view, given[ONLY_PARTITION.name] or "")
    shown = rows[given["skip"] : given["skip"] + most]
    idle, everything = asked.sources.idle().holds, asked.asker.only is None
    return {
        **asked.head,
        "nodes": node_gpus(asked.view, shown, idle, every_window=everything),
        "total": len(rows),
        "limit": most,
    }


def _gpus(asked: Asked) -> JobGpusAnswer:
    job_id, idle = asked.given["job_id"], asked.sources.idle().holds
    return {**asked.head, "job_id": job_id, "gpus": job_gpus(asked.view, job_id, idle)}


QUESTIONS = (
    for_users("schedule", "the GPUs over time, as predicted", _schedule, ScheduleAnswer, slow=True),
    for_users(
        *("nodes", "the GPUs of each node", _nodes, NodesAnswer, (limit(NODES_USUAL), SKIP, ONLY_PARTITION)), slow=True
    ),
    for_users("gpus", "what a job does with its GPUs", _gpus, JobGpusAnswer, (JOB,), Who.OWNER),
)
