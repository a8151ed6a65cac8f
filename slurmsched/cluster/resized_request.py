"""The GPUs that a pending job asks for by its request, beside those that Slurm counts for it."""

from __future__ import annotations

from .jobs import JobTable
from .text.tres import gpus_in


def gpus_asked(jobs: JobTable, row: int) -> int:
    """Return the GPUs in a job's request, those that Slurm counts where it cannot be read.

    Both differ where Slurm took over a request that it refused: it then counts what the job asked for before (seen on
    22.05). The GPUs of a job on several nodes are those that Slurm counts.
    """
    if jobs.nodes[row] > 1 or jobs.gpus_each[row]:
        return int(jobs.gpus[row])
    try:
        return gpus_in(jobs.per_node[row])[0] or int(jobs.gpus[row])
    except ValueError:
        return int(jobs.gpus[row])


def nodes_taken(jobs: JobTable, row: int, each: int) -> int:
    """Return for how many nodes a pending job asks where Slurm counts others, with *each* GPUs on one; else 0.

    So it is where Slurm refused another number of nodes and took over a part (22.05): the most nodes, the tasks, the
    CPUs, and the GPUs of a request for the whole job are new, and what it counts is that of before.
    """
    if jobs.per_job[row]:
        asked = gpus_in(jobs.per_node[row])[0] if jobs.per_node[row] else 0
        return asked // each if asked and asked != jobs.gpus[row] and not asked % each else 0
    least, _, most = jobs.node_range[row].partition("-")
    return int(most) if most.isdecimal() and least != most else 0
