"""The workloads of Synergy: jobs by their model, with the GPUs and the iterations of their training."""

from __future__ import annotations

import numpy as np

from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns


def _read(file: TraceFile) -> Raw:
    names = {"job_id": cells.whole, "model": cells.text, "submit_s": cells.number}
    read = DelimitedRecords(file).read({**names, "iterations": cells.number, "gpus": cells.whole})
    return Raw(
        {
            **{name: read[name] for name in ("job_id", "submit_s", "iterations", "gpus")},
            "runtime_s": np.full(len(read["job_id"]), np.inf),  # it follows from its CPUs and memory
            "name": read["model"],
            "work": read["model"],
        }
    )


SYNERGY = Format(
    "synergy",
    "a csv file with the columns job_id, model, submit_s, iterations, gpus",
    with_columns("job_id", "model", "submit_s", "iterations", "gpus"),
    _read,
)
