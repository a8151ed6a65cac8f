"""Parse Slurm's texts for GPUs, memory, time and counts, in the spellings of every release.

Each function takes one text, and raises ``ValueError`` with the text and the accepted forms where it cannot parse it.
Call them once per distinct text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None assigned"})
"""Texts that commands print for a field without a value, NO_VAL included; the functions here read the numbers."""

MOST_GPUS = 2**31 - 1
"""A number of GPUs that no cluster has: ``gpu:1g`` asks for 2^30, and no count of ours is larger than this."""

_ABSENT = frozenset(("", "n/a", "(null)", "none"))
_ENDLESS = frozenset(("unlimited", "infinite"))
_UNSET = _ABSENT | {"not_set", "invalid", "partition_limit", "unknown"}
_NOT_GENERIC = _ABSENT | {"n", "cpu", "mem", "node", "billing", "license"}
_UNITS: dict[str, int] = {unit: 1024**power for power, unit in enumerate(("", *"KMGTP"))}

_NAME = r"[A-Za-z_][\w.+-]*"
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_ITEM = re.compile(rf"(?:gres[:/])?(?P<name>{_NAME})(?P<rest>(?:[:/=][^,:=]*)*)")
_GPU = re.compile(
    r"(?::(?P<type>(?![0-9]+[KMGTP]?$)[^:=]+))?(?:[:=](?P<count>[0-9]{1,18})(?P<unit>[KMGTP]?))?", re.IGNORECASE
)
_SIGNED = re.compile(r"([:=])[ \t]*\+(?=[0-9]+(?:[:=]|$))")  #: 22.05 takes +2 for a number, and shows it so
_SLOT = re.compile(r"slot[:/]i([0-9]{1,3})(?:[:=]1)?(?=,|\(|$)")
_SLOTS = re.compile(r"(?<!\w)slot:i([0-9]{1,3}):([0-9]{1,9})(?=,|\(|$)")
_MEMORY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTP]?)B?([cn]?)", re.ASCII)
_TIME = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_COUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)(?:-[0-9]{1,15}(?:\.[0-9]{1,9})?[KMGTP]?|\+)?")


def gpus_in(gres: str) -> tuple[int, str]:
    """Return the number of GPUs in a GRES or TRES text, and the type of the first one with a type (else empty).

    Other GRES (shard, mps, slots, gpumem) do not count. A TRES text lists GPUs with a type twice,
    ``gres/gpu=4,gres/gpu:a100=4``; they count once.
    """
    requested = total = typed = 0
    first = ""
    for kind, number, is_sum in _gpu_items(gres):
        first = first or kind
        if not is_sum:
            requested += number
        elif kind:
            typed += number
        else:
            total += number
    return requested + max(total, typed), first


def gpus_by_type(gres: str) -> dict[str, int]:
    """Return the number of GPUs of each type in a GRES or TRES text; those without a type under an empty one."""
    counts: dict[str, int] = {}
    total = 0
    for kind, number, is_sum in _gpu_items(gres):
        if is_sum and not kind:
            total += number
        else:
            counts[kind] = counts.get(kind, 0) + number
    others = total - sum(counts.values())
    return counts | ({"": others} if others > 0 else {})


def _gpu_items(gres: str) -> Iterator[tuple[str, int, bool]]:
    """Yield type and number of each item of a text about GPUs, and True if it is a sum over all items (TRES)."""
    plain = _IN_BRACKETS.sub("", gres).strip()
    if plain.lower() in _ABSENT:
        return
    for item in plain.split(","):
        name, kind, number, is_sum = _gres_item(item, gres)
        if name == "gpu":
            yield kind, number, is_sum


@lru_cache(maxsize=10_000)  # the same few requests come every cycle
def slots_in(gres: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs of which a GRES text requests one slot each (docs/sharing.md), rising."""
    return tuple(sorted(int(number) for number in _SLOT.findall(gres)))


def are_slots_of(gres: str, gpus: Iterable[int]) -> bool:
    """Return True if a GRES text requests exactly one slot of each of *gpus*."""
    wanted = tuple(sorted(gpus))
    return requests_in(gres) == ("slot",) * len(wanted) and slots_in(gres) == wanted


def slots_on(gres: str) -> dict[int, int]:
    """Return the number of slots of each GPU of a node by its GRES: two where jobs share, at most one elsewhere."""
    return {int(number): int(count) for number, count in _SLOTS.findall(gres)}


def requests_in(gres: str) -> tuple[str, ...]:
    """Return the names of the generic resources that a TRES text requests, one per item."""
    names = (re.split("[:=/]", re.sub("^gres[:/]", "", item.strip()))[0] for item in gres.split(","))
    return tuple(name for name in names if name.lower() not in _NOT_GENERIC)


def last_of_each(gres: str) -> str:
    """Return a request with the last number of what it names twice, as ``--gres`` beside ``--gpus-per-node`` does."""
    items = {item.rpartition(":")[0] or item: item for item in gres.split(",")}
    return ",".join(items.values())


def memory_mib(text: str) -> float:
    """Parse memory as MiB: ``500M``, ``62.50G``, ``1T``, ``4000Mc``, ``4Gn``, or a plain number of MiB.

    The old suffix c or n (per CPU, per node) is dropped; NaN where Slurm has no value.
    """
    if text.strip().lower() in _ABSENT:
        return math.nan
    match = _MEMORY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no memory: accepted are 500M, 62.50G, 1T, 4000Mc, 4Gn or a number of MiB")
    return float(match[1]) * (_UNITS[match[2]] / _UNITS["M"] if match[2] else 1.0)


def seconds(text: str) -> float:
    """Parse a time limit or elapsed time as seconds; infinite for UNLIMITED, NaN where Slurm has no value."""
    word = text.strip().lower()
    if word in _ENDLESS:
        return math.inf
    if word in _UNSET:
        return math.nan
    match = _TIME.fullmatch(word)
    if not match:
        raise ValueError(
            f"{text!r} is no time: accepted are MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, UNLIMITED and NOT_SET"
        )
    days, *clock = match.groups()
    fields = [int(field) for field in clock if field is not None]
    # Without days the last of two fields is seconds and one field is minutes; with days the first one is hours.
    hours_first = fields if days is not None or len(fields) == 3 else [0, *fields]
    hours, minutes, secs = [*hours_first, 0, 0][:3]
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + secs)


def timelimit(limit_s: float) -> str:
    """Write *limit_s* seconds, rounded up to whole ones, as Slurm reads it; ``ValueError`` below zero."""
    if math.isnan(limit_s):
        return "NOT_SET"
    if limit_s == math.inf:
        return "UNLIMITED"
    if limit_s < 0:
        raise ValueError(f"{limit_s!r} is no time limit: accepted are 0 and more seconds, infinity and NaN")
    minutes, secs = divmod(math.ceil(limit_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{secs:02}" if days else f"{hours:02}:{minutes:02}:{secs:02}"


def count(text: str) -> int:
    """Parse a number of nodes, CPUs or tasks: ``4``, ``1.5K``, ``2-4`` (the fewest), 0 for N/A."""
    if text.strip().lower() in _ABSENT:
        return 0
    match = _COUNT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no count: accepted are 4, 1.5K, a range 2-4, and N/A")
    return round(float(match[1]) * _UNITS[match[2]])


def _gres_item(item: str, whole: str) -> tuple[str, str, int, bool]:
    """Return name, type and count of one item, and True if it is a sum over all items of its name (TRES)."""
    match = _ITEM.fullmatch(item.strip())
    rest = match["rest"].replace(":no_consume", "").replace("::", ":") if match else ""
    rest = _SIGNED.sub(r"\1", rest)
    gpu = _GPU.fullmatch(rest)
    if not match or (match["name"] == "gpu" and not gpu):
        raise ValueError(
            f"{item!r} in {whole!r} is no GRES: accepted are gpu, gpu:2, gpu:TYPE:2, gres:gpu:2, gres/gpu=2,"
            " gres/gpu:TYPE=2, other GRES, and N/A"
        )
    if match["name"] != "gpu" or not gpu:
        return match["name"], "", 0, False
    number = min(int(gpu["count"] or "1") * _UNITS[(gpu["unit"] or "").upper()], MOST_GPUS)
    return "gpu", gpu["type"] or "", number, "=" in rest
