"""Requests for GPUs that predictions do not count as Slurm does: each is said before any time. Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.jobs import JobTable
from ..cluster.text.tres import gpus_by_type

BEGINS = "Its request for GPUs "
"""How each of these sentences begins."""


def unclear_requests(jobs: JobTable) -> dict[int, tuple[str, str]]:
    """Return, by row, what is not understood of a request for GPUs, and where the whole of it is, in sentences."""
    words = [_words(text) for text in jobs.per_node.names]
    if not any(words):
        return {}
    found = jobs.per_node.map([bool(one) for one in words], np.bool_)
    return {
        row: (
            f"{BEGINS}{words[jobs.per_node.codes[row]]}.",
            f"'squeue --start -j {jobs.job_id[row]}' has Slurm's own time.",
        )
        for row in np.flatnonzero(found).tolist()
    }


def _words(text: str) -> str:
    """Return what is wrong with a request, empty where nothing is."""
    try:
        kinds = gpus_by_type(text)
    except ValueError:
        counted = "a job with the GPUs that Slurm counts for it"
        return f"({text[:80]}) is not understood, and the times are those of {counted}" if "gpu" in text else ""
    asked = [kind for kind, many in kinds.items() if many]
    if len(asked) < 2:
        return ""
    names = ", ".join(kind or "any" for kind in asked)
    return f"names several types ({names}), and the times count all of them as {asked[0] or 'any'}"
