"""The clusters that the port's conformance suite runs over: real Slurm through its commands, the fake, a simulation."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.nodes import QosTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.text.comment import read
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.waiting import wait_until
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.workload import as_submitted, workload
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.adapters.pyslurm_adapter import SlurmBinding
from slurmsched.slurm.adapters.pyslurm_worker import PyslurmMissing, Worker
from slurmsched.slurm.port import Slurm


class World(Protocol):
    """A cluster with a way to submit to it and to let time pass."""

    cluster: Slurm

    def submit(
        self,
        runtime_s: float,
        gpus: int = 1,
        comment: str = "",
        name: str = "job",
        tasks: int = 1,
        cpus_per_gpu: int = 0,
        limit_s: int = 600,
    ) -> int:
        """Queue a job that may be requeued and return its id."""
        ...

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 120.0) -> ClusterState:
        """The first look at the cluster that is as wanted."""
        ...

    def end(self, job: int) -> None:
        """End a running job, as its owner would."""
        ...

    def now_s(self) -> float:
        """The cluster's own time."""
        ...


@dataclass
class FakeWorld:
    cluster: FakeSlurm

    def submit(
        self,
        runtime_s: float,
        gpus: int = 1,
        comment: str = "",
        name: str = "job",
        tasks: int = 1,
        cpus_per_gpu: int = 0,
        limit_s: int = 600,
    ) -> int:
        if tasks > 1:
            pytest.skip("the fake has no job arrays")
        nodes = (gpus + 3) // 4
        return self.cluster.submit(
            runtime_s, gpus=gpus, nodes=nodes, comment=comment, name=name, per_gpu=cpus_per_gpu > 0
        )

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 120.0) -> ClusterState:
        for _ in range(4000):
            state = self.cluster.observe()
            if wanted(state):
                return state
            self.cluster.advance(0.25)
        raise AssertionError(f"the fake never had {what}")

    def end(self, job: int) -> None:
        self.cluster.jobs[job] = replace(self.cluster.jobs[job], left_s=0.0)

    def now_s(self) -> float:
        return self.cluster.now_s


@dataclass
class SimulatedWorld:
    cluster: SimulatedCluster

    def submit(
        self,
        runtime_s: float,
        gpus: int = 1,
        comment: str = "",
        name: str = "job",
        tasks: int = 1,
        cpus_per_gpu: int = 0,
        limit_s: int = 600,
    ) -> int:
        if cpus_per_gpu:
            pytest.skip("jobs of the simulation ask for nothing per GPU")
        first = len(self.cluster.jobs) + 1
        ids = np.arange(first, first + tasks)
        jobs = workload(
            tasks,
            job_id=ids,
            submit_s=np.full(tasks, self.now_s()),
            runtime_s=np.full(tasks, float(runtime_s)),
            gpus=np.full(tasks, gpus),
            nodes=np.full(tasks, (gpus + 3) // 4),
            cpus=np.full(tasks, 1),
            memory_mib=np.full(tasks, 2000.0),
            time_limit_s=np.full(tasks, float(limit_s)),
            name=[name] * tasks,
            user=["alice"] * tasks,
            partition=["gpu"] * tasks,
        )
        wishes, _ = read(comment)
        array = {"array_job_id": np.full(tasks, first), "task_id": np.arange(1, tasks + 1)} if tasks > 1 else {}
        said = Labels.of([comment] * tasks)
        submitted = replace(as_submitted(jobs), comment=said, ckpt=np.full(tasks, wishes.ckpt), **array)
        self.cluster.submit(jobs, submitted)
        return first

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 120.0) -> ClusterState:
        for _ in range(4000):
            state = self.cluster.observe()
            if wanted(state):
                return state
            self.cluster.advance(self.now_s() + 0.25)
        raise AssertionError(f"the simulation never had {what}")

    def end(self, job: int) -> None:
        self.cluster.cancel(job)

    def now_s(self) -> float:
        return self.cluster.now_s


def simulated(shared_nodes: int = 0) -> SimulatedWorld:
    """Nodes of four GPUs, configured as the lab is: four, or *shared_nodes* with slots and as many others."""
    if shared_nodes:
        nodes = nodes_of(2 * shared_nodes, 4, partitions=["gpu"] * shared_nodes + ["shared"] * shared_nodes)
        parts = partition_of("gpu", f"n[1-{shared_nodes}]").joined(
            partition_of("shared", f"n[{shared_nodes + 1}-{2 * shared_nodes}]")
        )
    else:
        nodes, parts = nodes_of(4, 4, partitions=["gpu"] * 4), partition_of("gpu", "n[1-4]")
    fleet = ClusterSpec(nodes, parts, table_of(QosTable, 0, {}, {}), shared="shared" * bool(shared_nodes))
    conf = SlurmConf.of({"SchedulerParameters": "bf_interval=10,batch_sched_delay=0", "PriorityWeightAge": "1000"})
    cluster = SimulatedCluster(workload(0), fleet, conf, checked=True, sizes=True)
    cluster.advance(1_000_000.0)
    return SimulatedWorld(cluster)


@dataclass
class LabWorld:
    cluster: Slurm
    lab: Lab

    def submit(
        self,
        runtime_s: float,
        gpus: int = 1,
        comment: str = "",
        name: str = "job",
        tasks: int = 1,
        cpus_per_gpu: int = 0,
        limit_s: int = 600,
    ) -> int:
        options = [f"--gres=gpu:{min(gpus, 4)}", f"--nodes={(gpus + 3) // 4}", f"--job-name={name}", "--requeue"]
        options += [f"--comment={comment}"] if comment else []
        options += [f"--array=1-{tasks}"] if tasks > 1 else []
        options += [f"--cpus-per-gpu={cpus_per_gpu}"] if cpus_per_gpu else []
        return self.lab.submit(
            *options, f"--time={limit_s // 60}", "--output=/dev/null", f"--wrap=sleep {runtime_s}", user="alice"
        )

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 120.0) -> ClusterState:
        state, began_s = self.cluster.observe(), time.monotonic()

        def holds() -> bool:
            nonlocal state
            time.sleep(min(0.5, 0.1 * (time.monotonic() - began_s)))  # a look is half a dozen commands
            state = self.cluster.observe()
            return wanted(state)

        try:
            wait_until(holds, timeout_s, what, every_s=0.1)
        except LabError as error:
            raise AssertionError(f"{error}: {_lines(state)}") from error
        return state

    def end(self, job: int) -> None:
        self.lab.run(["scancel", str(job)], user="alice")

    def now_s(self) -> float:
        return time.time()


def _lines(state: ClusterState) -> list[str]:
    return [
        f"{jobs.job_id[row]} state={jobs.state[row]} reason={jobs.reason[row]} priority={jobs.priority[row]}"
        for jobs in (state.pending, state.running)
        for row in range(len(jobs))
    ]


def bound(lab: Lab) -> SlurmBinding:
    """The lab through pyslurm; skips where there is none of its release."""
    operator = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator")))
    command = SlurmCommand(operator, apart=lambda: {"excluded_nodes", "node_request"})
    series = command.facts().version[:2]
    worker = Worker(operator, operator.called)
    try:
        ours = worker.start()
    except PyslurmMissing as error:
        pytest.skip(f"no pyslurm: {error}")
    if series != tuple(int(part) for part in ours.split(".")[:2]):
        worker.stop()
        pytest.skip(f"pyslurm {ours} is not of this Slurm's release")
    return SlurmBinding(command, worker)


LAB = pytest.mark.lab


@pytest.fixture(
    params=["fake", "simulation", pytest.param("command", marks=LAB), pytest.param("binding", marks=LAB)],
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each cluster in turn; at its end no GPU was ever handed out twice."""
    if request.param == "fake":
        yield FakeWorld(FakeSlurm())
        return
    if request.param == "simulation":
        world = simulated()
        yield world
        world.cluster.validate()
        return
    lab = request.getfixturevalue("lab")
    if request.param == "binding":
        binding = bound(lab)
        yield LabWorld(binding, lab)
        binding.worker.stop()
        return
    operator = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator")))
    yield LabWorld(SlurmCommand(operator, apart=lambda: {"excluded_nodes", "node_request", "node_loads"}), lab)


@pytest.fixture(scope="module")
def lab_with_slots() -> Iterator[Lab]:
    """One node of four whole GPUs, n1, and one on which four have slots, n2."""
    if os.geteuid() != 0:
        pytest.skip("users of a lab need root")
    with tempfile.TemporaryDirectory(prefix="slots-", dir="/tmp") as directory:
        spec = LabSpec(nodes=2, shared_nodes=1, cpus=16)
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        Path(directory).chmod(0o755)
        with Lab(Path(directory) / "lab", spec) as up:
            yield up


@pytest.fixture(params=["fake", "simulation", pytest.param("command", marks=LAB)])
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Clusters of two nodes of four GPUs: n1 in the partition gpu, and n2 with slots in the partition shared."""
    if request.param == "fake":
        lists = {"gpu": "n1", "shared": "n2"}
        yield FakeWorld(FakeSlurm(nodes=2, shared_nodes=1, partitions={"gpu": 1, "shared": 1}, node_lists=lists))
        return
    if request.param == "simulation":
        world = simulated(1)
        yield world
        world.cluster.validate()
        return
    lab = request.getfixturevalue("lab_with_slots")
    operator = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator")))
    yield LabWorld(SlurmCommand(operator, apart=lambda: {"excluded_nodes", "node_request", "node_loads"}), lab)
    lab.cancel_all()


def row(jobs: JobTable, job_id: int) -> int:
    """Where *job_id* stands; it must be there."""
    found = jobs.row_of(job_id)
    assert found is not None, f"job {job_id} is not among {jobs.job_id.tolist()}"
    return found
