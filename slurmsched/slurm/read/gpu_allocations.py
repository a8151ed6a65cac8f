"""The GPUs that running jobs have, by node and number, from ``scontrol show job --details``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from ...cluster.text.hostlist import expanded

SHOW = ("scontrol", "show", "job", "--details", "--oneliner")
GPUS_MOST = 64  #: of a node

_JOB = re.compile(r"JobId=([0-9]{1,10}) ")
_PART = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*:[0-9]+\(IDX:([0-9,-]+)\)")

Allocation = Mapping[str, tuple[int, ...]]
"""The numbers of a job's GPUs by node."""


def read_allocations(text: str, nodes_of: Mapping[int, Collection[str]]) -> dict[int, Allocation]:
    """Return the GPUs of jobs in the output of ``SHOW``, of those that run on the nodes *nodes_of* them.

    A job of which a node is told twice, or another one than its own, has none here: an owner may write such words into
    the name of a job, and cannot remove Slurm's own. Nor have two jobs the same GPU.
    """
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    doubtful: set[int] = set()
    for line in text.split("\n"):
        match = _JOB.match(line)
        if match is None or (job_id := int(match[1])) not in nodes_of:
            continue
        if job_id in found:
            doubtful.add(job_id)
        its = found.setdefault(job_id, {})
        for nodes, gres in _PART.findall(line):
            for node in expanded(nodes):
                if node in its:
                    doubtful.add(job_id)
                its[node] = _numbers(gres)
    sure = {
        job_id: its for job_id, its in found.items() if job_id not in doubtful and set(its) == set(nodes_of[job_id])
    }
    holders = Counter((node, number) for its in sure.values() for node, numbers in its.items() for number in numbers)
    return {
        job_id: its
        for job_id, its in sure.items()
        if all(holders[node, number] == 1 for node, numbers in its.items() for number in numbers)
    }


def _numbers(gres: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs in a text such as ``gpu:a100:2(IDX:0,2-3)``."""
    numbers: set[int] = set()
    for text in _GPUS.findall(gres):
        for part in text.split(","):
            first, _, last = part.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                numbers |= set(range(int(first), min(int(last or first), GPUS_MOST) + 1))
    return tuple(sorted(number for number in numbers if number < GPUS_MOST))
