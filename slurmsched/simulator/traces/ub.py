"""The event lists of the Slurm simulator of the University at Buffalo: one sbatch command line per job."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...cluster.columns import Labels
from ...cluster.text.tres import count, gpus_in, memory_mib, seconds
from .cleaning import Raw
from .file import TraceFile
from .format import Format
from .trace import TraceError

_LINE = re.compile(r"-dt\s+(\S+)\s+-e\s+(\S+)\s*(?:\|\s*(.*))?")
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:=(\S*)|\s+([^-\s]\S*))?")
_SUBMIT = "submit_batch_job"
_FLAGS = frozenset(("--exclusive", "--requeue", "--no-requeue", "--overcommit"))
_LONG = {
    "-A": "--account",
    "-C": "--constraint",
    "-G": "--gpus",
    "-J": "--job-name",
    "-N": "--nodes",
    "-n": "--ntasks",
    "-c": "--cpus-per-task",
    "-p": "--partition",
    "-q": "--qos",
    "-t": "--time",
}
Options = dict[str, str]


def _read(file: TraceFile) -> Raw:
    rows: list[dict[str, Any]] = []
    others = whole_nodes = 0
    with file.text() as text:
        for at, line in enumerate(text, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            found = _LINE.match(line.strip())
            if not found:
                raise file.at(at, f"{line.strip()[:60]!r} is no event: accepted is -dt SECONDS -e EVENT | OPTIONS")
            if found[2] != _SUBMIT:
                others += 1
                continue
            options = _options(found[3] or "")
            rows.append(_job(file, at, found[1], options))
            whole_nodes += "--exclusive" in options
    if not rows:
        raise TraceError(f"reading the trace {file.path}: it has no event {_SUBMIT}")
    raw = Raw({name: _column([row[name] for row in rows]) for name in rows[0]})
    raw.note("events", others, f"{{events}} other than {_SUBMIT} left out")
    raw.note("exclusive", whole_nodes, "{jobs} with --exclusive: read as if they requested only the named resources")
    return raw


def _options(text: str) -> Options:
    """Return the options by their long names; of one that is given twice the last counts, as in sbatch."""
    options = {}
    for name, joined, apart in _OPTION.findall(text):
        options[_LONG.get(name, name)] = "" if name in _FLAGS else joined or apart
    return options


def _job(file: TraceFile, at: int, submit: str, options: Options) -> dict[str, Any]:
    """Convert the options of one job to a row; TraceError names an invalid option."""

    def meant(name: str, meaning: Callable[[str], Any], default: str = "") -> Any:
        try:
            return meaning(options.get(name, default))
        except ValueError as error:
            raise file.at(at, str(error), name) from error

    options = {**options, "-dt": submit}
    nodes = max(meant("--nodes", count, "1"), 1)
    per_node, kind = meant("--gres", gpus_in)
    other_per_node = meant("--gpus-per-node", lambda value: gpus_in(f"gpu:{value}" if value else "")[0])
    total = meant("--gpus", lambda value: gpus_in(f"gpu:{value}" if value else "")[0])
    cpus = max(meant("--ntasks", count, "1"), 1) * max(meant("--cpus-per-task", count, "1"), 1)
    memory = meant("--mem", memory_mib)
    limit_s = meant("--time", seconds)
    return {
        "submit_s": meant("-dt", _seconds),
        "runtime_s": meant("-sim-walltime", _seconds),
        "gpus": max((per_node + other_per_node) * nodes, total),
        "nodes": nodes,
        "cpus": -(-cpus // nodes),
        "memory_mib": 0.0 if math.isnan(memory) else memory,
        "time_limit_s": limit_s if limit_s > 0 else math.inf,
        "user": options.get("--uid", ""),
        "account": options.get("--account", ""),
        "partition": options.get("--partition", ""),
        "qos": options.get("--qos", ""),
        "name": options.get("--job-name", ""),
        "gpu_type": kind,
        "features": options.get("--constraint", ""),
    }


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no number of seconds: accepted are 12 and 10.5")
    return value


def _column(values: list[Any]) -> Any:
    return Labels.of(values) if isinstance(values[0], str) else np.array(values)


UB = Format(
    "ub",
    "lines of the form -dt SECONDS -e submit_batch_job | -sim-walltime SECONDS --uid=USER -t LIMIT ...",
    lambda file: _LINE.match(file.header.strip()) is not None,
    _read,
)
