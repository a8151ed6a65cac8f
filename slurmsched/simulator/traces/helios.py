"""The job logs of SenseTime Helios, also with the job names that Lucid added."""

from __future__ import annotations

from . import cells
from .cleaning import Raw, per_node
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns


def _read(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(
        {
            "user": cells.text,
            "vc": cells.text,
            "gpu_num": cells.whole,
            "submit_time": cells.moment,
            "duration": cells.number,
        },
        {
            "job_id": cells.text,
            "jobname": cells.text,
            "cpu_num": cells.whole_or_none,
            "node_num": cells.whole_or_none,
        },
    )
    columns = {
        "submit_s": read["submit_time"],
        "runtime_s": read["duration"],
        "gpus": read["gpu_num"],
        "user": read["user"],
        "partition": read["vc"],
    }
    if "jobname" in read:
        columns["name"] = read["jobname"]
    if "cpu_num" in read:
        # node_num is the nodes on which a job ran, not its request: it only tells how its CPUs were spread.
        columns["cpus"] = per_node(read["cpu_num"], read.get("node_num", 1))
    raw = Raw(columns)
    ids = read.get("job_id")
    if ids is not None and all(name.isascii() and name.isdigit() and len(name) < 19 for name in ids.names):
        columns["job_id"] = ids.map([int(name) for name in ids.names], int)
    elif ids is not None:
        raw.note("ids", len(raw), "{jobs} with ids that are no numbers: numbered by row")
    return raw


HELIOS = Format(
    "helios",
    "a csv file with the columns user, vc, gpu_num, submit_time, duration, and perhaps job_id, jobname, cpu_num",
    with_columns("user", "vc", "gpu_num", "submit_time", "duration"),
    _read,
)
