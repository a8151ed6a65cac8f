"""The defaults of CPUs and memory for jobs, from the fields of a partition and from slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...cluster.sbatch_defaults import JobDefaults

_AMOUNT = re.compile(r"([0-9]{1,12})")
_OF_GPUS = re.compile(r"(DefMemPerGPU|DefCpuPerGPU)=([0-9]{1,12})")


def read_defaults(fields: Mapping[str, str], config: Mapping[str, str]) -> JobDefaults:
    """Return the defaults in the *fields* of a partition, and for what these do not say those of *config*.

    A partition with a default per node has none per CPU, and the other way round (slurm.conf(5)).
    """
    by_cpu, by_node = next(
        ((cpu, node) for cpu, node in map(_memory, (fields, config)) if cpu or node),
        (0.0, 0.0),
    )
    of_gpus = dict(_OF_GPUS.findall(config.get("JobDefaults", ""))) | dict(
        _OF_GPUS.findall(fields.get("JobDefaults", ""))
    )
    return JobDefaults(by_cpu, by_node, float(of_gpus.get("DefMemPerGPU", 0)), int(of_gpus.get("DefCpuPerGPU", 0)))


def _memory(fields: Mapping[str, str]) -> tuple[float, float]:
    """Return the default memory per CPU and per node in MiB; 0 for UNLIMITED, and for a form of a newer release."""
    found = [_AMOUNT.fullmatch(fields.get(name, "")) for name in ("DefMemPerCPU", "DefMemPerNode")]
    cpu, node = (float(match[1]) if match else 0.0 for match in found)
    return cpu, node
