"""Slots of GPUs in the fake Slurm: two of each GPU of a sharing node (docs/sharing.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...cluster.actions import Share, StartShared, Unmark, Unshare
from ...cluster.jobs import JobState
from ...cluster.text.tres import slots_in
from ..write.verbs import Request, lines
from .fake_job import FakeJob

EACH = 2  #: slots of one GPU


def reshaped(job: FakeJob, action: Share | StartShared | Unmark | Unshare, now_s: float) -> FakeJob:
    """Return a pending job after *action*, as scontrol would change it; ValueError where no line may be sent."""
    lines(action, request=Request(per_node=job.per_node or f"gres:gpu:{job.gpus}"))
    match action:
        case Share(partition=partition, node=node, token=token, comment=comment, until_s=until_s):
            ours = f"{comment}{';' if comment else ''}slurmsched:share={token}"
            slots = ",".join(f"gres:slot:i{gpu}:1" for gpu in token.partition(":")[0].split("+"))
            job = replace(job, partition=partition, begin_s=until_s, comment=ours)
            return replace(job, required_nodes=node, per_node=slots)
        case StartShared():
            return replace(job, begin_s=now_s)
        case Unmark(comment=comment):
            return replace(job, begin_s=now_s, comment=comment)
        case Unshare(home=home, comment=comment):
            ours = job.comment if comment is None else comment
            return replace(job, partition=home, begin_s=now_s, comment=ours, required_nodes="", per_node="")


def has_room(job: FakeJob, others: Iterable[FakeJob], nodes: Iterable[str]) -> bool:
    """Return True if a job with slots may start on its node, one of *nodes*, beside the running *others*."""
    if job.required_nodes not in nodes:
        return False
    beside = [
        gpu
        for other in others
        if other.required_nodes == job.required_nodes and other.state in {JobState.RUNNING, JobState.SUSPENDED}
        for gpu in slots_in(other.per_node)
    ]
    return all(beside.count(gpu) < EACH for gpu in slots_in(job.per_node))
