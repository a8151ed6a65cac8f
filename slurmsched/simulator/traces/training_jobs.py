"""The workloads of Pollux, Gavel and Synergy: jobs that train, whose runtime follows from what they get."""

from __future__ import annotations

import numpy as np

from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns

_TEXTS = frozenset({"name", "application", "model"})
_COUNTS = frozenset({"job_id", "gpus", "num_replicas", "batch_size"})
_POSITIVE = frozenset({"iterations", "steps", "weight"})


def _cell(column: str) -> cells.Cell:
    if column in _POSITIVE:
        return cells.positive
    return cells.text if column in _TEXTS else cells.whole if column in _COUNTS else cells.number


def _format(name: str, columns: str, /, **renamed: str) -> Format:
    """Return the format of csv files with *columns*, those of the workload but for *renamed* ones."""
    names = tuple(columns.split())

    def read(file: TraceFile) -> Raw:
        rows = DelimitedRecords(file).read({column: _cell(column) for column in names})
        same = set(names) - set(renamed.values())
        found = {column: rows[column] for column in names if column in same}
        found |= {job: rows[column] for job, column in renamed.items()}
        return Raw(found | {"runtime_s": np.full(len(found["submit_s"]), np.inf)})

    return Format(name, f"a csv file with the columns {', '.join(names)}", with_columns(*names), read)


POLLUX = _format(
    "pollux",
    "name time application num_replicas batch_size",
    submit_s="time",
    work="application",
    gpus="num_replicas",
    batch="batch_size",
)
GAVEL = _format("gavel", "job_id model gpus steps submit_s weight", iterations="steps", name="model", work="model")
SYNERGY = _format("synergy", "job_id model submit_s iterations gpus", name="model", work="model")
