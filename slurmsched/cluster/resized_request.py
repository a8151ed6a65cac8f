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
