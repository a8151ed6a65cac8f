"""The use of a job's GPUs from Prometheus: one PromQL query per job, and records as samplers write them. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .profile_record import VERSION, Record

WINDOW_MOST_S = 6 * 3600  #: of a long run only so many seconds before its end are read
SAMPLES_LEAST = 5  #: of a GPU; with fewer there is no profile
BLOCK_S, BLOCKS_LEAST = 300, 4  #: the load is steady by the means of such blocks
UNSTEADY = 15.0  #: their standard deviation, in points of utilisation, as of a sampler
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")

_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_FIGURE = "slurmsched_figure"
_SLICE = "GPU_I_ID"  #: the label of a MIG slice in dcgm-exporter's metrics
_MIB = 2.0**20


class Metric(NamedTuple):
    """A metric of an exporter, and the factor to our unit: %, MiB or W."""

    name: str
    factor: float = 1.0


@dataclass(frozen=True)
class Exporter:
    """The names of an exporter's metrics; ``number`` is the label with the number of the GPU, else a metric."""

    util: Metric
    memory: Metric
    power: Metric
    memory_util: Metric | None = None
    number: str = ""
    number_metric: str = ""


EXPORTERS: Mapping[str, Exporter] = {
    "dcgm": Exporter(
        Metric("DCGM_FI_DEV_GPU_UTIL"),
        Metric("DCGM_FI_DEV_FB_USED"),
        Metric("DCGM_FI_DEV_POWER_USAGE"),
        Metric("DCGM_FI_DEV_MEM_COPY_UTIL"),
        number="gpu",
    ),
    "nvidia_gpu_exporter": Exporter(
        Metric("nvidia_smi_utilization_gpu_ratio", 100.0),
        Metric("nvidia_smi_memory_used_bytes", 1.0 / _MIB),
        Metric("nvidia_smi_power_draw_watts"),
        Metric("nvidia_smi_utilization_memory_ratio", 100.0),
        number_metric="nvidia_smi_index",
    ),
    "jobstats": Exporter(
        Metric("nvidia_gpu_duty_cycle"),
        Metric("nvidia_gpu_memory_used_bytes", 1.0 / _MIB),
        Metric("nvidia_gpu_power_usage_milliwatts", 0.001),
        number="minor_number",
    ),
}


@dataclass(frozen=True)
class Wanted:
    """The run of a job whose use is asked for."""

    job_id: int
    restart: int
    start_s: int
    end_s: int
    gpus: Mapping[str, tuple[int, ...]]  #: numbers of its GPUs by node; with a job label of no meaning
    number: int  #: of its GPUs on all nodes


@dataclass(frozen=True)
class Labels:
    """Which labels hold the node and, perhaps, the job."""

    node: str = "instance"
    job: str = ""


def query_of(wanted: Wanted, exporter: Exporter, labels: Labels) -> str:
    """Return the PromQL of all figures at the end of a run; ValueError for a node that has no name."""
    if any(not _NODE.fullmatch(node) for node in wanted.gpus):
        raise ValueError("a node without a name")
    nodes = "|".join(re.escape(node) for node in sorted(wanted.gpus))
    selector = f"{{{labels.node}=~`({nodes})([.:].*)?`" + (f",{labels.job}=`{wanted.job_id}`" if labels.job else "")
    selector += "}"
    window_s = window_of(wanted)
    span = f"[{window_s}s]"
    util, memory, power = (f"{each.name}{selector}" for each in (exporter.util, exporter.memory, exporter.power))
    parts = {
        "util_mean": f"avg_over_time({util}{span})",
        "util_max": f"max_over_time({util}{span})",
        "util_var": f"stdvar_over_time({util}{span})",
        "util_n": f"count_over_time({util}{span})",
        "memory_mib": f"max_over_time({memory}{span})",
        "power_w": f"avg_over_time({power}{span})",
    }
    if window_s >= BLOCKS_LEAST * BLOCK_S:
        parts["blocks"] = f"stddev_over_time(avg_over_time({util}[{BLOCK_S}s])[{window_s}s:{BLOCK_S}s])"
    if exporter.memory_util is not None:
        parts["memory_util"] = f"avg_over_time({exporter.memory_util.name}{selector}{span})"
    if exporter.number_metric:
        parts["number"] = f"last_over_time({exporter.number_metric}{selector}{span})"
    return " or ".join(f"label_replace({text},`{_FIGURE}`,`{name}`,``,``)" for name, text in parts.items())


def window_of(wanted: Wanted) -> int:
    """Return the seconds before the end of a run that are read."""
    return max(1, min(wanted.end_s - wanted.start_s, WINDOW_MOST_S))


def records_of(wanted: Wanted, answer: object, exporter: Exporter, labels: Labels, every_s: float) -> list[Record]:
    """Return a record for each node all of whose GPUs were measured; ValueError where *answer* is none of Prometheus.

    A GPU without enough samples, or of which the number is not known, leaves its node without a record.
    """
    by_gpu: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for identity, figures in _series(answer).items():
        about = dict(identity)
        node = _node(about.get(labels.node, ""), wanted.gpus)
        number = about.get(exporter.number, "") if exporter.number else f"{figures.get('number', math.nan):.0f}"
        if node and number.isdecimal() and len(number) < 4 and _SLICE not in about:
            by_gpu[node, int(number)].append(figures)
    if labels.job and len(by_gpu) != wanted.number:
        return []
    found = []
    for node, numbers in wanted.gpus.items():
        mine = sorted(n for at, n in by_gpu if at == node) if labels.job else numbers
        gpus = [_gpu(by_gpu[node, number], exporter, window_of(wanted)) for number in mine]
        if gpus and all(gpu is not None for gpu in gpus):
            found.append(
                {
                    "version": VERSION,
                    "job_id": wanted.job_id,
                    "restart": wanted.restart,
                    "node": node,
                    "start_s": wanted.start_s,
                    "end_s": wanted.end_s,
                    "every_s": every_s,
                    "gpus": gpus,
                }
            )
    return found


def _series(answer: object) -> dict[tuple[tuple[str, str], ...], dict[str, float]]:
    """Return the figures of each series by its other labels."""
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise ValueError("no answer of Prometheus")
    data = answer.get("data")
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise ValueError("no answer of Prometheus")
    found: dict[tuple[tuple[str, str], ...], dict[str, float]] = defaultdict(dict)
    for identity, figure, value in _rows(rows):
        found[identity][figure] = value
    return found


def _rows(rows: list[Any]) -> Iterator[tuple[tuple[tuple[str, str], ...], str, float]]:
    for row in rows:
        metric = row.get("metric") if isinstance(row, dict) else None
        value = row.get("value") if isinstance(row, dict) else None
        if not isinstance(metric, dict) or not isinstance(value, list) or len(value) != 2:
            raise ValueError("no answer of Prometheus")
        if not all(isinstance(text, str) for text in metric.values()):
            raise ValueError("no answer of Prometheus")
        number = float(value[1]) if isinstance(value[1], str) else math.nan
        if math.isfinite(number):
            about = tuple(sorted((name, text) for name, text in metric.items() if name not in (_FIGURE, "__name__")))
            yield about, metric.get(_FIGURE, ""), number


def _node(text: str, nodes: Mapping[str, object]) -> str:
    """Return the one of *nodes* that a label such as n1, n1:9400 or n1.example.org:9400 names."""
    host = text.rpartition(":")[0] if ":" in text else text
    return next((name for name in (host, host.partition(".")[0]) if name in nodes), "")


def _gpu(series: list[dict[str, float]], exporter: Exporter, window_s: int) -> Record | None:
    """Return the part of a record for one GPU; several series are one after the other, as labels changed."""
    counted = [each for each in series if each.get("util_n", 0.0) >= 1.0 and "util_mean" in each]
    count = sum(int(each["util_n"]) for each in counted)
    if count < SAMPLES_LEAST:
        return None

    def mean(name: str) -> float | None:
        known = [(each[name], each["util_n"]) for each in counted if name in each]
        return sum(value * n for value, n in known) / sum(n for _, n in known) if known else None

    def figure(value: float | None, most: float | None, factor: float, variance: float = 0.0) -> Record | None:
        if value is None or most is None or value < 0.0:
            return None
        return {"n": count, "mean": value * factor, "var": variance * factor**2, "max": max(value, most) * factor}

    util, blocks = exporter.util.factor, mean("blocks")
    memory = max((each["memory_mib"] for each in counted if "memory_mib" in each), default=None)
    steady = None if blocks is None or window_s < BLOCKS_LEAST * BLOCK_S else bool(blocks * util > UNSTEADY)
    most = max(each.get("util_max", each["util_mean"]) for each in counted)
    power = mean("power_w")
    return {
        "samples": count,
        "no_process": 0,
        "unstable": steady,
        "gpu_util": figure(mean("util_mean"), most, util, max(0.0, mean("util_var") or 0.0)),
        "memory_util": figure(
            m := mean("memory_util"), m, exporter.memory_util.factor if exporter.memory_util else 1.0
        ),
        "memory_mib": figure(memory, memory, exporter.memory.factor),
        "power_w": figure(power, power, exporter.power.factor),
    }
