"""The traces of Chronus: minutes, deadlines after submission with their rewards, best-effort jobs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...cluster.columns import FloatArray, Labels
from ..workload import rewards
from . import cells
from .cleaning import Raw
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format, with_columns
from .model_names import sensitive

MINUTE_S = 60.0
_FULL = 10.0  #: the highest reward in the artifact


def _numbers(text: str) -> list[float]:
    """Return the numbers in ``159-189-229``."""
    try:
        return [float(number) for number in text.split("-")]
    except ValueError:
        raise ValueError(f"{text!r} is no list: accepted are numbers with - between, like 159-189-229") from None


def _read(file: TraceFile) -> Raw:
    sheet = DelimitedRecords(file)
    read = sheet.read(
        {
            "num_gpu": cells.whole,
            "submit_time": cells.number,
            "duration": cells.number,
            "expect_time_list": cells.text,
            "expect_value_list": cells.text,
            "best_effort": cells.flag,
        },
        {"job_id": cells.whole, "user": cells.text, "model_name": cells.text},
    )
    submit_s, best_effort = read["submit_time"] * MINUTE_S, read["best_effort"]
    promised = np.flatnonzero(~best_effort)
    steps = dict(zip(promised.tolist(), _steps(sheet, read, promised.tolist()), strict=True))
    first_s = np.full(len(submit_s), np.inf)
    first_s[promised] = [within[0][0] for within in steps.values()]
    columns = {
        "submit_s": submit_s,
        "runtime_s": read["duration"] * MINUTE_S,
        "gpus": read["num_gpu"],
        "best_effort": best_effort,
        "deadline_s": submit_s + first_s,
        "rewards": Labels.of(rewards.written(steps.get(row, ())) for row in range(len(submit_s))),
    }
    columns |= {name: read[name] for name in ("job_id", "user") if name in read}
    if "model_name" in read:
        columns |= {"name": read["model_name"], "sensitive": sensitive(read["model_name"])}
    return Raw(columns)


def _steps(sheet: DelimitedRecords, read: dict[str, Labels], rows: list[int]) -> Iterator[rewards.Steps]:
    times, values = read["expect_time_list"], read["expect_value_list"]
    worth_by_text: dict[str, FloatArray] = {}
    for row in rows:
        pair = []
        for column, text in (("expect_time_list", times[row]), ("expect_value_list", values[row])):
            try:
                if text not in worth_by_text:
                    worth_by_text[text] = np.array(_numbers(text))
            except ValueError as error:
                raise sheet.fail(row, column, str(error)) from error
            pair.append(worth_by_text[text])
        within, worth = pair
        if len(within) != len(worth):
            problem = f"{len(worth)} values for {len(within)} deadlines: accepted is one value for each"
            raise sheet.fail(row, "expect_value_list", problem)
        if np.any(np.diff(within) < 0):
            raise sheet.fail(row, "expect_time_list", f"{times[row]!r} falls: accepted are deadlines by time")
        yield tuple(zip((within * MINUTE_S).tolist(), (worth / _FULL).tolist(), strict=True))


CHRONUS = Format(
    "chronus",
    "a csv file with the columns num_gpu, submit_time and duration (minutes), expect_time_list, expect_value_list,"
    " best_effort",
    with_columns("num_gpu", "submit_time", "duration", "expect_time_list", "expect_value_list", "best_effort"),
    _read,
)
