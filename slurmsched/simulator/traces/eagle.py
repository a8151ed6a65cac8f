"""Accounting rows of the Eagle system as published by NREL: a csv file with seconds and megabytes."""

from __future__ import annotations

from . import cells
from .cleaning import Raw, per_node
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns

_NEEDED = {
    "job_id": cells.whole,
    "user": cells.text,
    "gpus_req": cells.whole_or_none,
    "submit_time": cells.moment,
    "run_time": cells.number,
}
_ALSO = {
    **dict.fromkeys(("account", "partition", "qos", "name"), cells.text),
    **dict.fromkeys(("nodes_req", "processors_req"), cells.whole_or_none),
    "wallclock_req": cells.limit,
    "mem_req": cells.number,
}


def _read(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(_NEEDED, _ALSO)
    renamed = {
        "gpus_req": "gpus",
        "submit_time": "submit_s",
        "run_time": "runtime_s",
        "wallclock_req": "time_limit_s",
        "nodes_req": "nodes",
        "processors_req": "cpus",
        "mem_req": "memory_mib",
    }
    columns = {renamed.get(name, name): column for name, column in read.items()}
    nodes = columns.get("nodes", 1)
    if "cpus" in columns:
        columns["cpus"] = per_node(columns["cpus"], nodes)
    if "memory_mib" in columns:
        columns["memory_mib"] = columns["memory_mib"] / (nodes + (nodes == 0))
    return Raw(columns)


EAGLE = Format(
    "eagle",
    "a csv file with the columns job_id, user, gpus_req, submit_time, run_time, and perhaps wallclock_req, nodes_req,"
    " processors_req, mem_req",
    with_columns(*_NEEDED),
    _read,
)
