"""The lab's burst of jobs that share GPUs, on the modelled Slurm with the daemon's own rules, in virtual time."""

from __future__ import annotations

import numpy as np
import pytest
from sharing_burst import KINDS, jobs_of_burst, measured_speeds, measured_use

from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.cycle import CycleReport
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.demo.modelled import configuration
from slurmsched.lab import LabSpec
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.simulator.workload.workload import Workload, workload

SUBMIT_S = 0.1  #: sbatch as another user
OVERHEADS = {"launch_s": 0.3, "release_s": 0.05}  #: of a worker, an interpreter that first asks squeue
START_S = 100_000.0


def burst() -> Workload:
    """The jobs that the lab's burst submits."""
    jobs = jobs_of_burst()
    return workload(
        len(jobs),
        job_id=np.arange(1, len(jobs) + 1),
        submit_s=START_S + SUBMIT_S * np.arange(len(jobs)),
        runtime_s=[work_s for *_, work_s in jobs],
        gpus=np.ones(len(jobs)),
        nodes=np.ones(len(jobs)),
        cpus=np.ones(len(jobs)),
        time_limit_s=np.full(len(jobs), 120.0),
        name=[name for _, name, _ in jobs],
        work=[kind for kind, *_ in jobs],
        user=["alice"] * len(jobs),
        account=["astro"] * len(jobs),
        partition=["gpu"] * len(jobs),
    )


def lab_of(shared_nodes: int) -> SimulatedCluster:
    """Two nodes of four GPUs, configured as the lab is."""
    spec = LabSpec(nodes=2, shared_nodes=shared_nodes, cpus=16)
    config = configuration(spec)
    kinds = list(KINDS)
    speeds = measured_speeds()
    pairs = Sharing(tuple(kinds), np.array([[speeds[mine][its] for its in kinds] for mine in kinds]))
    parts = partition_of("gpu", "n1" if shared_nodes else "n[1-2]")
    parts = parts.joined(partition_of("shared", "n2")) if shared_nodes else parts
    nodes = nodes_of(
        2, 4, partitions=["gpu", "shared" if shared_nodes else "gpu"], cpus=np.full(2, spec.cpus),
    )  # fmt: skip
    fleet = ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, sharing=pairs, shared="shared" if shared_nodes else "")
    return SimulatedCluster(burst(), fleet, SlurmConf.of(config).with_overheads(**OVERHEADS), config)


def history() -> tuple[OutcomeTable, list[NodeProfile]]:
    """Three measured runs of each kind, an hour ago."""
    start_s = START_S - 3600.0
    runs, profiles = [], []
    for number, (kind, (gpu_util, memory_util, memory_mib)) in enumerate(measured_use().items()):
        for job_id in range(1000 + 10 * number, 1003 + 10 * number):
            job = JobRecord(
                *(job_id, 0, -1, 1, f"{kind}_0", "alice", "astro", "normal", "gpu", 1, 1, 1, 3600.0),
                *([start_s] * 3), 0, start_s,
            )  # fmt: skip
            runs.append(EndedRun(job, start_s + 18.0, JobState.COMPLETED))
            times = (int(start_s), int(start_s + 18), 1, 18.0)
            use = (0.9, gpu_util, 0.1, memory_util, memory_mib, 100.0, 0.0)
            profiles.append(NodeProfile(job_id, 0, "n1", *times, *use))
    return outcomes_of(runs), profiles


def outcome(shared_nodes: int, powers: set[str]) -> tuple[float, float, int, int]:
    """Mean queueing delay and mean completion time of the burst, how many jobs shared, and runs beside another."""
    cluster, (outcomes, profiles) = lab_of(shared_nodes), history()
    store = VolatileStore.blank()
    store.save("simulation", PendingWrites(outcomes=[outcomes]))
    store.add_profiles("simulation", profiles)
    rules = SharingRules(memory_mib=23_000.0, wait_s=2.0, capacity=2 if "share" in powers else 0)
    policy = Policy(find_ordering("fifo"), Rules(powers=frozenset(powers), scope="queue", sharing=rules))

    def watch(report: CycleReport) -> None:
        cluster.validate()

    cluster.advance(START_S)
    CycleDriver(cluster, policy, RuntimeModel.fit(outcomes), every_s=1.0, store=store, watch=watch).run()
    cluster.validate()
    assert cluster.drained
    life = cluster.model.stage.life
    shared = sum(name == "shared" for name in cluster.outcomes(-np.inf, np.inf).partition)
    queued_s, took_s = life.started_s - cluster.jobs.submit_s, life.ended_s - cluster.jobs.submit_s
    return float(queued_s.mean()), float(took_s.mean()), shared, int(life.joined.sum())


def test_the_lab_burst_on_the_modelled_slurm_gives_what_the_lab_gave(capsys):
    without, shared = outcome(0, {"order"}), outcome(1, {"order", "share"})
    with capsys.disabled():
        for name, (queued_s, took_s, jobs, beside) in (("without", without), ("with", shared)):
            print(
                f"\n{name} sharing: queued {queued_s:.1f} s, done after {took_s:.1f} s (means), {jobs} jobs shared,"
                f" {beside} runs began beside another"
            )
    # On a real Slurm: 57.0 s without; 46.9 s, 24 jobs and 16 such runs with it.
    assert without[1] == pytest.approx(57.0, rel=0.05)
    assert shared[1] == pytest.approx(46.9, rel=0.05)
    assert abs(shared[2] - 24) <= 3
    assert abs(shared[3] - 16) <= 3
