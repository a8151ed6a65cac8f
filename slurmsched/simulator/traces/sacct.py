"""The output of sacct with -P or -p: records with | between the fields, under a header."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.text.tres import count, gpus_in, memory_mib, seconds
from . import cells
from .cleaning import Raw, per_node
from .delimited_text import DelimitedRecords
from .file import TraceFile
from .format import Format
from .job_runs import arrivals, chains, only_last_runs

#: The command for a dump; further fields are ignored, and most may be missing.
COMMAND = (
    "sacct -a -X -D -P -o JobIDRaw,User,Account,Partition,QOS,JobName,Submit,Eligible,Start,End,ElapsedRaw,State,"
    "Timelimit,NNodes,ReqCPUS,AllocTRES,ReqTRES,Constraints"
)
_GOING_ON = ("PENDING", "RUNNING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING")
_MEMORY = re.compile(r"(?:^|,)mem=([^,]+)")
_MINUTE_S = 60.0


def _recognises(file: TraceFile) -> bool:
    there = file.fields("|")
    return "Submit" in there and bool(there & {"JobID", "JobIDRaw"})


def _time_limit(text: str) -> float:
    limit_s = seconds(text)
    return limit_s if limit_s > 0 else math.inf


def _minutes(text: str) -> float:
    # TimelimitRaw: plain minutes, or the words that Timelimit has too
    return float(text) * _MINUTE_S if text.strip().isdigit() else _time_limit(text)


def _number(text: str) -> int:
    """Return the number in front of an id: 123 of 123, 123_4, 123+1, 123_[5-9], 123.batch."""
    number = re.match(r"[0-9]{1,18}", text)
    if number is None:
        raise ValueError(f"{text!r} is no job id: accepted are 123, 123_4 and 123+1")
    return int(number[0])


def _meant(text: str) -> tuple[int, str, float]:
    """Return GPUs, their type and memory of a TRES text."""
    gpus, kind = gpus_in(text)
    found = _MEMORY.search(text)
    memory = memory_mib(found[1]) if found else 0.0
    return gpus, kind, 0.0 if math.isnan(memory) else memory


def _checked(meaning: Callable[[str], object]) -> cells.Cell:
    """Return a conversion to texts that are understood."""

    def convert(texts: Sequence[str]) -> Labels:
        labels = cells.text(texts)
        for name in labels.names:
            meaning(name)
        return labels

    return convert


_TEXTS = {
    "User": "user",
    "Account": "account",
    "Partition": "partition",
    "QOS": "qos",
    "JobName": "name",
    "Constraints": "features",
}
_CELLS: dict[str, cells.Cell] = {
    **dict.fromkeys((*_TEXTS, "State"), cells.text),
    **dict.fromkeys(("JobIDRaw", "JobID"), _checked(_number)),
    **dict.fromkeys(("AllocTRES", "ReqTRES"), _checked(_meant)),
    **dict.fromkeys(("Eligible", "Start", "End"), cells.moment),
    **dict.fromkeys(("NNodes", "ReqCPUS", "NCPUS", "AllocCPUS"), cells.distinct(count, np.int64)),
    "ElapsedRaw": cells.number,
    "Elapsed": cells.distinct(seconds),
    "Timelimit": cells.distinct(_time_limit),
    "TimelimitRaw": cells.distinct(_minutes),
}


def _read(file: TraceFile) -> Raw:
    raw = finished_runs(file)
    raw.aside("_granted")
    return _jobs(raw)


def finished_runs(file: TraceFile) -> Raw:
    """Read the runs that have ended, one row each; what only some readers need stands in columns that begin with _.

    These are ``_job`` (the job's id as text, by number), ``_eligible_s``, ``_started_s``, ``_ended_s``, and
    ``_granted``, whether anything was allocated.
    """
    # Names may hold the delimiter and sacct quotes nothing, so an uneven record is no error of the file.
    sheet = DelimitedRecords(file, delimiter="|", quoted=False, ragged=True)
    read = sheet.read({"Submit": cells.moment}, _CELLS)
    for either in (("AllocTRES", "ReqTRES"), ("ElapsedRaw", "Elapsed", "End")):
        if not any(name in read for name in either):
            raise file.at(1, f"there is no column {' or '.join(either)}: accepted is what this prints: {COMMAND}")
    raw = Raw(_columns(read))
    raw.note("torn", sheet.refused, "{records} left out with more or fewer fields than the header")
    for column, records in sheet.unreadable.items():
        raw.note("unreadable", records, f"{{records}} left out with a {column} that cannot be read")
    raw.only(~raw.aside("_step"), "steps", "{steps} of jobs left out")
    raw.only(~raw.aside("_going_on"), "unfinished", "{jobs} left out: still waiting or running")
    return raw


def _columns(read: dict[str, Any]) -> dict[str, Any]:
    ids = read.get("JobIDRaw", read.get("JobID"))
    assert ids is not None
    length = len(ids)
    states = read.get("State", Labels.of([""] * length))
    nodes = read.get("NNodes", np.ones(length, dtype=np.int64))
    counted = [read[name] for name in ("ReqCPUS", "AllocCPUS", "NCPUS") if name in read]
    cpus = counted[0] if counted else np.zeros(length, dtype=np.int64)
    unknown_s = np.full(length, np.nan)
    columns = {
        "job_id": np.asarray(ids.map([_number(name) for name in ids.names], np.int64)),
        "submit_s": read["Submit"],
        "runtime_s": _runtime(read),
        "nodes": nodes,
        "cpus": per_node(cpus, nodes),
        "time_limit_s": read.get("Timelimit", read.get("TimelimitRaw", np.full(length, np.inf))),
        **_granted(read, nodes),
        "_step": ids.map(["." in name for name in ids.names], bool),
        "_going_on": states.map([name.split(" ")[0].rstrip("+") in _GOING_ON for name in states.names], bool),
        "_job": ids.codes,
        "_eligible_s": read.get("Eligible", unknown_s),
        "_started_s": read.get("Start", unknown_s),
        "_ended_s": read.get("End", unknown_s),
        "_granted": _was_granted(read, length),
    }
    return columns | {ours: read[theirs] for theirs, ours in _TEXTS.items() if theirs in read}


def _was_granted(read: dict[str, Any], length: int) -> BoolArray:
    """Select the runs that had an allocation; all, where the dump does not tell."""
    texts: Labels = read.get("AllocTRES", Labels.of(["unknown"] * length))
    return np.asarray(texts.nonempty())


def _jobs(raw: Raw) -> Raw:
    job, eligible_s, started_s, ended_s = map(raw.aside, ("_job", "_eligible_s", "_started_s", "_ended_s"))
    submit_s = raw.columns["submit_s"]
    user = raw.columns["user"].codes if "user" in raw.columns else np.zeros(len(raw), dtype=np.int64)
    arrival_s = arrivals(raw, submit_s, eligible_s, started_s)
    only_last_runs(raw, chains(job, user, submit_s, ended_s), ended_s, arrival_s)
    return raw


def _runtime(read: dict[str, Any]) -> FloatArray:
    if "ElapsedRaw" in read or "Elapsed" in read:
        return np.asarray(read["ElapsedRaw" if "ElapsedRaw" in read else "Elapsed"])
    return np.asarray(read["End"] - read.get("Start", np.nan))


def _granted(read: dict[str, Any], nodes: IntArray) -> dict[str, Any]:
    """Return GPUs, their type and memory: as allocated, or as requested where nothing was allocated."""
    gpus, memory = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes))
    kinds = np.full(len(nodes), "", dtype=object)
    for column in ("ReqTRES", "AllocTRES"):
        if column not in read:
            continue
        texts: Labels = read[column]
        means = [_meant(text) for text in texts.names]
        there = texts.map([bool(name) for name in texts.names], bool)
        gpus[there] = texts.map([found[0] for found in means], np.int64)[there]
        kinds[there] = texts.map([found[1] for found in means], object)[there]
        memory[there] = texts.map([found[2] for found in means], np.float64)[there]
    return {
        "gpus": gpus,
        "gpu_type": Labels.of(kinds.tolist()),
        "memory_mib": memory / np.maximum(nodes, 1),
    }


SACCT = Format("sacct", f"what this prints: {COMMAND}", _recognises, _read)
