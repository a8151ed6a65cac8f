"""A cluster described in a TOML file: nodes of several kinds, partitions, QOS."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster.columns import Labels, table_of
from ..cluster.nodes import NodeTable, PartitionTable, QosTable
from ..cluster.reservations import MAGNETIC, MAINT, ReservationTable
from ..cluster.text.hostlist import expand, fold
from ..cluster.text.links import link_counts
from ..cluster.text.tres import seconds
from ..cluster.topology import FLAT, Topology, Unit
from ..errors import ConfigError
from ..policies.links import GpuLinks
from .cluster_spec import PLENTY, ClusterSpec, Failures, Sharing, nodes_of
from .toml_file import checked, read_toml

_MIB_PER_GIB = 1024
_MOST = 100_000  #: nodes
_NODES = {
    "count": int,
    "gpus": int,
    "gpu_type": str,
    "cpus": int,
    "memory_gib": float,
    "load": float,
    "features": list,
    "partitions": list,
    "links": dict,
    "block": int,
}
_LINKS = {"counts": list, "link_gbps": float, "other_gbps": float}
_PARTITION = {"name": str, "tier": int, "max_time": str}
_QOS = {"name": str, "priority": int}
_ACCOUNT = {"name": str, "gpus": int}
_PAIR = ("first", "second", "first_speed", "second_speed")
_RESERVATION = {
    "name": str,
    "start": str,
    "duration": str,
    "nodes": str,
    "repeat": str,
    "times": int,
    "users": list,
    "accounts": list,
}
_REPEATS_S = {"daily": 86_400.0, "weekly": 7 * 86_400.0}
_MOST_TIMES = 1000  #: of a window that repeats
_FAILURES = {"mtbf": str, "repair": str, "seed": int}


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster file.

    It has ``[[nodes]]``, with ``[nodes.links]`` where the links between their GPUs are known, and optionally
    ``[[partitions]]``, ``[[qos]]``, ``[[accounts]]``, ``[[reservations]]``, ``[failures]``, ``[spread]`` and
    ``[sharing]``.

    A kind of nodes is in the partitions that it names, or else in all. CPUs and memory that are not given are
    unlimited. A load is that of other processes than jobs, all the time. With ``block`` the nodes of a kind are in
    blocks of so many, in their order. ConfigError names the file, the table, the key and what is accepted.
    """
    tables = {
        "nodes": list,
        "partitions": list,
        "qos": list,
        "accounts": list,
        "reservations": list,
        "spread": dict,
        "failures": dict,
        "sharing": dict,
    }
    document = read_toml(path, tables)
    kinds = _tables(path, document, "nodes", _NODES)
    partitions = _named(path, _tables(path, document, "partitions", _PARTITION), "partitions")
    qos = _named(path, _tables(path, document, "qos", _QOS), "qos")
    accounts = _named(path, _tables(path, document, "accounts", _ACCOUNT), "accounts")
    for name, account in accounts.items():
        if account.get("gpus", -1) < 0:
            raise ConfigError(f"{path}: [[accounts]] {name}: gpus must be there, a whole number from 0 on")
    for number, kind in enumerate(kinds, start=1):
        _check_kind(f"{path}: [[nodes]] {number}", kind, partitions)
    counts = [kind.get("count", 1) for kind in kinds]
    if not 0 < sum(counts) <= _MOST:
        raise ConfigError(f"{path}: [[nodes]] make no nodes, or more than {_MOST}")
    if any("load" in kind for kind in kinds) and not all({"cpus", "memory_gib"} <= set(kind) for kind in kinds):
        raise ConfigError(f"{path}: load goes with cpus and memory_gib of all [[nodes]]")
    nodes = _nodes(kinds, list(partitions))
    if not nodes.gpus.any():
        raise ConfigError(f"{path}: no [[nodes]] have gpus")
    links = [_links(f"{path}: [[nodes]] {number}", kind) for number, kind in enumerate(kinds, start=1)]
    most = {name: account["gpus"] for name, account in accounts.items()}
    return ClusterSpec(
        nodes,
        _partitions(path, partitions, nodes),
        _qos(qos),
        most,
        **_speeds(path, document.get("spread", {})),
        failures=_failures(path, document.get("failures")),
        links=tuple(chain.from_iterable(map(repeat, links, counts))) if any(links) else (),
        sharing=_sharing(path, document.get("sharing")),
        topology=_blocks(path, kinds, list(nodes.name)),
        binds=True,
        shared=_shared(path, document.get("sharing", {}), partitions),
        planned=_reservations(path, _tables(path, document, "reservations", _RESERVATION), nodes),
    )


def _reservations(path: str | Path, tables: list[dict[str, Any]], nodes: NodeTable) -> ReservationTable:
    """Return the windows of reservations, in seconds after the first submission."""
    named = _named(path, tables, "reservations")
    windows: list[tuple[str, float, float, str, str, str]] = []
    for name, table in named.items():
        where = f"{path}: [[reservations]] {name}"
        try:
            start_s, lasts_s = seconds(table["start"]), seconds(table["duration"])
            on = set(expand(table["nodes"])) if "nodes" in table else set(nodes.name)
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"{where} must have start and duration, as in 2-08:00:00, and nodes that exist"
            ) from error
        if missing := sorted(on - set(nodes.name)):
            raise ConfigError(f"{where}: nodes has {missing[0]!r}; there are: {fold(nodes.name)}")
        repeat, times = table.get("repeat", ""), table.get("times", 1)
        if repeat and repeat not in _REPEATS_S:
            raise ConfigError(f"{where}: repeat = {repeat!r}: accepted are {', '.join(_REPEATS_S)}")
        if not (0 <= start_s < math.inf and 0 < lasts_s < math.inf and 1 <= times <= _MOST_TIMES):
            most = f"times from 1 to {_MOST_TIMES}"
            raise ConfigError(f"{where}: accepted are a start from 0 on, a finite duration above 0 and {most}")
        who = ",".join(table.get("users", [])), ",".join(table.get("accounts", []))
        for number in range(times if repeat else 1):
            begin_s = start_s + number * _REPEATS_S.get(repeat, 0.0)
            windows.append((name, begin_s, begin_s + lasts_s, fold(sorted(on)), *who))
    columns = [list(column) for column in zip(*windows, strict=True)] or [[] for _ in range(6)]
    texts = dict(zip(("name", "start_s", "end_s", "nodes", "users", "accounts"), columns, strict=True))
    flags = [MAGNETIC if users or accounts else MAINT for users, accounts in zip(*columns[4:], strict=True)]
    return table_of(ReservationTable, len(windows), {"whole": True}, {**texts, "flags": flags})


def _blocks(path: str | Path, kinds: list[dict[str, Any]], names: list[str]) -> Topology:
    """Return the blocks of the nodes of all kinds; none where the file has none."""
    sizes = {kind.get("block", 0) for kind in kinds}
    if sizes == {0}:
        return FLAT
    if len(sizes) > 1 or min(sizes) < 1:
        raise ConfigError(f"{path}: block is a number of nodes from 1 on, the same in all [[nodes]]")
    units: list[Unit] = []
    size, first = sizes.pop(), 0
    for kind in kinds:
        last = first + kind.get("count", 1)
        starts = range(first, last, size)
        units += [
            Unit(f"b{len(units) + at + 1}", tuple(names[start : min(start + size, last)]), size)
            for at, start in enumerate(starts)
        ]
        first = last
    return Topology("block", (tuple(units),))


def _links(where: str, kind: dict[str, Any]) -> GpuLinks | None:
    """Return the links between the GPUs of a kind of nodes; None where the file has none."""
    if "links" not in kind:
        return None
    where, gpus = f"{where}: [nodes.links]", kind.get("gpus", 0)
    table = checked(where, kind["links"], _LINKS)
    try:
        counts = link_counts(table["counts"])
        link_gbps, other_gbps = table["link_gbps"], table["other_gbps"]
    except KeyError as error:
        raise ConfigError(f"{where} must have counts, link_gbps and other_gbps; {error} is missing") from error
    except ValueError as error:
        raise ConfigError(f"{where} counts: {error}") from error
    if len(counts) != gpus:
        raise ConfigError(f"{where} counts: {len(counts)} lines for {gpus} GPUs")
    if not (0 < link_gbps < math.inf and 0 < other_gbps < math.inf):
        raise ConfigError(f"{where} link_gbps and other_gbps must be above 0 and finite")
    return GpuLinks.of_counts(counts, link_gbps, other_gbps)


def _shared(path: str | Path, entries: dict[str, Any], partitions: Collection[str]) -> str:
    """Return the partition whose nodes have slots of their GPUs; empty for none."""
    name = str(entries.get("partition", ""))
    if name and name not in partitions:
        raise ConfigError(f"{path}: [sharing] partition = {name!r} is none of the [[partitions]]")
    return name


def _sharing(path: str | Path, entries: dict[str, Any] | None) -> Sharing | None:
    """Read pairs of job names with the speed of each beside the other, from the file that the table names."""
    if entries is None:
        return None
    table = checked(f"{path}: [sharing]", entries, {"pairs": str, "partition": str})
    if "pairs" not in table:
        raise ConfigError(f"{path}: [sharing] must have pairs, the name of a CSV file")
    pairs = Path(path).parent / table["pairs"]
    try:
        rows = list(csv.DictReader(pairs.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: [sharing] pairs = {table['pairs']!r} cannot be read: {error}") from error
    names = tuple(dict.fromkeys(name for row in rows for name in (row.get("first") or "", row.get("second") or "")))
    at = {name: row for row, name in enumerate(names)}
    speeds = np.zeros((len(names), len(names)))
    for line, row in enumerate(rows, start=2):
        try:
            first, second = at[row["first"]], at[row["second"]]
            speeds[first, second], speeds[second, first] = float(row["first_speed"]), float(row["second_speed"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{pairs}, line {line}: accepted are columns {', '.join(_PAIR)}") from error
    if not ((speeds >= 0) & (speeds <= 1)).all():
        raise ConfigError(f"{pairs}: speeds are 0 to 1, what a job keeps of its speed alone")
    return Sharing(names, speeds)


def _speeds(path: str | Path, entries: dict[str, Any]) -> dict[str, Any]:
    """Return the speeds of jobs on more nodes than they need: of those declared sensitive, and of programs."""
    where = f"{path}: [spread]"
    table = checked(where, entries, {"speeds": tuple, "programs": dict})
    programs = table.get("programs", {})
    programs = checked(f"{where} programs", programs, dict.fromkeys(programs, tuple))
    of_programs = {name: _falling(f"{where} programs.{name}", speeds) for name, speeds in programs.items()}
    return {"speeds": _falling(f"{where} speeds", table.get("speeds", [1.0])), "program_speeds": of_programs}


def _falling(where: str, speeds: Sequence[float]) -> tuple[float, ...]:
    """Return the speeds on 0, 1, ... nodes more than needed as numbers."""
    if not speeds or not all(0 < speed <= 1 for speed in speeds):
        raise ConfigError(f"{where} = {speeds}: accepted are numbers above 0 up to 1, such as [1, 0.9, 0.8]")
    return tuple(map(float, speeds))


def _failures(path: str | Path, entries: dict[str, Any] | None) -> Failures | None:
    if entries is None:
        return None
    table = checked(f"{path}: [failures]", entries, _FAILURES)
    try:
        mtbf_s, repair_s = seconds(table["mtbf"]), seconds(table["repair"])
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{path}: [failures] must have mtbf and repair, as in 30-00:00:00: {error}") from error
    if not (0 < mtbf_s < math.inf and 0 < repair_s < math.inf):
        raise ConfigError(f"{path}: [failures] mtbf and repair must be above 0 and finite")
    return Failures(mtbf_s, repair_s, table.get("seed", 0))


def _tables(
    path: str | Path, document: dict[str, Any], heading: str, accepted: dict[str, type]
) -> list[dict[str, Any]]:
    entries = document.get(heading, [])
    return [
        checked(f"{path}: [[{heading}]] {number}", table, accepted) for number, table in enumerate(entries, start=1)
    ]


def _named(path: str | Path, tables: list[dict[str, Any]], heading: str) -> dict[str, dict[str, Any]]:
    """Return the tables by name; ConfigError unless each has a name of its own."""
    found: dict[str, dict[str, Any]] = {}
    for number, table in enumerate(tables, start=1):
        name = table.get("name", "")
        if not name or "," in name or name in found:
            raise ConfigError(f"{path}: [[{heading}]] {number}: name = {name!r}: accepted is a name of its own")
        found[name] = table
    return found


def _check_kind(where: str, kind: dict[str, Any], partitions: dict[str, dict[str, Any]]) -> None:
    for key, least in (("count", 1), ("gpus", 0), ("cpus", 1)):
        if kind.get(key, least) < least:
            raise ConfigError(f"{where}: {key} = {kind[key]}: accepted are whole numbers from {least} on")
    if not 0 <= kind.get("load", 0.0) < math.inf:
        raise ConfigError(f"{where}: load = {kind['load']}: accepted are numbers from 0 on")
    if not kind.get("memory_gib", 1.0) > 0:
        raise ConfigError(f"{where}: memory_gib = {kind['memory_gib']}: accepted are numbers above 0")
    for name in kind.get("partitions", []):
        if name not in partitions:
            existing = ", ".join(partitions) or "none"
            raise ConfigError(f"{where}: partition {name!r} has no [[partitions]] table; there are: {existing}")


def _nodes(kinds: list[dict[str, Any]], partitions: list[str]) -> NodeTable:
    counts = [kind.get("count", 1) for kind in kinds]

    def numbers(value: Callable[[dict[str, Any]], float]) -> Any:
        return np.repeat([value(kind) for kind in kinds], counts)

    def texts(value: Callable[[dict[str, Any]], str]) -> Labels:
        each = Labels.of(value(kind) for kind in kinds)
        return Labels(np.repeat(each.codes, counts), each.names)

    nodes = nodes_of(
        sum(counts),
        0,
        cpus=numbers(lambda kind: kind.get("cpus", PLENTY)),
        memory_mib=numbers(lambda kind: kind.get("memory_gib", math.inf) * _MIB_PER_GIB),
        gpu_type=texts(lambda kind: kind.get("gpu_type", "")),
        features=texts(lambda kind: ",".join(kind.get("features", []))),
        partitions=texts(lambda kind: ",".join(kind.get("partitions", partitions))),
    )
    nodes = replace(nodes, gpus=numbers(lambda kind: kind.get("gpus", 0)))
    if not any("load" in kind for kind in kinds):
        return nodes
    return replace(nodes, cpu_load=numbers(lambda kind: kind.get("load", 0.0)), free_memory_mib=nodes.memory_mib.copy())


def _partitions(path: str | Path, partitions: dict[str, dict[str, Any]], nodes: NodeTable) -> PartitionTable:
    member = [frozenset(text.split(",")) for text in nodes.partitions.names]
    lists = []
    for name in partitions:
        inside = nodes.partitions.map([name in names for names in member], np.bool_)
        lists.append(fold(nodes.name.take(np.flatnonzero(inside))))
    try:
        longest_s = [seconds(table.get("max_time", "UNLIMITED")) for table in partitions.values()]
    except ValueError as error:
        raise ConfigError(f"{path}: [[partitions]] max_time: {error}") from error
    columns: dict[str, object] = {
        "name": list(partitions),
        "tier": [table.get("tier", 1) for table in partitions.values()],
        "max_time_s": np.nan_to_num(longest_s, nan=np.inf, posinf=np.inf),
        "nodes": lists,
    }
    return table_of(PartitionTable, len(partitions), {"up": True, "default_time_s": np.nan}, columns)


def _qos(qos: dict[str, dict[str, Any]]) -> QosTable:
    columns: dict[str, object] = {
        "name": list(qos),
        "priority": [table.get("priority", 0) for table in qos.values()],
    }
    return table_of(QosTable, len(qos), {}, columns)
