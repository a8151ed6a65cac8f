"""A hypothetical job from the options of sbatch(1) that matter to a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import tzinfo

from ..errors import CommentError, ConfigError
from .jobs import JobTable, job_table
from .text.comment import parse
from .text.sbatch import features
from .text.tres import gpus_in, memory_mib, seconds

PROBE_ID = 2**32
"""The id of a hypothetical job, higher than any id of Slurm."""

_COUNTED = re.compile(r"([^:,=]+:)?[1-9][0-9]*")


def probe(options: Mapping[str, str], user: str, now_s: float, zone: tzinfo, partitions: tuple[str, ...]) -> JobTable:
    """Return a table of the one job that *options* would submit now; ConfigError or CommentError for bad options."""
    partition = options.get("partition", partitions[0] if len(partitions) == 1 else "")
    if unknown := set(partition.split(",")) - set(partitions):
        raise ConfigError(f"partition {min(unknown)!r}: say -p and one of {', '.join(partitions)}")
    comment = options.get("comment", "")
    wishes = parse(comment)
    deadline_s = math.inf if wishes.deadline is None else wishes.deadline.resolve(now_s, zone)
    if deadline_s <= now_s:
        raise CommentError(f"the deadline {wishes.deadline} has passed")
    nodes = _number(options, "nodes")
    if "ntasks" in options:
        nodes = min(nodes, _number(options, "ntasks"))  # sbatch takes no more nodes than there are tasks
    gpus, kind = _gpus(options, nodes)
    times = {name: [now_s] for name in ("submitted_s", "first_submit_s", "eligible_s")}
    return job_table(
        1,
        job_id=[PROBE_ID],
        array_job_id=[PROBE_ID if "array" in options else 0],
        name=[options.get("job-name", "sbatch")],
        user=[user],
        account=[options.get("account", "")],
        qos=[options.get("qos", "")],
        partition=[partition],
        reason=["Priority"],
        gpus=[gpus],
        gpu_type=[kind],
        nodes=[nodes],
        most_nodes=[_most_nodes(options)],
        ntasks=[_tasks(options, nodes)],
        cpus=[_cpus(options, nodes, gpus)],
        memory_mib=[_memory_mib(options, nodes, gpus)],
        features=[features(options)],
        node_memory_mib=[_option_mib(options, "mem")],
        cpu_memory_mib=[_option_mib(options, "mem-per-cpu")],
        per_node=[_gres(options)],
        per_job=["gpus" in options],
        per_task=["gpus-per-task" in options],
        required_nodes=[options.get("nodelist", "")],
        excluded_nodes=[options.get("exclude", "")],
        exclusive=["exclusive" in options],
        time_limit_s=[_limit_s(options)],
        comment=[comment],
        deadline_s=[deadline_s],
        **times,
    )


def _gpus(options: Mapping[str, str], nodes: int) -> tuple[int, str]:
    try:
        if "gres" in options:
            gpus, kind = gpus_in(options["gres"])
            return gpus * nodes, kind
        for name, times in (("gpus", 1), ("gpus-per-node", nodes), ("gpus-per-task", _number(options, "ntasks"))):
            if name in options:
                if not _COUNTED.fullmatch(options[name]):
                    raise ConfigError(f"--{name}={options[name][:80]!r}: accepted are a number such as 4, and TYPE:4")
                gpus, kind = gpus_in(f"gpu:{options[name]}")
                return gpus * times, kind
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return 0, ""


def _most_nodes(options: Mapping[str, str]) -> int:
    """Return the upper bound of ``--nodes``; 0 without the option."""
    if "nodes" not in options:
        return 0
    most = options["nodes"].rpartition("-")[2]
    return int(most) if most.isdecimal() else 0


def _tasks(options: Mapping[str, str], nodes: int) -> int:
    tasks = nodes * _number(options, "ntasks-per-node") if "ntasks-per-node" in options else _number(options, "ntasks")
    return max(nodes, tasks)


def _gres(options: Mapping[str, str]) -> str:
    """Return the generic resources asked for, by job or by node, as squeue writes them."""
    return next(
        (
            options[name] if name == "gres" else f"gpu:{options[name]}"
            for name in ("gres", "gpus", "gpus-per-node")
            if name in options
        ),
        "",
    )


def _option_mib(options: Mapping[str, str], name: str) -> float:
    try:
        mib = memory_mib(options.get(name, ""))
    except ValueError as error:
        raise ConfigError(f"--{name}: {error}") from error
    return 0.0 if math.isnan(mib) else mib


def _cpus(options: Mapping[str, str], nodes: int, gpus: int) -> int:
    if "cpus-per-gpu" in options:
        return gpus * _number(options, "cpus-per-gpu")
    return _tasks(options, nodes) * _number(options, "cpus-per-task")


def _memory_mib(options: Mapping[str, str], nodes: int, gpus: int) -> float:
    """Return the memory over all nodes; 0 without an option, which means the partition's default."""
    cpus = _cpus(options, nodes, gpus)
    for name, times in (("mem", nodes), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        if name in options:
            try:
                each = memory_mib(options[name])
            except ValueError as error:
                raise ConfigError(f"--{name}: {error}") from error
            return 0.0 if math.isnan(each) else times * each
    return 0.0


def _number(options: Mapping[str, str], name: str) -> int:
    """Return the lower bound of a count such as ``2`` or ``2-4``."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})(?:-[0-9]{1,6})?", options.get(name, "1"))
    if not match:
        raise ConfigError(f"--{name}={options[name]!r}: accepted are a number such as 2, and a range such as 2-4")
    return int(match[1])


def _limit_s(options: Mapping[str, str]) -> float:
    try:
        limit_s = seconds(options.get("time", ""))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return math.inf if math.isnan(limit_s) or limit_s == 0 else limit_s
