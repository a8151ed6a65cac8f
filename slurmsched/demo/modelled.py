"""The lab of the demo, modelled: the same nodes, the same slurm.conf, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..cluster.columns import FloatArray, Labels
from ..lab.conf import slurm_conf
from ..lab.layout import Layout
from ..lab.spec import LabSpec
from ..simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from ..simulator.simulated_cluster import SimulatedCluster
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.workload.workload import Workload, workload
from .lab_burst import BUSY_S, OPERATOR, spec_of
from .workload import USERS, Submission

PARTITION = "gpu"


def lab_model(
    jobs: Sequence[Submission], submit_s: FloatArray, gpus: int, launch_s: float, release_s: float
) -> SimulatedCluster:
    """Return a modelled lab of nodes with *gpus* GPUs where *jobs* arrive at *submit_s*, in order, as ids 1, 2, ...

    *launch_s* and *release_s* are the overheads of a start and an end on its nodes.
    """
    spec = spec_of(gpus)
    config = configuration(spec)
    fleet = ClusterSpec(
        nodes_of(
            spec.nodes,
            spec.gpus,
            cpus=np.full(spec.nodes, spec.cpus),
            memory_mib=np.full(spec.nodes, float(spec.memory_mib)),
            partitions=Labels.of([PARTITION] * spec.nodes),
        ),
        partition_of(PARTITION, f"n[1-{spec.nodes}]"),
        ClusterSpec.of(1, 1).qos,
    )
    submitted = _workload(jobs, submit_s, spec, float(config["DefMemPerCPU"]))
    conf = SlurmConf.of(config).with_overheads(launch_s, release_s)
    return SimulatedCluster(submitted, fleet, conf, config)


def blockers(nodes: int, gpus: int) -> tuple[Submission, ...]:
    """Return the jobs of `lab_burst.occupy`, which keep all GPUs busy when a burst arrives."""
    return tuple(Submission(OPERATOR, "busy", gpus, 1, BUSY_S) for _ in range(nodes))


def configuration(spec: LabSpec) -> Mapping[str, str]:
    """Return the output of ``scontrol show config`` for a lab: the keys of its slurm.conf."""
    ports = dict.fromkeys(("slurmctld", "slurmdbd", "mariadb", "slurmd"), 0)
    text = slurm_conf(Layout(Path("/lab")), spec, "simulation", ports, "slurm", "localhost", closed=True)
    return dict(line.partition("=")[::2] for line in text.splitlines())


def _workload(jobs: Sequence[Submission], submit_s: FloatArray, spec: LabSpec, memory_mib: float) -> Workload:
    nodes = [math.ceil(job.gpus / spec.gpus) for job in jobs]
    return workload(
        len(jobs),
        job_id=np.arange(1, len(jobs) + 1),
        submit_s=submit_s,
        runtime_s=[float(job.runtime_s) for job in jobs],
        gpus=[job.gpus for job in jobs],
        nodes=nodes,
        cpus=np.ones(len(jobs)),
        memory_mib=np.full(len(jobs), memory_mib),
        time_limit_s=[60.0 * job.time_limit_min for job in jobs],
        user=[job.user for job in jobs],
        account=[USERS.get(job.user, "") for job in jobs],
        partition=[PARTITION] * len(jobs),
        name=[job.name for job in jobs],
    )
