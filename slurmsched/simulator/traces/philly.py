"""The list of Microsoft Philly, cuts of it, and Philly with users and names attached."""

from __future__ import annotations

from . import cells
from .cleaning import Raw
from .file import TraceFile
from .format import Format, with_columns
from .sheet import Sheet


def _list(file: TraceFile) -> Raw:
    read = Sheet(file).read(
        {"duration": cells.number, "num_gpus": cells.whole, "cluster": cells.text},
        {"timestamp": cells.moment, "submit_time": cells.number, "job_id": cells.whole},
    )
    columns = {"runtime_s": read["duration"], "gpus": read["num_gpus"], "partition": read["cluster"]}
    if "timestamp" not in read and "submit_time" not in read:
        raise file.at(1, "there is no column timestamp and no column submit_time: one of them is needed")
    columns["submit_s"] = read["timestamp"] if "timestamp" in read else read["submit_time"]
    if "job_id" in read:
        columns["job_id"] = read["job_id"]
    return Raw(columns)


def _semisynthetic(file: TraceFile) -> Raw:
    read = Sheet(file).read(
        {
            "job_id": cells.whole,
            "submit_s": cells.number,
            "duration_s": cells.number,
            "gpus": cells.whole,
            "vc": cells.text,
            "user": cells.text,
            "job_name": cells.text,
        },
        {"time_limit_s": cells.limit},
    )
    renamed = {"duration_s": "runtime_s", "vc": "partition", "job_name": "name"}
    raw = Raw({renamed.get(name, name): column for name, column in read.items()})
    raw.note("semi-synthetic", len(raw), "semi-synthetic: users, names and time limits of {jobs} were made up")
    return raw


PHILLY = Format(
    "philly",
    "a csv file with the columns timestamp (or submit_time), duration, num_gpus, cluster",
    with_columns("duration", "num_gpus", "cluster"),
    _list,
)
SEMISYNTHETIC = Format(
    "semisynthetic",
    "a csv file with the columns job_id, submit_s, duration_s, gpus, vc, user, job_name",
    with_columns("job_id", "submit_s", "duration_s", "gpus", "vc", "user", "job_name"),
    _semisynthetic,
)
