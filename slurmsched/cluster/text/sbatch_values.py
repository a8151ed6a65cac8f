"""The values of sbatch's options: parse each as sbatch does, or refuse it with sbatch's words (ConfigError)."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from ...errors import ConfigError

_SPACE = r"[ \t\n\v\f\r]*"
_WHOLE = re.compile(rf"{_SPACE}\+?([0-9]{{1,18}})")
_MEMORY = re.compile(rf"{_SPACE}\+?([0-9]{{1,18}})(?:([KMGT])B?)?", re.IGNORECASE)
_NODES = re.compile(rf"{_SPACE}\+?([0-9]{{1,9}})(K?)(M?){_SPACE}", re.IGNORECASE)
_SIZES = re.compile(r"[0-9]{1,9}(?:-[0-9]{1,9}(?::[0-9]{1,9})?)?")
_TASK_RANGE = re.compile(r"\[?([0-9]{1,9})\]?(?:-([0-9]{1,9})\]?(?::([0-9]{1,9})\]?)?)?(?:%.*)?")
UNITS: dict[str, int] = {unit: 1024**power for power, unit in enumerate(("", *"KMGTP"))}
_EXCLUSIVE = {
    "": "exclusive", "exclusive": "exclusive", "oversubscribe": "shared", "user": "user", "mcs": "mcs",
    "topo": "topo",
}  # fmt: skip


_NO_VAL16 = 0xFFFE  #: the least number that Slurm reads as none

SWITCH_WAIT_S = 300.0
"""How long Slurm lets a job wait for its switches at most, unless max_switch_wait says otherwise."""


def refuse(words: str) -> NoReturn:
    """Raise ConfigError with the *words* with which sbatch refuses a job."""
    raise ConfigError(f"sbatch refuses such a job: {words}")


def submission_failed(words: str) -> NoReturn:
    """Raise ConfigError with the *words* with which slurmctld refuses a job."""
    refuse(f"Batch job submission failed: {words}")


def positive(name: str, text: str) -> int:
    """Parse the count of option *name*."""
    match = _WHOLE.fullmatch(text)
    if not match or not 0 < int(match[1]) < 2**31:
        refuse(f'Invalid numeric value "{text[:80]}" for --{name}.')
    return int(match[1])


def refuse_planes(distribution: str, nodes: int, tasks: int) -> None:
    """Refuse a distribution in planes that leaves one of so many *nodes* without a task (sbatch's own check)."""
    plane = re.match("plane=([1-9][0-9]{0,8})", distribution, re.IGNORECASE)
    if plane and (nodes - 1) * int(plane[1]) >= tasks:
        refuse("Too few processes for the requested {plane,node} distribution")


def mebibytes(name: str, text: str) -> int:
    """Parse memory as MiB: ``500``, ``1gb``, ``4G``; KiB are rounded up."""
    match = _MEMORY.fullmatch(text)
    if not match:
        refuse(f"Invalid --{name} specification: {text[:80]!r}; accepted are whole numbers with K, M, G or T")
    unit = UNITS[(match[2] or "M").upper()]
    return -(-int(match[1]) * unit // 1024**2)


def is_node_list(text: str) -> bool:
    """Report whether *text* lists numbers of nodes, ``2,4`` or ``1-8:2``, which 24.11 and newer releases take."""
    return bool(re.search("[,:]", text)) and all(map(_SIZES.fullmatch, text.split(",")))


def node_range(text: str) -> tuple[int, int]:
    """Parse a number, range or list of nodes, ``2``, ``2-4``, ``2,4``, as the fewest and the most."""
    if is_node_list(text):
        numbers = [number for part in text.split(",") for number in _listed(part)]
        return min(numbers), max(numbers)
    low, dash, high = text.partition("-")
    fewest, most = _nodes(low, optional=bool(dash)), _nodes(high, optional=True) if dash else -1
    if not dash:
        return fewest, fewest
    fewest = 1 if fewest < 0 else fewest
    if most != 0 and most < fewest:
        refuse(f"Maximum node count {most} is less than minimum node count {fewest}")
    return fewest, most


def _listed(part: str) -> tuple[int, int]:
    """Return the fewest and the most nodes of a part of a list: with a step, Slurm leaves the end out (24.11)."""
    first, last, step = (re.findall("[0-9]+", part) + [""] * 2)[:3]
    fewest, most = int(first), int(last or first)
    return (fewest, most) if not step else (fewest, fewest + max(most - fewest - 1, 0) // int(step) * int(step))


def _nodes(text: str, *, optional: bool) -> int:
    match = _NODES.fullmatch(text)
    if match:
        return int(match[1]) * UNITS[match[2].upper()] * UNITS[match[3].upper()]
    if optional and not text.strip(" \t\n\v\f\r"):
        return -1
    refuse(f'"{text[:80]}" is not a valid node count')


def limit_s(text: str) -> float:
    """Parse a time limit as seconds, rounded up to minutes as Slurm does; infinite for 0 and UNLIMITED."""
    if negative := re.fullmatch("-([0-9]{1,9})", text):  # so many days less than none, in unsigned minutes
        days = int(negative[1])
        return float((2**32 + 1 - days * 1440) * 60) if days > 1 else math.inf
    whole_s = span_s(text)
    return 60.0 * math.ceil(whole_s / 60) if 0 < whole_s < math.inf else math.inf


def span_s(text: str) -> float:
    """Parse a time such as ``30``, ``1:30`` or ``1-2:3``, minutes without a colon, as seconds."""
    if text.upper() in ("-1", "INFINITE", "UNLIMITED"):
        return math.inf
    days, dash, clock = text.rpartition("-")
    fields = [int(field or 0) for field in clock.split(":")] if re.fullmatch(r"[0-9:]*", clock) else []
    groups, colons = len(re.findall(r"[0-9]+", text)), clock.count(":")
    if not fields or not groups or colons > 2 or not re.fullmatch(r"[0-9]*", days) or (dash and not days):
        refuse(f"Invalid --time specification: {text[:80]!r}")
    if colons and groups < colons + 1 + bool(dash):
        refuse(f"Invalid --time specification: {text[:80]!r}")
    if not dash:
        fields = fields if len(fields) == 3 else [0, *fields]
    hours, minutes, seconds = [*fields, 0, 0][:3]
    return float(int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)


def switches(text: str) -> tuple[int, float]:
    """Parse the most switches of a job, and the seconds for which it waits for so few: ``1``, ``2@10:00``."""
    count, _, wait = text.partition("@")
    try:
        wait_s = span_s(wait)
    except ConfigError:  # Slurm takes any text for it
        wait_s = math.inf
    return positive("switches", count), min(wait_s, SWITCH_WAIT_S)


def segment(text: str) -> int:
    """Parse the nodes of each segment; 0 for none."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) >= _NO_VAL16:
        refuse("Invalid --segment specification")
    return int(text)


def array_tasks(text: str, size: int = 0) -> int:
    """Count the tasks of an array such as ``1-10:2,15%4``, each with an index below *size* unless that is 0."""
    tasks: set[int] = set()
    for part in filter(None, text.split(",")):
        match = _TASK_RANGE.fullmatch(part)
        first, last, step = (int(match[1]), int(match[2] or match[1]), int(match[3] or 1)) if match else (1, 0, 1)
        if last < first or step < 1 or (last - first) // step > 4_000_000:
            submission_failed("Invalid job array specification")
        if 0 < size <= last:
            submission_failed(f"Invalid job array specification: index {last} is above {size - 1} (MaxArraySize)")
        tasks.update(range(first, last + 1, step))
    return len(tasks) or 1


_BEHIND_A_RANGE = re.compile(r"\][^][,]+(?:,|\Z)")
"""Names of nodes that go on behind their last range, as gpu[1-4]-ib."""


def is_newer_value(name: str, value: str) -> bool:
    """Report whether 24.11 and newer releases take the *value* of an option that older ones refuse."""
    if name == "exclusive":
        return exclusive_mode(value) == "topo"
    if name in ("nodelist", "exclude"):
        return bool(_BEHIND_A_RANGE.search(value))
    return name == "nodes" and is_node_list(value)


def exclusive_mode(text: str) -> str:
    """Parse the value of --exclusive: exclusive, user, mcs, topo (24.11 and newer) or shared."""
    mode = _EXCLUSIVE.get(text.lower())
    if mode is None:
        refuse("Invalid --exclusive specification")
    return mode
