"""Slots of GPUs in the fake Slurm: two of each GPU of a sharing node (docs/sharing.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...cluster.actions import Share, StartShared, Unmark, Unshare
from ...cluster.jobs import JobState
from ...cluster.text.tres import slots_in
from ..write.verbs import Request, lines, slots_line
from .fake_job import FakeJob

EACH = 2  #: slots of one GPU


SlotAction = Share | StartShared | Unmark | Unshare


def changed_texts(action: SlotAction, per_node: str) -> dict[str, str]:
    """Return the columns of a pending job that scontrol changes for *action*, with their new texts.

    *per_node* is its request. ValueError where no line may be sent.
    """
    request = Request(per_node=per_node)
    lines(action, request=request)
    match action:
        case Share(partition=partition, node=node, token=token, comment=comment):
            slots_line(action, request)
            ours = f"{comment}{';' if comment else ''}slurmsched:share={token}"
            slots = ",".join(f"gres:slot:i{gpu}:1" for gpu in token.partition(":")[0].split("+"))
            return {"partition": partition, "comment": ours, "required_nodes": node, "per_node": slots}
        case Unmark(comment=comment):
            return {"comment": comment}
        case Unshare(home=home, comment=comment, gpus=gpus, gpu_type=kind):
            texts = {} if comment is None else {"comment": comment}
            own = f"gres:gpu:{kind}{':' if kind else ''}{gpus}"
            return texts | {"partition": home, "required_nodes": "", "per_node": own}
        case _:
            return {}


def begin_of(action: SlotAction, now_s: float) -> float:
    """Return the begin time of a pending job after *action*."""
    return action.until_s if isinstance(action, Share) else now_s


def reshaped(job: FakeJob, action: SlotAction, now_s: float) -> FakeJob:
    """Return a pending job after *action*, as scontrol would change it; ValueError where no line may be sent."""
    texts = changed_texts(action, job.per_node or f"gres:gpu:{job.gpus}")
    if isinstance(action, Unshare):
        texts["per_node"] = ""
    return replace(job, begin_s=begin_of(action, now_s), **texts)  # type: ignore[arg-type]  # columns of text


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
