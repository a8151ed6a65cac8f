"""A flow of jobs on the modelled Slurm: the daemon's cycle in virtual time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC

import numpy as np

from slurmsched.cluster.columns import FloatArray, Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobTable, comment_columns, deadlines
from slurmsched.daemon.predictions.play_forward import PlayForward
from slurmsched.errors import LabError
from slurmsched.research.pareto.beside_slurm import FirstLooks, Here
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.engine.job_state import JobSpeed, alone
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import BACKFILL_LAST
from slurmsched.simulator.workload.workload import Workload, as_submitted, workload

from .bursts import DOUBLING, Flow
from .flow_course import Course

USER = "alice"
SPARE_S = 1.0  #: of a forecast beyond the work: Slurm's times are whole seconds
SAVES_S = 0.3  #: from the signal to a job until it has asked for its requeue
RELEASE_S = 0.05


def submitted(flow: Flow, came_s: FloatArray) -> tuple[Workload, JobTable]:
    """The jobs as a workload, and as squeue shows them."""
    jobs = flow.jobs
    work = workload(
        len(jobs),
        job_id=np.arange(1, len(jobs) + 1),
        submit_s=came_s,
        runtime_s=[job.work_s for job in jobs],
        gpus=[job.gpus for job in jobs],
        nodes=np.ones(len(jobs)),
        cpus=[job.cpus for job in jobs],
        memory_mib=[float(job.memory_mib) for job in jobs],
        time_limit_s=np.full(len(jobs), 600.0),
        name=[job.name for job in jobs],
        user=[USER] * len(jobs),
        account=["astro"] * len(jobs),
        partition=[job.partition for job in jobs],
        gpu_type=[job.gpu_type for job in jobs],
        gpu_util=np.full(len(jobs), 0.5),
        memory_util=np.full(len(jobs), 0.2),
        gpu_memory_mib=np.full(len(jobs), 4000.0),
    )
    comments = Labels.of([job.comment for job in jobs])
    table = replace(as_submitted(work), comment=comments, **comment_columns(comments))
    return work, replace(table, deadline_s=deadlines(table, UTC))


def forecast_of(flow: Flow) -> FixedForecast:
    """The typical runtime of each job, and a little more."""
    runtime_s = np.array([job.typical_s + SPARE_S for job in flow.jobs])
    if flow.load:  # a forecast is that on nodes without such a load
        runtime_s = np.array([job.work_s + SPARE_S for job in flow.jobs])
    source = Labels.of(["exact"] * len(runtime_s))
    return FixedForecast(np.arange(1, len(runtime_s) + 1), Forecast(runtime_s, runtime_s, runtime_s, source))


def looks_of(flow: Flow, config: Mapping[str, str]) -> FirstLooks:
    """What the daemon would predict under *flow*."""
    return FirstLooks(PlayForward(lambda: flow.policy, lambda: config, Here()))


def modelled(
    flow: Flow, came_s: FloatArray, cost_s: float, config: dict[str, str], backfill_s: float, *, predicts: bool = False
) -> Course:
    """The course of *flow* on the modelled Slurm, whose first pass of backfill is at *backfill_s*."""
    work, table = submitted(flow, came_s)
    conf = SlurmConf.of(config).with_overheads(cost_s, RELEASE_S)
    conf = replace(conf, rules=conf.rules._replace(saves_s=SAVES_S))
    cluster, course = (
        SimulatedCluster(
            *(work, _fleet(flow), conf, config),
            submitted=table,
            pace=_pace(flow, work),
            checked=True,
            doubling=DOUBLING,
            sizes=flow.rules.rightsizing is not None,
        ),
        Course(looks=looks_of(flow, config) if predicts else None),
    )
    cluster.model.clock[BACKFILL_LAST] = backfill_s - conf.rules.bf_interval_s
    cluster.advance(math.floor(came_s[0]) - 1.0)
    driver = CycleDriver(cluster, flow.policy, forecast_of(flow), every_s=flow.every_s, watch=course.watch)
    known = flow.knowledge(USER, lambda: cluster.now_s)
    driver.filled = known.filled
    driver.run()
    if not cluster.drained:
        raise LabError("the modelled Slurm has jobs left")
    life = cluster.model.stage.life
    course.ended_s = dict(zip(work.job_id.tolist(), life.ended_s.tolist(), strict=True))
    course.submitted_s = dict(zip(work.job_id.tolist(), work.submit_s.tolist(), strict=True))
    course.restarts = Counter(dict(zip(work.job_id.tolist(), life.restarts.tolist(), strict=True)))
    return course


def _fleet(flow: Flow) -> ClusterSpec:
    where = {node: name for name, (nodes, _) in flow.partitions.items() for node in nodes.split(",")}
    columns = {
        "cpus": np.array(flow.cpus_of),
        "partitions": Labels.of([where[node] for node in sorted(where)]),
        "gpu_type": Labels.of(flow.type_of),
    }
    if any(job.memory_mib for job in flow.jobs):
        columns["memory_mib"] = np.full(flow.nodes, float(flow.memory_mib))
    if flow.load:
        columns |= {"cpu_load": np.full(flow.nodes, float(flow.load)), "free_memory_mib": columns["memory_mib"]}
    nodes = nodes_of(flow.nodes, flow.gpus, **columns)
    first, *others = (
        partition_of(name, nodes, tier=np.array([tier])) for name, (nodes, tier) in flow.partitions.items()
    )
    for other in others:
        first = first.joined(other)
    return ClusterSpec(nodes, first, ClusterSpec.of(1, 1).qos)


def _pace(flow: Flow, work: Workload) -> JobSpeed | None:
    """Return the speeds of jobs by the type of their GPUs; None where there is one type at most."""
    if len(flow.types) < 2:
        return None
    by_type = np.array([[job.speeds.get(name, 1.0) for name in flow.types] for job in flow.jobs])
    number = np.array([flow.types.index(name) for name in flow.type_of], dtype=np.int64)
    return alone(work)._replace(type_kind=np.arange(len(work)), by_type=by_type, node_type=number)
