"""The generic resources that a job asks for, as sbatch and slurmctld read them from its options.

Releases differ (tests on a lab): 22.05 takes ``gpu:TYPE=2`` for a type with that name, newer ones for two GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...errors import ConfigError
from .sbatch_values import UNITS, refuse, submission_failed

Items = list[tuple[str, int]]
"""Types, empty for any, with numbers."""

_OLDER_COUNT = re.compile(r"[ \t\n\v\f\r]*\+?([0-9]{1,15})([KMGTP]?)", re.IGNORECASE)
_COUNT = re.compile(r"([0-9]{1,15})([KMGTP]?)", re.IGNORECASE)
_PER_TASK = re.compile(r"[ \t\n\v\f\r]*(-?)\+?([0-9]{0,15})")
_GPU_OPTIONS = (("gpus", "job"), ("gpus-per-node", "node"), ("gpus-per-socket", "socket"), ("gpus-per-task", "task"))
_INVALID_TRES = "Invalid Trackable RESource (TRES) specification"
_NO_TYPE = "Requested node configuration is not available: a number behind no type of GPUs"


def asked_gres(options: Mapping[str, str], *, older: bool) -> tuple[dict[str, Items], list[tuple[str, str, int]]]:
    """Return the GPUs that *options* ask for by what they are for (job, node, socket, task), and other GRES by node.

    *older*: as 22.05 reads them. ConfigError with Slurm's words where it refuses them.
    """
    if older and "gres" in options and "" in options["gres"].split(","):
        submission_failed(_INVALID_TRES)
    node, others = gres_items(options.get("gres", ""), older=older)
    asked, typed = {"node": node}, "cpus-per-gpu" not in options
    for name, what in _GPU_OPTIONS:
        parts = list(filter(None, options.get(name, "").split(",")))
        if what == "task" and not older:
            items = [_per_task(part, typed and "gpus" not in options) for part in parts]
        else:
            items = gres_items(",".join(f"gpu:{part}" for part in parts), older=older, typed=typed)[0]
        asked[what] = [*(item for item in items if item[1]), *asked.get(what, [])]
    return asked, others


def names_a_type_twice(options: Mapping[str, str]) -> bool:
    """Report whether --gpus-per-task has a type twice: which of its numbers counts hangs on the release."""
    by_task = {name: options[name] for name in ("gpus-per-task", "gpus", "cpus-per-gpu") if name in options}
    try:
        kinds = [kind for kind, _ in asked_gres(by_task, older=False)[0]["task"]]
    except ConfigError:  # as newer releases refuse it
        return False
    return len(kinds) > len(set(kinds))


def gres_items(text: str, *, older: bool = False, typed: bool = True) -> tuple[Items, list[tuple[str, str, int]]]:
    """Parse a list of GRES, ``gpu:a100:2,gpu:1,disk:5``, as GPUs by type in order, and others by name and type.

    *typed*: a number behind an empty type is refused.
    """
    gpus: Items = []
    others: list[tuple[str, str, int]] = []
    if text.lower() == "none":
        return gpus, others
    for item in filter(None, text.split(",")):
        fields = _fields(item, older)
        if not re.fullmatch(r"[A-Za-z_][\w.+-]*", fields[0]):
            refuse("Invalid generic resource (gres) specification")
        kind, count = _kind_and_count(fields[1:], older, typed)
        if count and fields[0] == "gpu":
            gpus.append((kind, count))
        elif count:
            others.append((fields[0], kind, count))
    return gpus, others


def _fields(item: str, older: bool) -> list[str]:
    """Split an item into its name and what follows."""
    if older:
        return item.removeprefix("gres:").split(":", 2)
    return item.removeprefix("gres/").replace("=", ":").split(":", 2)


def _kind_and_count(fields: list[str], older: bool, typed: bool) -> tuple[str, int]:
    """Return the type and the number of one item; digits alone are a number, but a type before a number."""
    if "" in fields:
        number = None if older else _COUNT.fullmatch(fields[-1].rpartition(":")[2])
        if number and not typed:  # whose GPUs have CPUs of their own
            return "", int(number[1]) * UNITS[number[2].upper()]
        if number:
            submission_failed(_NO_TYPE)
        refuse("Invalid generic resource (gres) specification")
    if not fields:
        return "", 1
    match = (_OLDER_COUNT if older else _COUNT).fullmatch(fields[-1])
    if match:
        return fields[0] if len(fields) == 2 else "", int(match[1]) * UNITS[match[2].upper()]
    if len(fields) == 2:
        refuse("Invalid generic resource (gres) specification")
    if older and fields[0][0].isdigit() and "=" not in fields[0]:
        submission_failed(f"{_INVALID_TRES}: this release takes {fields[0][:80]!r} for a type only before a number")
    return fields[0], 1


def _per_task(part: str, typed: bool) -> tuple[str, int]:
    """Return the type and the number of one item of --gpus-per-task: the digits after the last colon count, if any."""
    kind, colon, number = part.replace("=", ":").rpartition(":")
    match = _PER_TASK.match(number)
    if match is None or (match[1] and match[2]) or (colon and not (kind or match[2])):
        refuse(_INVALID_TRES)
    if colon and not kind and typed:
        submission_failed(_NO_TYPE)
    return kind, int(match[2] or 0)
