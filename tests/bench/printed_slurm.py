"""Slurm's commands as one program that prints a queue from a file, for clusters too large for a lab.

It prints the fields that it is asked for, with their marks, as Slurm does, and takes the lines of ``scontrol`` that
change jobs: the next reading shows them. Signals of ``scancel`` have no effect.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

Rows = list[dict[str, str]]

CONFIG = """ClusterName = printed
SLURM_VERSION = 22.05.8
PriorityType = priority/multifactor
AccountingStorageType = accounting_storage/none
SelectType = select/cons_tres
SelectTypeParameters = CR_CORE_MEMORY"""

CHANGES = {
    "excnodelist": "ExcNodes",
    "numcpus": "NumCPUs",
    "cpuspertask": "cpus-per-task",
    "mincpusnode": "MinCpus",
    "trespernode": "tres-per-node",
    "tresperjob": "tres-per-job",
}
"""The fields of squeue that keys of ``scontrol update`` change as they are."""

SHORT = {"%A": "JobID", "%x": "ExcNodes"}
POINTS = {"%i": "JobID", "%Y": "priority", "%S": "points", "%A": "base", "%N": "Nice"}
FIRST_OF_JOBS, FIRST_OF_NODES = "JobID", "NodeList"


def install(directory: Path, jobs: Rows, nodes: Rows) -> Path:
    """Write the state and the commands into *directory*, and return the directory of the commands."""
    (directory / "state.json").write_text(json.dumps({"jobs": jobs, "nodes": nodes}))
    commands = directory / "bin"
    commands.mkdir()
    for name in ("squeue", "sinfo", "sprio", "scontrol", "scancel"):
        path = commands / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -P {Path(__file__).absolute()} {directory} {name} "$@"\n')
        path.chmod(0o755)
    return commands


def changed(directory: Path, jobs: Rows) -> Rows:
    """Return *jobs* after all updates until now."""
    by_id = {row["JobID"]: row for row in jobs}
    log = directory / "updates"
    for line in log.read_text().splitlines() if log.exists() else ():
        pairs = dict(word.split("=", 1) for word in line.lower().split()[1:] if "=" in word)
        for job in pairs.pop("jobid", pairs.pop("job", "")).split(","):
            if job in by_id:
                _change(by_id[job], pairs)
    return jobs


def _change(row: dict[str, str], pairs: dict[str, str]) -> None:
    for key, value in pairs.items():
        value = value.strip("'\"")
        if key == "sitefactor":
            row["points"] = value
        elif key == "minmemorynode":
            row["MinMemory"] = f"{value}M"
        elif key in CHANGES:
            row[CHANGES[key]] = value
    if "numcpus" in pairs:
        row["tres"] = re.sub(r"cpu=\d+", f"cpu={pairs['numcpus']}", row["tres"])
    if "trespernode" in pairs:
        gpus = pairs["trespernode"].rpartition(":")[2]
        row["tres"] = re.sub(r"gres/gpu=\d+", f"gres/gpu={gpus}", row["tres"])


def long(rows: Rows, form: str) -> str:
    """Print *rows* by the format of ``-O``."""
    fields, marks = zip(*(part.split(":", 1) for part in form.split(",")), strict=True)
    lines = ["".join(name.upper() + mark for name, mark in zip(fields, marks, strict=True))]
    lines += ["".join(row.get(name, "N/A") + mark for name, mark in zip(fields, marks, strict=True)) for row in rows]
    return "\n".join(lines) + "\n"


def short(rows: Rows, form: str, names: dict[str, str]) -> str:
    """Print *rows* by the format of ``-o``; the number of what has no name here is 0."""
    heading = re.sub("%[A-Za-z]", "X", form.replace(form[:2], "JOBID", 1))
    parts = re.split("(%[A-Za-z])", form)
    texts = ["".join(row.get(names.get(part, ""), "0") if part[:1] == "%" else part for part in parts) for row in rows]
    return "\n".join([heading, *texts]) + "\n"


def answer(directory: Path, command: str, words: list[str]) -> str:
    """Return what a command prints."""
    if command == "scancel":
        return ""
    if command == "scontrol":
        if words[:1] == ["--version"]:
            return "slurm 22.05.8\n"
        if words[:2] == ["show", "config"]:
            return CONFIG + "\n"
        with (directory / "updates").open("a") as log:
            log.write(sys.stdin.read())
        return ""
    state: dict[str, Any] = json.loads((directory / "state.json").read_text())
    if command == "sinfo":
        return long(state["nodes"], words[-1])
    jobs = changed(directory, state["jobs"])
    if command == "sprio":
        waiting = [row for row in jobs if row["State"] == "PENDING"]
        rows = [row | {"priority": str(int(row["base"]) + int(row["points"]))} for row in waiting]
        return short(rows, words[-1], POINTS)
    if "PD" in words:
        jobs = [row for row in jobs if row["State"] == "PENDING"]
    if "-j" in words:
        wanted = set(words[words.index("-j") + 1].split(","))
        jobs = [row for row in jobs if row["JobID"] in wanted]
    if "-o" in words:
        return short(jobs, words[-1], SHORT)
    jobs = [row | {"PriorityLong": str(int(row["base"]) + int(row["points"]))} for row in jobs]
    return long(jobs, words[words.index("-O") + 1])


if __name__ == "__main__":
    sys.stdout.write(answer(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
