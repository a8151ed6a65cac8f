"""The lines of gres.conf about the GPUs of one node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .hostlist import expand

_PAIR = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')


@dataclass(frozen=True)
class GresGpu:
    """What gres.conf says of one GPU; empty where it says nothing."""

    node_name: str = ""
    kind: str = ""  #: its Type=
    cores: frozenset[int] = frozenset()
    links: str = ""

    def line(self, file: str, cores: str, links: str) -> str:
        """Return the line of the GPU with this device *file*, with these *cores* and *links*."""
        head = f"NodeName={self.node_name} Name=gpu" if self.node_name else "Name=gpu"
        kind = f" Type={self.kind}" if self.kind else ""
        return f"{head}{kind} File={file}{f' Cores={cores}' if cores else ''} Links={links}"


@dataclass(frozen=True)
class GresConf:
    """The GPUs of one node by their device files; *detected* where slurmd asks NVML for links and cores itself."""

    gpus: dict[str, GresGpu]
    detected: bool = False


def gpus_of_node(lines: Iterable[str], node: str) -> GresConf:
    """Parse the *lines* of gres.conf that are about *node*; ValueError at a list that is none."""
    gpus: dict[str, GresGpu] = {}
    detected = False
    for line in lines:
        pairs = {key.lower(): quoted or plain for key, quoted, plain in _PAIR.findall(line.partition("#")[0])}
        if "nodename" in pairs and node not in expand(pairs["nodename"]):
            continue
        if "autodetect" in pairs:
            detected = pairs["autodetect"].lower() == "nvml"
        if pairs.get("name", "").lower() != "gpu" or "file" not in pairs:
            continue
        cores = frozenset(map(int, expand(f"[{text}]"))) if (text := _cores(pairs)) else frozenset[int]()
        gpu = GresGpu(pairs.get("nodename", ""), pairs.get("type", ""), cores, pairs.get("links", ""))
        gpus |= dict.fromkeys(expand(pairs["file"]), gpu)
    return GresConf(gpus, detected)


def _cores(pairs: dict[str, str]) -> str:
    return pairs.get("cores", pairs.get("cpus", "")).strip("[]")
