"""What ended runs used of CPUs and memory, from the site's accounting, through sacct."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.jobs import JobState
from ...cluster.records.usage import UsageTable
from ...cluster.text.tres import count, gpus_in, memory_mib
from ..versions import GOING_ON, RUN_STATES
from .sacct import LATE_S, Ask, argv, moment, records, utc, windows

_FIELDS = (
    *("JobIDRaw", "User", "UID", "JobName", "NNodes", "NTasks", "AllocTRES", "MaxRSS", "TotalCPU", "ElapsedRaw"),
    *("Start", "End", "State"),
)
_CPU_TIME = re.compile(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,2}(?:\.[0-9]{1,9})?)")
_BYTES = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_DTYPES: dict[object, type] = {IntArray: np.int64, FloatArray: np.float64}


@dataclass
class _Run:
    """A run, whose steps follow it in sacct's answer."""

    job_id: int
    user: str
    name: str
    gpus: int
    nodes: int
    cpus: float
    memory_mib: float
    runtime_s: float
    ended_s: float
    state: int
    held_memory_mib: float
    whole: bool = True  #: all of its steps could be read
    steps: list[tuple[float, float, float]] = field(default_factory=list)  #: start, end and memory per node


def read_usage(run_command: Ask, since_s: float, until_s: float, nonce: str) -> UsageTable:
    """Return the use of all users' runs that ended in [*since_s*, *until_s*), oldest end first.

    *nonce* must be drawn for this call. A record that makes no sense is left out.
    """
    runs: dict[tuple[int, float], _Run] = {}
    for at_s, end_s in windows(since_s, until_s):
        command = argv(_FIELDS, nonce, "--noconvert", "-S", utc(at_s), "-E", utc(end_s + LATE_S))
        found = _runs(records(run_command(command, {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}), nonce, _FIELDS))
        runs |= {(run.job_id, run.ended_s): run for run in found if since_s <= run.ended_s < until_s}
    return _table(sorted(runs.values(), key=lambda run: (run.ended_s, run.job_id)))


def _runs(rows: Sequence[Sequence[str]]) -> Iterator[_Run]:
    """Yield the ended runs of *rows*, each with its steps."""
    run: _Run | None = None
    for row in rows:
        texts = dict(zip(_FIELDS, row, strict=True))
        job, _, step = texts["JobIDRaw"].removeprefix("\n").partition(".")
        try:
            if step:
                if run is not None and run.job_id == int(job):
                    run.steps += [_step(texts)]
                continue
            if run is not None:
                yield run
            run = None
            run = _run(int(job), texts)
        except ValueError:
            if step and run is not None:
                run.whole = False
    if run is not None:
        yield run


def _run(job_id: int, texts: dict[str, str]) -> _Run | None:
    """Return the run of one record, None while it goes on; ValueError for a bad record."""
    state = texts["State"].split(" ", 1)[0].rstrip("+")
    if state in GOING_ON:
        return None
    if state not in RUN_STATES:
        raise ValueError(f"{state!r} is no state of a job")
    runtime_s, nodes, cpu_s = (
        float(int(texts["ElapsedRaw"])),
        max(count(texts["NNodes"]), 1),
        cpu_time_s(texts["TotalCPU"]),
    )
    return _Run(
        job_id=job_id,
        user=texts["User"] or texts["UID"],
        name=texts["JobName"],
        gpus=gpus_in(texts["AllocTRES"])[0],
        nodes=nodes,
        cpus=cpu_s / runtime_s / nodes if runtime_s > 0 and cpu_s > 0 else math.nan,  # 0 without jobacct_gather
        memory_mib=math.nan,
        runtime_s=runtime_s,
        ended_s=moment(texts["End"]),
        state=int(RUN_STATES[state]),
        held_memory_mib=_held_mib(texts["AllocTRES"]) / nodes,
    )


def _held_mib(tres: str) -> float:
    """Return the memory in a text of TRES; NaN where there is none."""
    return next((memory_mib(part[4:]) for part in tres.split(",") if part.startswith("mem=")), math.nan)


def _step(texts: dict[str, str]) -> tuple[float, float, float]:
    """Return start, end and the most memory on one node of a step: that of its largest task, for each task there."""
    tasks, nodes = max(count(texts["NTasks"]), 1), max(count(texts["NNodes"]), 1)
    return moment(texts["Start"]), moment(texts["End"]), _mib(texts["MaxRSS"]) * -(-tasks // nodes)


def _mib(text: str) -> float:
    """Parse memory: a plain number counts bytes here, which --noconvert prints; NaN where Slurm has none."""
    return float(text) / 2**20 if _BYTES.fullmatch(text) else memory_mib(text)


def cpu_time_s(text: str) -> float:
    """Parse a CPU time as seconds, such as 1-02:03:04, 02:03:04 or 03:04.567; ValueError for another text."""
    match = _CPU_TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no CPU time: accepted are [DAYS-][HOURS:]MINUTES:SECONDS with decimals")
    days, hours, minutes, secs = match.groups()
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + float(secs)


def _peak(run: _Run) -> float:
    """Return the most memory on a node that steps at the same time may have had together; NaN where none is known."""
    if run.state == JobState.OUT_OF_MEMORY:
        return math.inf
    steps = [step for step in run.steps if step[2] > 0] if run.whole else []
    beside = (
        sum(mib for start_s, end_s, mib in steps if start_s <= at_s < max(end_s, start_s + 1)) for at_s, _, _ in steps
    )
    return max(beside, default=math.nan)


def _table(runs: list[_Run]) -> UsageTable:
    for run in runs:
        run.memory_mib = _peak(run)
    kinds = get_type_hints(UsageTable)
    columns = {f.name: [getattr(run, f.name) for run in runs] for f in fields(UsageTable)}
    made: dict[str, Any] = {
        name: Labels.of(values) if kinds[name] is Labels else np.array(values, dtype=_DTYPES[kinds[name]])
        for name, values in columns.items()
    }
    return UsageTable(**made)
