"""A node's record of a job, version 1 (docs/profiling.md): checked, and reduced to the stored fields."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ...cluster.records.profiles import SAMPLER, NodeProfile
from ...cluster.text.links import link_counts, links_line
from ...policies.links import GpuLinks

VERSION = 1
RECORD_B = 64 * 1024
GPUS_MOST = 64
LINKED_MOST = 32  #: GPUs of a node with links of their own between pairs
CLOCK_S = 600  #: by which the clocks of a node and of ours may differ
AGE_S = 400 * 86400  #: longer than any spool holds a record

NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
ID_MOST = 2**32 - 1

#: The figures of a GPU and the largest value that is not absurd.
_MOST = {"gpu_util": 100.0, "memory_util": 100.0, "memory_mib": 2.0**24, "power_w": 10_000.0, "processes": 100_000.0}


class BadRecord(Exception):
    """A record that is implausible or unreadable; the text says what is wrong with it."""


@dataclass(frozen=True)
class _Figure:
    """A quantity of one GPU over the samples in which a process used it."""

    count: int
    mean: float
    variance: float
    most: float


@dataclass(frozen=True)
class _Gpu:
    samples: int
    no_process: int
    unstable: bool | None
    figures: dict[str, _Figure]  #: by the name of the quantity


Record = dict[str, Any]


def read_record(payload: bytes, now_s: float) -> NodeProfile:
    """Parse *payload*; BadRecord where it is malformed, of another version, or implausible."""
    return profile_of(opened(payload), now_s)


def opened(payload: bytes) -> Record:
    """Decode *payload* as a JSON object of this version; BadRecord where it is not one."""
    if len(payload) > RECORD_B:
        raise BadRecord(f"{len(payload)} bytes; at most {RECORD_B}")
    try:
        record = json.loads(payload, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"no JSON: {error}") from error
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise BadRecord(f"not a record of version {VERSION}")
    return record


def profile_of(record: Record, now_s: float) -> NodeProfile:
    """Parse *record*; BadRecord where it is malformed or implausible."""
    node = record.get("node")
    if not isinstance(node, str) or not NODE.fullmatch(node):
        raise BadRecord("node is no name of a node")
    start_s = whole(record, "start_s", int(now_s) - AGE_S, int(now_s) + CLOCK_S)
    end_s = whole(record, "end_s", start_s, int(now_s) + CLOCK_S)
    every_s = _number(record, "every_s", 3600.0)
    if every_s < 0.01:
        raise BadRecord(f"every_s = {every_s}; accepted: 0.01 to 3600")
    listed = record.get("gpus")
    if not isinstance(listed, list) or not 1 <= len(listed) <= GPUS_MOST:
        raise BadRecord(f"gpus is no list of 1 to {GPUS_MOST}")
    # Times are whole seconds, and a sample is taken at each end.
    gpus = [_gpu(each, (end_s - start_s + 1) / every_s + 1) for each in listed]
    return NodeProfile(
        job_id=whole(record, "job_id", 1, ID_MOST),
        restart=whole(record, "restart", 0, ID_MOST),
        node=node,
        start_s=start_s,
        end_s=end_s,
        gpus=len(gpus),
        measured_s=max(gpu.samples for gpu in gpus) * every_s,
        source=SAMPLER,
        **_reduced(gpus),
        **_links(record.get("links"), len(gpus)),
        **_idle(record, len(gpus), start_s, end_s),
    )


def _idle(record: Record, gpus: int, start_s: int, end_s: int) -> dict[str, float]:
    """Return how many GPUs stood without a process at the end, and since when all of these; nothing where not told."""
    if record.get("idle_gpus") is None:
        return {}
    idle = whole(record, "idle_gpus", 0, gpus)
    span_s = whole(record, "idle_s", 0, end_s - start_s)
    return {"idle_gpus": float(idle), "idle_since_s": float(end_s - span_s) if idle else math.nan}


def _links(record: object, gpus: int) -> dict[str, float]:
    """Return the bandwidth between a job's GPUs, and between as many of its node at best; nothing without links."""
    if record is None:
        return {}
    rows = record.get("counts") if isinstance(record, dict) else None
    mine = record.get("gpus") if isinstance(record, dict) else None
    if not isinstance(rows, list) or not _are_whole(mine) or not all(map(_are_whole, rows)):
        raise BadRecord("links is no table of whole numbers with the rows of the job's GPUs")
    assert isinstance(mine, list)
    if len(rows) > LINKED_MOST or len(set(mine)) != gpus or not set(mine) <= set(range(len(rows))):
        raise BadRecord(f"links has {len(rows)} rows, at most {LINKED_MOST}, and GPUs {_shown(mine)} of {gpus}")
    try:
        links = GpuLinks.of_counts(link_counts([links_line(row) for row in rows]))
    except ValueError as error:
        raise BadRecord(f"links: {error}") from error
    best = links.best(range(len(rows)), len(mine))
    return {"link_gbps": links.mean_gbps(sorted(mine)), "best_link_gbps": links.mean_gbps(best)}


def _are_whole(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def _gpu(record: object, samples_most: float) -> _Gpu:
    if not isinstance(record, dict):
        raise BadRecord("a GPU is no JSON object")
    samples = whole(record, "samples", 0, int(samples_most))
    no_process = whole(record, "no_process", 0, samples)
    unstable = record.get("unstable")
    if unstable is not None and not isinstance(unstable, bool):
        raise BadRecord("unstable is neither true, false nor null")
    figures = {
        name: _figure(name, record[name], samples - no_process) for name in _MOST if record.get(name) is not None
    }
    return _Gpu(samples, no_process, unstable, figures)


def _figure(name: str, record: object, count_most: int) -> _Figure:
    if not isinstance(record, dict):
        raise BadRecord(f"{name} is neither null nor a JSON object")
    most = _number(record, "max", _MOST[name])
    # Means are rounded to thousandths.
    return _Figure(
        whole(record, "n", 1, count_most), _number(record, "mean", most + 0.001), _number(record, "var", most**2), most
    )


def _reduced(gpus: Sequence[_Gpu]) -> dict[str, float]:
    samples = sum(gpu.samples for gpu in gpus)
    busy = samples - sum(gpu.no_process for gpu in gpus)
    idle = samples > 0 and busy == 0
    unstable_flags = [gpu.unstable for gpu in gpus if gpu.unstable is not None]
    return {
        "process_share": busy / samples if samples else math.nan,
        "gpu_util": 0.0 if idle else _mean(gpus, "gpu_util") / 100.0,
        "gpu_util_sd": 0.0 if idle else _spread(gpus) / 100.0,
        "memory_util": 0.0 if idle else _mean(gpus, "memory_util") / 100.0,
        "memory_mib": 0.0 if idle else _sum([each.most for each in _all(gpus, "memory_mib")]),
        "power_w": _sum([each.mean for each in _all(gpus, "power_w")]),
        "unstable": float(any(unstable_flags)) if unstable_flags else math.nan,
    }


def _all(gpus: Sequence[_Gpu], name: str) -> list[_Figure]:
    return [gpu.figures[name] for gpu in gpus if name in gpu.figures]


def _mean(gpus: Sequence[_Gpu], name: str) -> float:
    figures = _all(gpus, name)
    count = sum(each.count for each in figures)
    return sum(each.mean * each.count for each in figures) / count if count else math.nan


def _spread(gpus: Sequence[_Gpu]) -> float:
    figures = _all(gpus, "gpu_util")
    count = sum(each.count for each in figures)
    return math.sqrt(sum(each.variance * each.count for each in figures) / count) if count else math.nan


def _sum(values: list[float]) -> float:
    return sum(values) if values else math.nan


def whole(record: Record, name: str, least: int, most: int) -> int:
    """Return an integer field of a record; BadRecord outside *least* to *most*."""
    value = record.get(name)
    if type(value) is not int or not least <= value <= most:
        raise BadRecord(f"{name} = {_shown(value)}; accepted: {least} to {most}")
    return value


def _number(record: dict[str, Any], name: str, most: float) -> float:
    value = record.get(name)
    if type(value) not in (int, float) or not 0 <= value <= most:  # type: ignore[operator]
        raise BadRecord(f"{name} = {_shown(value)}; accepted: 0 to {most:g}")
    return float(value)  # type: ignore[arg-type]


def _shown(value: object) -> str:
    return repr(value)[:40]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
