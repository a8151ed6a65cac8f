"""Defaults of CPUs and memory as scontrol shows them of partitions and of slurm.conf."""

from __future__ import annotations

import pytest

from slurmsched.cluster.sbatch_defaults import JobDefaults
from slurmsched.slurm.read.partitions import read_limits

NO_DEFAULTS = "JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED"
OF_SLURM_CONF = {"DefMemPerCPU": "333", "JobDefaults": "DefMemPerGPU=777"}


@pytest.mark.parametrize(
    ("fields", "config", "defaults"),
    [
        (NO_DEFAULTS, {"DefMemPerNode": "UNLIMITED", "JobDefaults": "(null)"}, JobDefaults()),
        (NO_DEFAULTS, OF_SLURM_CONF, JobDefaults(333.0, 0.0, 777.0, 0)),
        ("JobDefaults=(null) DefMemPerCPU=500", OF_SLURM_CONF, JobDefaults(500.0, 0.0, 777.0, 0)),
        ("JobDefaults=DefCpuPerGPU=2 DefMemPerNode=600", OF_SLURM_CONF, JobDefaults(0.0, 600.0, 777.0, 2)),
        ("JobDefaults=DefMemPerGPU=700,DefCpuPerGPU=2", {}, JobDefaults(0.0, 0.0, 700.0, 2)),
        ("JobDefaults=DefMemPerGPU=lots DefMemPerCPU=1G", {}, JobDefaults()),
    ],
)
def test_a_partition_has_its_own_defaults_else_those_of_slurm_conf(fields, config, defaults):
    assert read_limits(f"PartitionName=gpu {fields}", config)["gpu"].defaults == defaults
