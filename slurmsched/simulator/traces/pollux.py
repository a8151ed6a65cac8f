"""The workloads of Pollux: jobs by their application, with the GPUs and the batch of an owner who tuned them."""

from __future__ import annotations

import numpy as np

from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns


def _read(file: TraceFile) -> Raw:
    names = {"name": cells.text, "time": cells.number, "application": cells.text}
    read = DelimitedRecords(file).read({**names, "num_replicas": cells.whole, "batch_size": cells.whole})
    return Raw(
        {
            "submit_s": read["time"],
            "runtime_s": np.full(len(read["time"]), np.inf),  # it follows from the application
            "gpus": read["num_replicas"],
            "batch": read["batch_size"],
            "name": read["name"],
            "work": read["application"],
        }
    )


POLLUX = Format(
    "pollux",
    "a csv file with the columns name, time, application, num_replicas, batch_size",
    with_columns("name", "time", "application", "num_replicas", "batch_size"),
    _read,
)
