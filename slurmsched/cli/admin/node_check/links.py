"""Findings about the links between the GPUs of a node, and the lines of gres.conf by which Slurm chooses among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....cluster.text.gres_conf import GresConf, GresGpu, gpus_of_node
from ....cluster.text.hostlist import fold
from ....cluster.text.links import links_line
from ....slurm.checkup import Finding

PLACES = ("/etc/slurm/gres.conf", "/run/slurm/conf/gres.conf")  #: the second is that of a slurmd without files
NESTED = 8  #: depth of Include


def find_gres_conf(environ: Mapping[str, str]) -> Path | None:
    """Return the gres.conf beside the slurm.conf of the environment, else the first that is in a usual place."""
    if slurm_conf := environ.get("SLURM_CONF"):
        return Path(slurm_conf).parent / "gres.conf"
    return next((path for path in map(Path, PLACES) if path.is_file()), None)


def read_gres_conf(path: Path | None, node: str) -> GresConf:
    """Read what gres.conf has of the GPUs of *node*; nothing without a file. OSError, ValueError where it cannot be."""
    return gpus_of_node(() if path is None else _lines(path, NESTED), node)


def _lines(path: Path, nested: int) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ").splitlines():
        words = line.split()
        if len(words) == 2 and words[0].lower() == "include" and nested:
            yield from _lines(path.parent / words[1], nested - 1)
        else:
            yield line


def link_findings(gpus: Sequence[Mapping[str, Any]], conf: GresConf) -> list[Finding]:
    """Compare the links and cores of *gpus*, as the probe has them, with gres.conf."""
    counts = [links for at, gpu in enumerate(gpus) for links in gpu["links"][:at]]
    if len(set(counts)) < 2:
        each = f"each pair of GPUs has {counts[0] or 'no'} NVLinks of its own" if counts else "there is no pair of GPUs"
        return [Finding("links", True, f"{each}: any GPUs serve a job alike")]
    texts = json.dumps([links_line(gpu["links"]) for gpu in gpus])
    text = f"a pair of GPUs has {min(counts)} to {max(counts)} NVLinks; for slots share.links = {texts}"
    if conf.detected:
        return [Finding("links", True, f"{text}; AutoDetect=nvml: slurmd reads links and cores itself")]
    wrong = [finding for gpu in gpus if (finding := _of_gpu(gpu, conf)) is not None]
    if not wrong:
        return [Finding("links", True, f"{text}; gres.conf has them with the cores of each GPU")]
    remedy = "these lines for a job's GPUs to be chosen by links; then restart slurmctld and the slurmd of this node"
    return [Finding("links", None, text, remedy), *wrong]


def _of_gpu(gpu: Mapping[str, Any], conf: GresConf) -> Finding | None:
    """Return what gres.conf lacks of one GPU, or has otherwise; None where it agrees."""
    file, links = f"/dev/nvidia{gpu['minor']}", links_line(gpu["links"])
    cores = fold(map(str, gpu["cores"])).strip("[]")
    found = conf.gpus.get(file)
    name, line = f"links of {file}", (found or GresGpu()).line(file, cores, links)
    if found is None:
        return Finding(name, None, "gres.conf has no line for it", line)
    if not found.links:
        return Finding(name, None, "gres.conf has no Links= for it", line)
    if found.links != links:
        return Finding(name, False, f"gres.conf has Links={found.links}, and NVML {links}", line)
    if not found.cores:
        return Finding(name, False, "gres.conf has Links= without Cores=, which Slurm 22.05 ignores", line)
    if cores and found.cores != frozenset(gpu["cores"]):
        there = fold(map(str, sorted(found.cores))).strip("[]")
        return Finding(name, None, f"gres.conf has Cores={there}, and NVML {cores}", line)
    return None
