"""What nodes keep for themselves, and what they are made of, from ``scontrol show node``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...cluster.nodes import NodeTable

_NAME = re.compile(r"NodeName=(\S+)")
_STATE = re.compile(r"\sState=([A-Z]+)")
_NUMBERS = re.compile(r"\b(CPUEfctv|MemSpecLimit|Sockets|CoresPerSocket|ThreadsPerCore|TmpDisk)=([0-9]{1,12})(?=\s|$)")


_PARTS = ("sockets", "cores", "threads")


class NodeSpec(NamedTuple):
    """The CPUs of a node that jobs may have, the memory that they may not, and its parts; 0 for one not shown."""

    cpus: int | None  #: None where a release does not say it
    kept_mib: int
    sockets: int = 0
    cores: int = 0  #: of each socket
    threads: int = 0  #: of each core
    disk_mib: float = 0.0  #: for temporary files


def read_specs(text: str) -> dict[str, NodeSpec]:
    """Return the spec of each node in the output of ``scontrol --oneliner show node``.

    CPUEfctv is without the CPUs of CoreSpecCount and CPUSpecList; both numbers stand before what an admin wrote.
    """
    found = {}
    for line in text.splitlines():
        if name := _NAME.match(line):
            numbers: dict[str, int] = {}
            for key, number in _NUMBERS.findall(line):
                numbers.setdefault(key, int(number))
            sockets, cores, threads = (numbers.get(key, 0) for key in ("Sockets", "CoresPerSocket", "ThreadsPerCore"))
            kept_mib, disk_mib = numbers.get("MemSpecLimit", 0), float(numbers.get("TmpDisk", 0))
            found[name[1]] = NodeSpec(numbers.get("CPUEfctv"), kept_mib, sockets, cores, threads, disk_mib)
    return found


def future_nodes(text: str) -> frozenset[str]:
    """Return the nodes in the same output (with ``--future``) that jobs do not get before an admin defines them."""
    names = ((_NAME.match(line), _STATE.search(line)) for line in text.splitlines())
    return frozenset(name[1] for name, state in names if name and state and state[1] == "FUTURE")


def with_specs(nodes: NodeTable, specs: Mapping[str, NodeSpec]) -> NodeTable:
    """Return *nodes* with the CPUs and the memory that jobs may have there, and with their parts."""
    if not specs:
        return nodes
    own = [specs.get(name, NodeSpec(None, 0)) for name in nodes.name]
    effective = [
        all_cpus if one.cpus is None else min(one.cpus, all_cpus)
        for one, all_cpus in zip(own, nodes.cpus.tolist(), strict=True)
    ]
    kept_mib = np.array([one.kept_mib for one in own], dtype=np.float64)
    return nodes.changed(
        cpus=np.array(effective, dtype=np.int64),
        memory_mib=np.maximum(nodes.memory_mib - kept_mib, 0.0),
        **{name: np.array([getattr(one, name) for one in own], dtype=np.int64) for name in _PARTS},
        disk_mib=np.array([one.disk_mib for one in own], dtype=np.float64),
    )
