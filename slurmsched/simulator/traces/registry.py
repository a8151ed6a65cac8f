"""The list of all formats, and reading a file of any of them."""

from __future__ import annotations

from pathlib import Path

from .chronus import CHRONUS
from .cleaning import cleaned
from .eagle import EAGLE
from .file import TraceFile
from .format import Format
from .helios import HELIOS
from .mlfs import MLFS
from .native import OWN
from .pcs import PCS
from .philly import PHILLY, SEMISYNTHETIC
from .sacct import SACCT
from .swf import SWF
from .tiresias import TIRESIAS
from .trace import Trace, TraceError
from .training_jobs import GAVEL, POLLUX, SYNERGY
from .ub import UB

#: The first that recognises a file reads it: more specific formats come first.
FORMATS = (
    MLFS,
    OWN,
    SEMISYNTHETIC,
    PHILLY,
    CHRONUS,
    PCS,
    POLLUX,
    GAVEL,
    SYNERGY,
    HELIOS,
    EAGLE,
    TIRESIAS,
    SACCT,
    UB,
    SWF,
)


def read(path: str | Path, format: str | None = None, *, cpu_jobs: bool = False) -> Trace:  # noqa: A002
    """Read the jobs of a file; its first lines determine the format unless it is named.

    Jobs without GPUs are left out unless *cpu_jobs*. TraceError names file, line and column, and what is accepted.
    """
    file = TraceFile(path)
    how = _recognised(file) if format is None else _named(format)
    jobs, notes = cleaned(how.read(file), cpu_jobs=cpu_jobs)
    if not len(jobs):
        raise TraceError(f"reading the trace {path}: no job is left" + "".join(f"; {note}" for note in notes))
    return Trace(jobs, notes, how.name)


def _named(name: str) -> Format:
    for one in FORMATS:
        if one.name == name:
            return one
    raise TraceError(f"{name!r} is no format of traces: accepted are {', '.join(one.name for one in FORMATS)}")


def _recognised(file: TraceFile) -> Format:
    for one in FORMATS:
        if one.recognises(file):
            return one
    if file.header.startswith("SQLite format 3"):
        raise TraceError(f"reading the trace {file.path}: this is a database; read it with --from-db")
    accepted = "".join(f"\n  {one.name}: {one.accepts}" for one in FORMATS)
    raise file.at(1, f"no format of traces begins with {file.header[:80]!r}: accepted are{accepted}")
