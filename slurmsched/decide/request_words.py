"""The words for what a job asks for: GPUs with their type, or cores and memory where it asks for no GPU."""

from __future__ import annotations

from ..cluster.jobs import JobTable
from ..cluster.text.plural import count, gpus_of_type


def request_words(jobs: JobTable, row: int) -> str:
    """Return what the job in *row* asks for: ``4 GPUs of a100 on 2 nodes``, ``8 cores and 16 GiB of memory``.

    Of an array it is that of one task.
    """
    gpus, nodes = int(jobs.gpus[row]), int(jobs.nodes[row])
    kind = f" of {jobs.gpu_type[row]}" if jobs.gpu_type[row] else ""
    if jobs.exclusive[row] and not gpus:
        return f"all of {count(max(1, nodes), 'node')}"
    what = (
        f"{gpus_of_type(gpus, jobs.gpu_type[row])}{kind}"
        if gpus
        else _cores_and_memory(int(jobs.cpus[row]), jobs.memory_mib[row])
    )
    whole = "whole " if jobs.exclusive[row] else ""
    return f"{what} on {count(max(1, nodes), f'{whole}node')}" if nodes > 1 or whole else what


def _cores_and_memory(cores: int, memory_mib: float) -> str:
    words = count(cores, "core")
    return f"{words} and {memory_words(memory_mib)} of memory" if memory_mib > 0 else words


def memory_words(mib: float) -> str:
    """Return an amount of memory in its largest unit: ``16 GiB``, ``1.5 TiB``, ``500 MiB``."""
    for unit, size in (("TiB", 1024.0**2), ("GiB", 1024.0)):
        if mib >= size:
            return f"{mib / size:.3g} {unit}"
    return f"{mib:.0f} MiB"
