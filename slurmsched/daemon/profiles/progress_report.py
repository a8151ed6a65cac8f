"""A job's report of its own progress, version 1 (docs/writing-jobs.md): checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .profile_record import ID_MOST, NODE, BadRecord, Record, whole

REPORT_B = 1024
ITERATIONS_MOST = 10**12
SAMPLES_MOST = 10**9


class ReportRefused(Exception):
    """A report that does not count: the text says why, ``result`` is the label it is counted under."""

    def __init__(self, result: str, text: str) -> None:
        super().__init__(text)
        self.result = result


class ReportedEarly(Exception):
    """A report before its time; ``wait_s`` is the time until the next one counts."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"{wait_s:.0f}")
        self.wait_s = wait_s


@dataclass(frozen=True)
class ProgressReport:
    """The state of a job's training after an iteration; what it does not report is NaN."""

    job_id: int
    restart: int
    node: str
    iteration: int
    loss: float
    accuracy: float
    noise: float  #: the gradient noise scale, in samples
    samples: int = 0  #: of a step


def report_of(record: Record) -> ProgressReport:
    """Parse a report from *record*; BadRecord where it is malformed or implausible."""
    node = record.get("node")
    if not isinstance(node, str) or not NODE.fullmatch(node):
        raise BadRecord("node is no name of a node")
    accuracy = _number(record, "accuracy")
    if accuracy < 0 or accuracy > 1:
        raise BadRecord(f"accuracy = {accuracy!r}; accepted: 0 to 1")
    noise = _number(record, "noise")
    if noise <= 0:
        raise BadRecord(f"noise = {noise!r}; accepted: samples above 0")
    return ProgressReport(
        job_id=whole(record, "job_id", 1, ID_MOST),
        restart=whole(record, "restart", 0, ID_MOST),
        node=node,
        iteration=whole(record, "progress", 0, ITERATIONS_MOST),
        loss=_number(record, "loss"),
        accuracy=accuracy,
        noise=noise,
        samples=0 if record.get("samples") is None else whole(record, "samples", 1, SAMPLES_MOST),
    )


def _number(record: Record, name: str) -> float:
    """Return a number of *record*, NaN where it is absent or null."""
    value = record.get(name)
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise BadRecord(f"{name} = {repr(value)[:40]}; accepted: a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadRecord(f"{name} = {repr(value)[:40]}; accepted: a finite number")
    return number
