"""Readers of data sets with real waits: each gives the columns of ``WaitLog``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...cluster.columns import Labels
from ...cluster.text.tres import gpus_in, memory_mib
from ...simulator.traces import cells
from ...simulator.traces.cleaning import Raw
from ...simulator.traces.delimited_text import DelimitedRecords
from ...simulator.traces.file import TraceFile
from ...simulator.traces.format import with_columns
from ...simulator.traces.job_runs import arrivals
from ...simulator.traces.registry import FORMATS as TRACES
from ...simulator.traces.sacct import SACCT, finished_runs
from ...simulator.traces.swf import SWF, all_jobs
from ...simulator.traces.trace import TraceError
from .wait_log import WaitData, wait_data

NEEDED = ("submit_s", "start_s")
_COUNTED = re.compile(r"^[0-9,]+ [a-z]+")  #: in the text of a note
_OWN: dict[str, cells.Cell] = {
    **dict.fromkeys(("submit_s", "start_s", "asked_s", "end_s", "slurm_start_s"), cells.moment),
    **dict.fromkeys(("user", "account", "partition", "qos", "name"), cells.text),
    **dict.fromkeys(("job_id", "gpus", "cpus", "nodes", "priority"), cells.whole_or_none),
    "memory_mib": cells.number,
    "time_limit_s": cells.limit,
}


@dataclass(frozen=True)
class WaitFormat:
    """A kind of file with waits."""

    name: str
    accepts: str  #: description of such a file, for people
    recognises: Callable[[TraceFile], bool]
    read: Callable[[TraceFile], Raw]
    shared: bool  #: its partitions use the same nodes


def read_waits(path: str | Path, format: str | None = None, *, shared: bool | None = None) -> WaitData:  # noqa: A002
    """Read a data set, a file or a directory of files of one format; the first lines tell the format unless named.

    *shared* says whether the partitions use the same nodes, by default as is usual in that format. TraceError names
    file, line and column, and what is accepted; it refuses a log without waits.
    """
    files = [TraceFile(one) for one in _files(Path(path))]
    how = _recognised(files[0]) if format is None else _named(format)
    raw = _joined([how.read(file) for file in files])
    return wait_data(raw, str(path), how.name, shared=how.shared if shared is None else shared)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
    if not files:
        raise TraceError(f"{path}: there are no files in this directory")
    return files


def _named(name: str) -> WaitFormat:
    for one in FORMATS:
        if one.name == name:
            return one
    raise TraceError(f"{name!r} is no format with waits: accepted are {', '.join(one.name for one in FORMATS)}")


def _recognised(file: TraceFile) -> WaitFormat:
    for one in FORMATS:
        if one.recognises(file):
            return one
    for trace in TRACES:
        if trace.recognises(file):
            raise TraceError(
                f"{file.path}: no start times are read from the format {trace.name}, so no wait is known:"
                f" such a log is of no use here"
            )
    accepted = "".join(f"\n  {one.name}: {one.accepts}" for one in FORMATS)
    raise file.at(1, f"no format with waits begins with {file.header[:80]!r}: accepted are{accepted}")


def _joined(parts: list[Raw]) -> Raw:
    """Return the rows of all *parts*; a job that is in several counts where it is asked for first."""
    if len(parts) == 1:
        return parts[0]
    names = set.intersection(*(set(part.columns) for part in parts))
    both = Raw({name: _concatenated([part.columns[name] for part in parts]) for name in names})
    for rule, text in {note.rule: note.text for part in parts for note in part.notes}.items():
        rows = sum(note.rows for part in parts for note in part.notes if note.rule == rule)
        both.note(rule, rows, _COUNTED.sub("{jobs}", text))
    if "job_id" not in both.columns:
        return both
    asked_s = both.columns.get("asked_s", both.columns["submit_s"])
    order = np.lexsort((np.arange(len(both)), asked_s))
    _, first = np.unique(both.columns["job_id"][order], return_index=True)
    once = np.zeros(len(both), dtype=np.bool_)
    once[order[first]] = True
    both.only(once, "again", "{jobs} of later files left out: each counts where it is asked for first")
    return both


def _concatenated(columns: list[Any]) -> Any:
    if not isinstance(columns[0], Labels):
        return np.concatenate(columns)
    return Labels.of([text for column in columns for text in column])


def _read_own(file: TraceFile) -> Raw:
    also = {name: cell for name, cell in _OWN.items() if name not in NEEDED}
    raw = Raw(DelimitedRecords(file).read({name: _OWN[name] for name in NEEDED}, also))
    if "asked_s" in raw.columns:
        raw.columns["asked_s"] = np.where(
            np.isnan(raw.columns["asked_s"]), raw.columns["submit_s"], raw.columns["asked_s"]
        )
    if "memory_mib" in raw.columns:
        raw.columns["memory_mib"] = np.nan_to_num(raw.columns["memory_mib"])
    return raw


def _read_helios(file: TraceFile) -> Raw:
    read = DelimitedRecords(file).read(
        {
            **dict.fromkeys(("user", "vc"), cells.text),
            "gpu_num": cells.whole,
            **dict.fromkeys(("submit_time", "start_time"), cells.moment),
        },
        {"end_time": cells.moment, "cpu_num": cells.whole_or_none, "job_id": cells.whole_or_none},
    )
    names = {"vc": "partition", "gpu_num": "gpus", "cpu_num": "cpus", "job_id": "job_id"}
    times = {"submit_time": "submit_s", "start_time": "start_s", "end_time": "end_s"}
    columns = {ours: read[theirs] for theirs, ours in (names | times).items() if theirs in read}
    return Raw({**columns, "user": read["user"], "account": read["user"]})


def _read_sacct(file: TraceFile) -> Raw:
    # Each run waited for itself: a requeue gives the next one a submit time of its own.
    raw = finished_runs(file)
    eligible_s, start_s, end_s = map(raw.aside, ("_eligible_s", "_started_s", "_ended_s"))
    granted = raw.aside("_granted")
    submit_s = arrivals(raw, raw.columns["submit_s"], eligible_s, start_s)
    nodes, cpus = raw.columns["nodes"], raw.columns["cpus"]
    for name in ("_job", "runtime_s", "gpu_type", "features"):
        raw.columns.pop(name, None)
    memory = raw.columns["memory_mib"] * np.maximum(nodes, 1)
    # sacct shows the cancellation of a job that never started as its start.
    start_s = np.where(granted, start_s, np.nan)
    raw.columns |= {"submit_s": submit_s, "start_s": start_s, "end_s": end_s}
    raw.columns |= {"cpus": cpus * np.maximum(nodes, 1), "memory_mib": memory}
    return raw


def _read_mila(file: TraceFile) -> Raw:
    """Read a snapshot: the jobs that waited at its moment, with the start that each had later."""
    read = DelimitedRecords(file).read(
        {
            **dict.fromkeys(("job_unique_id", "req_cpus"), cells.whole),
            **dict.fromkeys(("account_id", "partition_id_y", "req_tres"), cells.text),
            **dict.fromkeys(("submit_time", "eligible_time", "start_time", "end_time", "poll_time"), cells.moment),
            **dict.fromkeys(("time_limit_sec", "priority_y"), cells.number),
        }
    )
    tres = read["req_tres"]
    # Shares of fair use: larger ones run first, and only their order counts.
    priority = 1 + np.rint(1e12 * np.nan_to_num(read["priority_y"])).astype(np.int64)
    raw = Raw(
        {
            "job_id": read["job_unique_id"],
            "submit_s": read["submit_time"],
            "asked_s": read["poll_time"],
            "start_s": read["start_time"],
            "end_s": read["end_time"],
            "user": read["account_id"],
            "account": read["account_id"],
            "partition": read["partition_id_y"],
            "gpus": tres.map([gpus_in(text)[0] for text in tres.names], np.int64),
            "cpus": read["req_cpus"],
            "memory_mib": np.nan_to_num(tres.map([_memory_mib(text) for text in tres.names], np.float64)),
            "nodes": tres.map([_number(text, "node") for text in tres.names], np.int64),
            "time_limit_s": np.where(read["time_limit_sec"] > 0, read["time_limit_sec"], np.inf),
            "priority": priority,
        }
    )
    waits = ~(read["eligible_time"] > read["poll_time"])
    raw.only(waits, "eligible", "{jobs} left out that could not run yet when the snapshot was taken")
    return raw


def _read_swf(file: TraceFile) -> Raw:
    raw = all_jobs(file)
    raw.notes = [note for note in raw.notes if note.rule != "processors"]  # here they are CPUs
    raw.only(raw.columns["_wait_s"] >= 0, "wait", "{jobs} left out whose wait is not known")
    columns = raw.columns
    wait_s, runtime_s, processors = map(raw.aside, ("_wait_s", "runtime_s", "gpus"))
    left_s = columns["submit_s"] + wait_s
    ran = runtime_s > 0
    # A job that never ran waited until it was cancelled.
    columns |= {"start_s": np.where(ran, left_s, np.nan), "end_s": np.where(ran, left_s + runtime_s, left_s)}
    columns["cpus"] = processors
    return raw


def _number(tres: str, name: str) -> int:
    return int(_of_tres(tres).get(name, "1"))


def _memory_mib(tres: str) -> float:
    return memory_mib(_of_tres(tres).get("mem", "0"))


def _of_tres(tres: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in tres.split(",") if "=" in part)


def _read_philly(file: TraceFile) -> Raw:
    """Read the log of attempts: the wait ends with the first one, the job with the last."""
    with file.text() as text:
        try:
            jobs = json.load(text)
        except ValueError as error:
            raise TraceError(f"{file.path}: {error}: accepted is a list of jobs in JSON") from error
    if not isinstance(jobs, list):
        raise TraceError(f"{file.path}: accepted is a list of jobs in JSON")
    try:
        rows = [_philly_row(job) for job in jobs]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise TraceError(
            f"{file.path}: a job of the list has no {error}: accepted are submitted_time, vc, user and attempts"
        ) from error
    times = ("submit_s", "start_s", "end_s")
    raw = Raw(
        {
            **{name: _moments(file, [row[name] for row in rows]) for name in times},
            **{name: Labels.of([row[name] for row in rows]) for name in ("user", "account", "partition")},
            **{name: np.array([row[name] for row in rows], dtype=np.int64) for name in ("gpus", "nodes")},
        }
    )
    # When they left the queue is not known, so they would wait in it for good.
    raw.only(np.isfinite(raw.columns["start_s"]), "attempts", "{jobs} that never started left out")
    return raw


def _moments(file: TraceFile, texts: list[str]) -> Any:
    try:
        return cells.moment(texts)
    except ValueError as error:
        raise TraceError(f"{file.path}: {error}") from error


def _philly_row(job: Mapping[str, Any]) -> dict[str, Any]:
    attempts = job["attempts"]
    starts = [one["start_time"] for one in attempts if one.get("start_time")]
    details = attempts[0]["detail"] if attempts else []
    return {
        "submit_s": job["submitted_time"] or "",
        "start_s": min(starts) if starts else "",
        "end_s": (attempts[-1].get("end_time") or "") if attempts else "",
        "user": str(job["user"]),
        "account": str(job["user"]),
        "partition": str(job["vc"]),
        "gpus": sum(len(one["gpus"]) for one in details),
        "nodes": max(1, len(details)),
    }


def _is_philly(file: TraceFile) -> bool:
    return file.header.lstrip().startswith("[") and any('"attempts"' in line for line in file.head)


FORMATS = (
    WaitFormat(
        "waits",
        "a csv file with the columns submit_s and start_s, and perhaps " + ", ".join(sorted(set(_OWN) - set(NEEDED))),
        with_columns(*NEEDED),
        _read_own,
        shared=False,
    ),
    WaitFormat(
        "philly", "cluster_job_log, a list of jobs with their attempts in JSON", _is_philly, _read_philly, shared=False
    ),
    WaitFormat(
        "helios",
        "a csv file with the columns user, vc, gpu_num, submit_time, start_time, and perhaps end_time, cpu_num, job_id",
        with_columns("user", "vc", "gpu_num", "submit_time", "start_time"),
        _read_helios,
        shared=False,
    ),
    WaitFormat(
        "mila",
        "snapshots of waiting jobs in csv with the columns job_unique_id, poll_time, submit_time, start_time, req_tres",
        with_columns("job_unique_id", "poll_time", "submit_time", "start_time", "req_tres"),
        _read_mila,
        shared=True,
    ),
    WaitFormat("sacct", SACCT.accepts, SACCT.recognises, _read_sacct, shared=True),
    WaitFormat("swf", SWF.accepts, SWF.recognises, _read_swf, shared=True),
)
