"""Options of sbatch that only some nodes meet: their sockets, cores and threads, their disk, GRES beside GPUs.

Slurm refuses a job that no nodes, or too few of them, ever meet (sbatch(1), tests on a lab).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from .columns import BoolArray
from .nodes import NodeTable
from .sbatch_request import SbatchRequest
from .text.constraint import constraint_of
from .text.sbatch_values import mebibytes

_PARTS = {"sockets-per-node": "sockets", "cores-per-socket": "cores", "threads-per-core": "threads"}
_GPUS = ("gpus", "gres", "gpus-per-node", "gpus-per-task")
_NOT_AVAILABLE = "Requested node configuration is not available"


def unmet(
    options: Mapping[str, str], request: SbatchRequest, nodes: NodeTable, allowed: BoolArray
) -> tuple[BoolArray, str]:
    """Select the *allowed* nodes that lack what *options* ask for, and say what it is where too few are left."""
    left, why = allowed.copy(), ""
    for meets, words in _demands(options, request, nodes):
        left &= meets
        if not why and int(left.sum()) < min(request.nodes, int(allowed.sum())):
            why = f"{_NOT_AVAILABLE}: too few nodes have {words}"
    return allowed & ~left, why


def uncounted(options: Mapping[str, str], request: SbatchRequest, nodes: NodeTable) -> Iterator[str]:
    """Yield the same options, and those for GPUs, with what of them an answer leaves out; *nodes* it may have."""
    for kind in request.other_gres:
        yield f"--gres={_written(*kind)} (how much of it is in use is not read)"
    for name in ("sockets-per-node", "threads-per-core"):
        has = getattr(nodes, _PARTS[name])
        if options.get(name, "1") != "1" or (name in options and (has > 1).any()):
            yield f"--{name}={options[name]} (which CPUs come with it)"
    yield from _memory_by_gpu(options, request, nodes)
    numbers = [sum(many for _, many in choice.some) for choice in constraint_of(options.get("constraint", "")).choices]
    if max(numbers) > request.nodes:
        yield f"--constraint={options['constraint']} (numbers of nodes that are more than it asks for)"
    named = [name for name in _GPUS if name in options and ("gpu" in options[name] or name != "gres")]
    for of_type, gpus in request.gpus.items() if len(named) > 1 else ():
        each = request.gpus_per_node.get(of_type, 0)
        if each and gpus > each * int((nodes.gpus_of(of_type) >= each).sum()):
            yield f"--{named[0]} beside --{named[1]} (more nodes with {each} GPUs than there are)"
    for of_type, gpus in request.gpus.items() if "gpus-per-task" in options else ():
        each, there = gpus // request.tasks, nodes.gpus_of(of_type)
        if each and gpus <= there.sum() and int((there // each).sum()) < request.tasks:
            yield f"--gpus-per-task={options['gpus-per-task']} (more tasks than nodes have so many GPUs for)"
    if 0 < request.cpus_per_gpu * request.all_gpus < request.tasks:
        yield f"--cpus-per-gpu={options['cpus-per-gpu']} (fewer CPUs than tasks)"
    if "tmp" in options and mebibytes("tmp", options["tmp"]) and (nodes.sockets == 0).any():
        yield f"--tmp={options['tmp']} (how large the disks of nodes are is not read)"


def _memory_by_gpu(options: Mapping[str, str], request: SbatchRequest, nodes: NodeTable) -> Iterator[str]:
    """Yield memory by GPU where Slurm counts it by rules of its own."""
    own = "mem-per-gpu" in options
    each_mib = float(mebibytes("mem-per-gpu", options["mem-per-gpu"])) if own else request.gpu_memory_mib
    words = f"--mem-per-gpu={options['mem-per-gpu']}" if own else "DefMemPerGPU"
    if own and nodes.gpu_types.nonempty().any():
        yield f"{words} (on nodes with several types of GPUs)"
    elif each_mib and ("gpus" in options or "gpus-per-task" in options):
        with_memory = np.minimum(nodes.gpus, nodes.memory_mib // each_mib)
        if (with_memory < nodes.gpus).any() and with_memory.max(initial=0) < request.all_gpus:
            yield f"{words} (on nodes without so much memory for all their GPUs)"


def _demands(options: Mapping[str, str], request: SbatchRequest, nodes: NodeTable) -> Iterator[tuple[BoolArray, str]]:
    """Yield the nodes that meet one option after the other; those of which nothing is known meet all."""
    for name, least in _parts(options).items():
        has = getattr(nodes, _PARTS[name])
        yield (has == 0) | (has >= least), f"--{name}={least}"
    if "tmp" in options:
        disk_mib = mebibytes("tmp", options["tmp"])
        yield (nodes.sockets == 0) | (nodes.disk_mib >= disk_mib), f"{disk_mib} MiB for temporary files (--tmp)"
    for name, kind, many in request.other_gres:
        amounts = [_amount(text, name, kind) for text in nodes.other_gres.names]
        yield nodes.other_gres.map(amounts, np.int64) >= many, f"--gres={_written(name, kind, many)}"


def _parts(options: Mapping[str, str]) -> dict[str, int]:
    """Return the least sockets, cores and threads; of --extra-node-info, too, of which a part may be any (*)."""
    texts = dict(zip(_PARTS, options.get("extra-node-info", "").split(":"), strict=False))
    texts |= {name: options[name] for name in _PARTS if name in options}
    return {name: int(text) for name, text in texts.items() if re.fullmatch(r"[0-9]{1,9}", text)}


def _amount(text: str, name: str, kind: str) -> int:
    """Return how much of a GRES there is in *text*, bw=10+tape:lto=2; of all types for none."""
    pairs = (item.rpartition("=") for item in text.split("+") if item)
    return sum(
        int(many) for what, _, many in pairs if what == f"{name}:{kind}" or (not kind and what.split(":")[0] == name)
    )


def _written(name: str, kind: str, many: int) -> str:
    return ":".join(filter(None, (name, kind, str(many))))
