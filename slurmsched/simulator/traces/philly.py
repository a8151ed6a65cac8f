"""The job list of Microsoft Philly, excerpts of it, and Philly with generated users and names."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import Labels
from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns

_CONFIGURATION = dict.fromkeys(("model", "dataset", "batchsize", "amp"), cells.text)


def _list(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(
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
    read = DelimitedRecords(file).read(
        {
            "job_id": cells.whole,
            "submit_s": cells.number,
            "duration_s": cells.number,
            "gpus": cells.whole,
            "vc": cells.text,
            "user": cells.text,
            "job_name": cells.text,
        },
        {"time_limit_s": cells.limit, **_CONFIGURATION, "gpu_util": cells.number, "gmem_util": cells.number}
        | {"gmem_mib": cells.number},
    )
    renamed = {"duration_s": "runtime_s", "vc": "partition", "job_name": "name", "gmem_mib": "gpu_memory_mib"}
    columns = {renamed.get(name, name): column for name, column in read.items() if name not in _CONFIGURATION}
    if "gpu_util" in columns:
        columns["gpu_util"] = columns["gpu_util"] / 100
    if "gmem_util" in columns:
        columns["memory_util"] = columns.pop("gmem_util") / 100
    if set(read) >= set(_CONFIGURATION):
        columns["work"] = Labels.of(map("|".join, zip(*(read[name] for name in _CONFIGURATION), strict=True)))
        columns["amp"] = read["amp"].map([name == "1" for name in read["amp"].names], np.bool_)
    raw = Raw(columns)
    raw.note("semi-synthetic", len(raw), "semi-synthetic: users, names, limits and GPU use of {jobs} were made up")
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
