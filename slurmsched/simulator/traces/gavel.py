"""The workloads of Gavel: jobs by their model, with the GPUs and the steps of their training."""

from __future__ import annotations

import numpy as np

from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns


def _read(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(
        {
            "job_id": cells.whole,
            "model": cells.text,
            "gpus": cells.whole,
            "steps": cells.number,
            "submit_s": cells.number,
            "weight": cells.number,
        }
    )
    return Raw(
        {
            **{name: read[name] for name in ("job_id", "submit_s", "gpus", "weight")},
            "runtime_s": np.full(len(read["job_id"]), np.inf),  # it follows from the type of the GPUs
            "iterations": read["steps"],
            "name": read["model"],
            "work": read["model"],
        }
    )


GAVEL = Format(
    "gavel",
    "a csv file with the columns job_id, model, gpus, steps, submit_s, weight",
    with_columns("job_id", "model", "gpus", "steps", "submit_s", "weight"),
    _read,
)
