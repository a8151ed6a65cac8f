"""The traces of Tiresias: seconds, one model name per job."""

from __future__ import annotations

from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns
from .model_names import sensitive


def _read(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(
        {"num_gpu": cells.whole, "submit_time": cells.number, "duration": cells.number},
        {"job_id": cells.whole, "model_name": cells.text},
    )
    columns = {"submit_s": read["submit_time"], "runtime_s": read["duration"], "gpus": read["num_gpu"]}
    if "job_id" in read:
        columns["job_id"] = read["job_id"]
    if "model_name" in read:
        columns |= {"name": read["model_name"], "sensitive": sensitive(read["model_name"])}
    return Raw(columns)


TIRESIAS = Format(
    "tiresias",
    "a csv file with the columns num_gpu, submit_time, duration, and perhaps job_id, model_name",
    with_columns("num_gpu", "submit_time", "duration", without=("expect_time_list", "vc")),
    _read,
)
