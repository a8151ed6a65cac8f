"""Finished runs from the site's accounting, through sacct.

Every field ends with a mark drawn for this call alone, and records are split by counting fields, so that a job's name
can end neither. Times are UTC in both directions, so that daylight saving shifts nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, get_type_hints

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.records.outcomes import OutcomeTable, RefusedRecord
from ...cluster.text.tres import count, gpus_in, seconds
from ...errors import SlurmUnavailable
from ..versions import GOING_ON, RUN_STATES
from .records import heads

Ask = Callable[[Sequence[str], Mapping[str, str]], str]
"""Runs a command with extra environment and returns its output; SlurmUnavailable or SlurmRefused otherwise."""

DAY_S = 86400
EARLIEST_S = 1_420_070_400  #: 2015; before 15.08 Slurm did not account GPUs
_LONGEST_S = 16 * DAY_S  #: the longest window of one query, reached only in quiet times
_FEW = 1_000  #: an answer with fewer records doubles the window of the next query
_IDS_AT_ONCE = 500
#: A run submitted so long after the last one of the same id ended belongs to another job: Slurm reuses ids.
_REQUEUE_S = DAY_S
LATE_S = 3600
"""slurmdbd returns only runs eligible before the end of the window, and a requeue makes a run eligible after its end.
A job that was cancelled before it became eligible may be missing; it never waited either."""
_SLACK_S = 300  #: a requeued run's submit time may be this much later than the end of the run before it

_FIELDS = (
    *("JobIDRaw", "User", "UID", "Account", "QOS", "Partition", "AllocTRES", "ReqTRES", "NNodes", "ReqCPUS"),
    *("Timelimit", "Submit", "Eligible", "Start", "End", "State", "JobName", "ElapsedRaw"),
)
_ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
_TYPE = re.compile(r"\bgres/gpu:([^=,:]+)=")
_DTYPES: dict[object, type] = {IntArray: np.int64, FloatArray: np.float64}


@dataclass(frozen=True)
class _Run:
    """A record of sacct: columns of OutcomeTable that need no other record, and the restart, filled in later."""

    job_id: int
    user: str
    account: str
    qos: str
    partition: str
    name: str
    gpus: int
    nodes: int
    cpus: int
    time_limit_s: float
    first_submit_s: float
    eligible_s: float
    started_s: float
    ended_s: float
    runtime_s: float
    state: int
    restart: int = 0
    gpu_type: str = ""
    interactive: int = 0  #: sacct does not say


def read_outcomes(
    run_command: Ask, since_s: float, until_s: float, nonce: str
) -> tuple[OutcomeTable, list[RefusedRecord]]:
    """Return all users' runs that ended in [*since_s*, *until_s*), oldest end first, and the bad records.

    Each requeue is a run of its own, with the first submit time of the job. *nonce* must be drawn for this call.
    """
    runs: dict[tuple[int, float, float], _Run] = {}
    refused: dict[str, RefusedRecord] = {}  # windows overlap
    at_s, step_s = math.floor(max(since_s, EARLIEST_S)), DAY_S
    while at_s < until_s:
        end_s = min(at_s + step_s, math.ceil(until_s))
        found, bad = _parsed(
            run_command(argv(_FIELDS, nonce, "-X", "-S", utc(at_s), "-E", utc(end_s + LATE_S)), _ENVIRONMENT), nonce
        )
        runs |= {_key(run): run for run in found if run.ended_s < until_s}
        refused |= {one.record: one for one in bad}
        step_s = min(2 * step_s, _LONGEST_S) if len(found) < _FEW else DAY_S
        at_s = end_s
    # A job submitted before the window may have earlier runs.
    older = sorted({run.job_id for run in runs.values() if run.first_submit_s < since_s + _SLACK_S})
    runs |= {_key(run): run for run in _runs_of(run_command, older, EARLIEST_S, nonce) if run.ended_s < since_s}
    numbered = [run for run in _numbered(runs.values()) if run.ended_s >= since_s]
    return _table(sorted(numbered, key=lambda run: (run.ended_s, run.job_id, run.restart))), list(refused.values())


def windows(since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """Yield the times of queries of a day each, the first of which begins no later than *since_s*."""
    at_s = math.floor(max(since_s, EARLIEST_S))
    while at_s < until_s:
        end_s = min(at_s + DAY_S, math.ceil(until_s))
        yield at_s, end_s
        at_s = end_s


def read_runs(run_command: Ask, job_ids: Sequence[int], since_s: float, nonce: str) -> OutcomeTable:
    """Return runs of *job_ids* that ended since *since_s*, oldest end first. *nonce* must be drawn for this call."""
    runs = _numbered(_runs_of(run_command, sorted(job_ids), EARLIEST_S, nonce))
    return _table(sorted((run for run in runs if run.ended_s >= since_s), key=lambda run: (run.ended_s, run.job_id)))


def _runs_of(run_command: Ask, job_ids: Sequence[int], since_s: float, nonce: str) -> Iterator[_Run]:
    for at in range(0, len(job_ids), _IDS_AT_ONCE):
        ids = ",".join(map(str, job_ids[at : at + _IDS_AT_ONCE]))
        yield from _parsed(run_command(argv(_FIELDS, nonce, "-X", "-S", utc(since_s), "-j", ids), _ENVIRONMENT), nonce)[
            0
        ]


def argv(fields: Sequence[str], nonce: str, *which: str) -> list[str]:
    """Return the command for all users, with a row for each run, and a mark after every field."""
    return ["sacct", "-a", "-D", "-p", f"--delimiter={nonce}", "-o", ",".join(fields), *which]


def utc(at_s: float) -> str:
    """Return a time as sacct takes it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _key(run: _Run) -> tuple[int, float, float]:
    return run.job_id, run.first_submit_s, run.ended_s


def records(text: str, nonce: str, fields: Sequence[str]) -> list[list[str]]:
    """Return the texts of *fields* of each record in sacct's answer; SlurmUnavailable where it is none."""
    *pieces, rest = text.split(nonce)
    if not pieces or not heads(pieces[0], fields[0]):
        raise SlurmUnavailable("sacct printed something that is not its answer")
    if rest != "\n" or len(pieces) % len(fields):
        raise SlurmUnavailable("the answer of sacct was cut off")
    return [pieces[at : at + len(fields)] for at in range(len(fields), len(pieces), len(fields))]


def _parsed(text: str, nonce: str) -> tuple[list[_Run], list[RefusedRecord]]:
    """Return the finished runs and the bad records in sacct's answer."""
    runs: list[_Run] = []
    refused: list[RefusedRecord] = []
    for record in records(text, nonce, _FIELDS):
        try:
            if run := _run(record):
                runs.append(run)
        except ValueError as error:
            refused.append(RefusedRecord(_reason(str(error)), "|".join(record).removeprefix("\n")))
    return runs, refused


def _reason(words: str) -> str:
    """Return what was wrong with a record, without what only this record has."""
    if words.startswith(("invalid literal", "could not convert")):
        return "a field is no number"
    return re.sub(r"^'[^']*'(?: in '[^']*')? ", "a field ", words.partition(": accepted")[0])


def _run(record: list[str]) -> _Run | None:
    """Return the run of one record, None while it goes on; ValueError for a bad record."""
    fields = dict(zip(_FIELDS, record, strict=True))
    state = fields["State"].split(" ", 1)[0].rstrip("+")
    if state in GOING_ON:
        return None
    if state not in RUN_STATES:
        raise ValueError(f"{state!r} is no state of a job")
    # sacct shows the cancellation of a job that never started as its start; such a job has no allocation.
    started_s = _time(fields["Start"]) if fields["AllocTRES"] else math.nan
    limit_s = seconds(fields["Timelimit"])
    return _Run(
        job_id=int(fields["JobIDRaw"].removeprefix("\n")),
        user=fields["User"] or fields["UID"],
        account=fields["Account"],
        qos=fields["QOS"],
        partition=fields["Partition"],
        name=fields["JobName"],
        gpus=gpus_in(fields["AllocTRES"] or fields["ReqTRES"])[0],
        nodes=count(fields["NNodes"]),
        cpus=count(fields["ReqCPUS"]),
        time_limit_s=math.inf if math.isnan(limit_s) else limit_s,
        first_submit_s=moment(fields["Submit"]),
        # A requeue and a begin time leave an eligible time after the start.
        eligible_s=float(np.fmin(_time(fields["Eligible"]), _time(fields["Start"]))),
        started_s=started_s,
        ended_s=moment(fields["End"]),
        runtime_s=0.0 if math.isnan(started_s) else float(int(fields["ElapsedRaw"])),
        state=int(RUN_STATES[state]),
        gpu_type=_one_type(fields["AllocTRES"]),
    )


def _one_type(tres: str) -> str:
    """Return the type of the GPUs of a run where sacct tells it and it is one; else an empty text."""
    types = set(_TYPE.findall(tres))
    return types.pop() if len(types) == 1 else ""


def _time(text: str) -> float:
    """Parse Unix seconds; NaN where Slurm has no time."""
    return math.nan if text in ("", "Unknown", "None", "N/A") else float(int(text))


def moment(text: str) -> float:
    """Parse Unix seconds; ValueError where Slurm has no time."""
    at_s = _time(text)
    if math.isnan(at_s):
        raise ValueError(f"{text!r} is no time of a finished run")
    return at_s


def _numbered(runs: Iterable[_Run]) -> Iterator[_Run]:
    """Yield the runs with their restart numbers and the first submit time of their job."""
    before: _Run | None = None
    for run in sorted(runs, key=lambda run: (run.job_id, run.ended_s, run.first_submit_s)):
        if before and _same_job(before, run):
            run = replace(run, restart=before.restart + 1, first_submit_s=before.first_submit_s)
        yield run
        before = run


def _same_job(before: _Run, run: _Run) -> bool:
    same = (before.job_id, before.user) == (run.job_id, run.user)
    return same and run.first_submit_s <= before.ended_s + _REQUEUE_S


def _table(runs: list[_Run]) -> OutcomeTable:
    kinds = get_type_hints(OutcomeTable)
    columns = {f.name: [getattr(run, f.name) for run in runs] for f in fields(OutcomeTable)}
    made: dict[str, Any] = {
        name: Labels.of(values) if kinds[name] is Labels else np.array(values, dtype=_DTYPES[kinds[name]])
        for name, values in columns.items()
    }
    return OutcomeTable(**made)
