"""Slots: the requests of jobs for shared GPUs in Slurm, and the next step of a job on its way there. Pure.

A sharing node has, beside its GPUs, two slots of type ``iK`` for each GPU K. A sharing job requests one slot of each of
its GPUs instead of the GPUs, and its comment ends in our token, from which the prolog reads the GPUs.
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
    """The content of our share token, such as ``0+1:t60:m20000``."""

    gpus: tuple[int, ...]  #: numbers of their device files
    threads: int = 0  #: percent of a GPU's threads that MPS lets the job use; 0 is all
    memory_mib: int = 0  #: limit on each GPU; 0 is no limit
    turns: bool = False  #: no MPS: the jobs take turns, as jobs of different users must

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Parse a token; None if *text* is none."""
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
    """The request of a pending job, as Slurm shows it."""

    job_id: int
    partition: str
    required_nodes: str
    request: str  #: generic resources, per job or per node
    comment: str
    share: str  #: the share token in its comment; empty where there is none
    waits: bool = False  #: waits for the begin time of its change
    beside: bool = False  #: requests generic resources per task or per socket too


def next_step(job: SlotRequest, sharing: str, home: str, until_s: float) -> Action | None:
    """Return the next action for a job with our token on its way into the partition *sharing*; None if none is needed.

    No other state is needed: the token is written first, so that every job on its way has one. *home* is the partition
    of jobs that are in no other one; *until_s* is the begin time of a changed job. A job that never got slots gets its
    comment back; a job with other requests added gets its own GPUs back.
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
    """Return the comment as its owner wrote it."""
    return comment.removesuffix(f"{PREFIX}share={share}").removesuffix(";")
