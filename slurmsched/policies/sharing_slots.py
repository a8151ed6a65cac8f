"""Slots: how a job asks Slurm for GPUs that it shares, and the next step of a job that is on its way there. Pure.

A sharing node has, beside its GPUs, two slots of type ``iK`` for each GPU K. A job that shares asks for one slot of
each of its GPUs in place of them, and its comment ends in our token, which tells the prolog the GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from ..cluster.actions import Action, Share, StartShared, Unmark, Unshare
from ..cluster.text.comment import PREFIX
from ..cluster.text.tres import are_slots_of, requests_in

_TOKEN = re.compile(
    r"(?P<gpus>[0-9]{1,3}(?:\+[0-9]{1,3})*)(?::t(?P<threads>[0-9]{1,3}))?(?::m(?P<mib>[0-9]{1,7}))?(?P<turns>:time)?"
)


@dataclass(frozen=True)
class Token:
    """What our share token says: ``0+1:t60:m20000``."""

    gpus: tuple[int, ...]  #: by the numbers of their device files
    threads: int = 0  #: percent of a GPU's threads that MPS lets the job use; 0 is all
    memory_mib: int = 0  #: of each GPU; 0 is no limit
    turns: bool = False  #: no MPS: the jobs take turns, as different users must

    @classmethod
    def of(cls, text: str) -> Self | None:
        """The token that *text* is; None where it is none."""
        found = _TOKEN.fullmatch(text)
        if not found:
            return None
        gpus = tuple(int(gpu) for gpu in found["gpus"].split("+"))
        return cls(gpus, int(found["threads"] or 0), int(found["mib"] or 0), bool(found["turns"]))

    def __str__(self) -> str:
        threads = f":t{self.threads}" if self.threads else ""
        memory = f":m{self.memory_mib}" if self.memory_mib else ""
        return "+".join(map(str, self.gpus)) + threads + memory + (":time" if self.turns else "")


@dataclass(frozen=True)
class SlotRequest:
    """What a pending job asks for, as Slurm shows it."""

    job_id: int
    partition: str
    required_nodes: str
    request: str  #: generic resources, per job or per node
    comment: str
    share: str  #: the share token in its comment; empty where there is none
    waits: bool = False  #: until the begin time that the change gave it
    beside: bool = False  #: it asks for generic resources per task or per socket too


def next_step(job: SlotRequest, sharing: str, home: str, until_s: float) -> Action | None:
    """What brings a job with our token on its way into the partition *sharing*; None where nothing is to be done.

    Needs no memory of what was begun: the token is written first, so that every job on its way has one. *home* is where
    jobs wait that are in no other partition; *until_s* when a job that is changed may start. A job whose change never
    came to the slots has its comment back; one to whose request somebody has added, its own GPUs.
    """
    token = Token.of(job.share)
    if token is None:
        return None
    own = without_token(job.comment, job.share)
    elsewhere = ",".join(name for name in job.partition.split(",") if name != sharing) or home
    names = set(requests_in(job.request))
    if names == {"gpu"} and not (job.required_nodes or job.beside):
        return Unmark(job.job_id, own)
    if not job.required_nodes or job.beside or names - {"slot"}:
        return Unshare(job.job_id, elsewhere, len(token.gpus), own, until_s)
    if job.partition != sharing or not are_slots_of(job.request, token.gpus):
        return Share(job.job_id, elsewhere, sharing, job.required_nodes, str(token), own, until_s)
    return StartShared(job.job_id, str(token)) if job.waits else None


def without_token(comment: str, share: str) -> str:
    """The comment as its owner wrote it."""
    return comment.removesuffix(f"{PREFIX}share={share}").removesuffix(";")
