"""Flows of jobs for the daemon's own cycle: bursts with the rules, the nodes and the history that go with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.kind_speeds import KindSpeeds
from slurmsched.cluster.node_loads import NodeLoads
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.usage import UsageTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.usage_history import LEAST, UsageHistory
from slurmsched.cycle import Surroundings
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import (
    DeadlineRules,
    MigrationRules,
    ProfilingRules,
    ResizingRules,
    RightsizingRules,
    Rules,
    SteeringRules,
)
from slurmsched.lab import LabSpec
from slurmsched.policies.contract import find_ordering

KINDS = ("bert", "convnet", "dqn", "gan", "lstm", "pointnet", "resnet", "vgg")
GPUS, CPUS = 4, 16
DOUBLING = 1.8  #: speed of a job on twice as many GPUs
EARLIER_S = 3_600.0  #: runtime of earlier runs
CKPT = "slurmsched:ckpt"
SLOW, CALM = "a100", "v100"
"""The types of GPUs of labs with two of them: nodes with few CPUs have the first one where the machine has a load."""


@dataclass(frozen=True)
class Job:
    """A job of a flow; its id is its place, from 1 on."""

    at_s: float
    gpus: int
    work_s: float  #: seconds at speed 1 on its GPUs
    name: str = "job"
    comment: str = ""
    partition: str = "gpu"
    gpu_type: str = ""
    cpus: int = 1
    memory_mib: int = 0  #: 0 for Slurm's default
    speeds: Mapping[str, float] = field(default_factory=dict)  #: by type of GPU, over that on its fastest one

    @property
    def typical_s(self) -> float:
        """What a history over all types says that it takes: its work at the mean of its speeds."""
        return self.work_s * len(self.speeds) / sum(self.speeds.values()) if self.speeds else self.work_s

    def takes_s(self, gpu_type: str, gpus: int) -> float:
        """Return the seconds of its work on so many GPUs of a type."""
        return self.work_s / (self.speeds.get(gpu_type, 1.0) * (gpus / self.gpus) ** math.log2(DOUBLING))


@dataclass(frozen=True)
class Known(Surroundings):
    """What a daemon knows of jobs and nodes, by what fills it in."""

    fillers: tuple[Callable[[ClusterState], ClusterState], ...]

    def filled(self, state: ClusterState) -> ClusterState:
        """Fill in what is known."""
        for filled in self.fillers:
            state = filled(state)
        return state


@dataclass(frozen=True)
class Flow:
    """Jobs, the nodes of each partition with its tier, and the rules of the daemon."""

    name: str
    jobs: tuple[Job, ...]
    partitions: dict[str, tuple[str, int]]
    rules: Rules
    types: tuple[str, ...] = ()  #: of GPUs, each on an equal part of the nodes
    gpus: int = GPUS  #: of a node
    cpus: tuple[int, ...] = (CPUS,)  #: of the nodes of each type
    memory_mib: int = 16_000  #: of a node
    every_s: float = 1.0  #: between two cycles of the daemon
    load: int = 0  #: processes beside Slurm that every node of the lab sees, since all are one machine
    uses: Mapping[str, float] = field(default_factory=dict)  #: CPUs that earlier runs of a name kept busy
    ordering: str = "fifo"

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(nodes.count("n") for nodes, _ in self.partitions.values())

    @property
    def policy(self) -> Policy:
        """The ordering under the rules."""
        return Policy(find_ordering(self.ordering), self.rules)

    @property
    def spec(self) -> LabSpec:
        """The lab of the flow, with lines for its partitions and its load."""
        lines = tuple(
            f"PartitionName={name} Nodes={nodes} Default={'YES' if name == 'gpu' else 'NO'} MaxTime=INFINITE"
            f" PriorityTier={tier} State=UP"
            for name, (nodes, tier) in self.partitions.items()
        )
        lines += ("DebugFlags=Backfill", *(("SlurmdTimeout=30",) if self.load else ()))
        shape = {"nodes": self.nodes, "gpus": self.gpus, "gpu_types": self.types, "memory_mib": self.memory_mib}
        return LabSpec(**shape, cpus=self.cpus[0], type_cpus=self.cpus if self.types else (), extra_conf=lines)

    @property
    def type_of(self) -> list[str]:
        """The type of GPU of each node."""
        return [name for name, _, count in self.spec.parts for _ in range(count)]

    @property
    def cpus_of(self) -> list[int]:
        """The CPUs of each node."""
        parts = zip(self.spec.parts, self.cpus, strict=True)
        return [cpus for (_, _, count), cpus in parts for _ in range(count)]

    def knowledge(self, user: str, monotonic: Callable[[], float]) -> Known:
        """Return what fills in the columns that a daemon knows from history and from what it sees."""
        speeds, usage = KindSpeeds(), UsageHistory()
        speeds.learn(self._runs(user))
        usage.learn(self._usage(user))
        terms = self.rules.migration
        loads = NodeLoads(monotonic, lambda: None if terms is None else terms.for_s)
        return Known((loads.filled, usage.filled, speeds.filled))

    def _runs(self, user: str) -> OutcomeTable:
        """Return two earlier runs on each type of each kind of job whose speed depends on it."""
        kinds = dict.fromkeys((job.name, job.gpus, tuple(job.speeds.items())) for job in self.jobs)
        runs = [(name, gpus, *each) for name, gpus, speeds in kinds for each in speeds for _ in range(2)]
        many = len(runs)
        columns = {
            "name": Labels.of([name for name, _, _, _ in runs]),
            "user": Labels.of([user] * many),
            "gpus": np.array([gpus for _, gpus, _, _ in runs], dtype=np.int64),
            "gpu_type": Labels.of([gpu_type for _, _, gpu_type, _ in runs]),
            "runtime_s": np.array([EARLIER_S / speed for _, _, _, speed in runs]),
            "state": np.full(many, JobState.COMPLETED, dtype=np.int64),
        }
        return table_of(OutcomeTable, many, {}, columns)

    def _usage(self, user: str) -> UsageTable:
        """Return as many earlier runs of each kind in ``uses`` as make its use known."""
        kinds = dict.fromkeys((job.name, job.gpus) for job in self.jobs if job.name in self.uses)
        runs = [kind for kind in kinds for _ in range(LEAST)]
        columns = {
            "name": Labels.of([name for name, _ in runs]),
            "user": Labels.of([user] * len(runs)),
            "gpus": np.array([gpus for _, gpus in runs], dtype=np.int64),
            "cpus": np.array([self.uses[name] for name, _ in runs]),
            "memory_mib": np.full(len(runs), 1_000.0),
            "runtime_s": np.full(len(runs), EARLIER_S),
            "state": np.full(len(runs), JobState.COMPLETED, dtype=np.int64),
        }
        return table_of(UsageTable, len(runs), {}, columns)


def profiling_flow() -> Flow:
    """Jobs of eight kinds, new at first, come faster than they can run; the profiling partition has one node."""
    draw = np.random.default_rng(17)
    jobs = []
    for number in range(40):
        kind, ckpt = f"{KINDS[draw.integers(len(KINDS))]}_{number}", draw.random() < 0.6
        gpus, work_s = int(draw.choice([1, 1, 2, 2, 4])), float(draw.uniform(12.0, 40.0))
        jobs.append(Job(2.0 * number, gpus, work_s, kind, CKPT * ckpt, "profile,gpu"))
    profiling = ProfilingRules("profile", n_max=4, t_s=8.0, wait_s=600.0, home="gpu", nodes_most=1, pressure=1.0)
    powers = frozenset({"order", "requeue", "partition", "profile", "nodes"})
    rules = Rules(powers=powers, scope="queue", profiling=profiling)
    return Flow("profiling", tuple(jobs), {"gpu": ("n1,n2", 1), "profile": ("n3", 2)}, rules)


def deadline_burst() -> Flow:
    """Jobs that save their work fill both nodes; then twelve jobs with deadlines come at once, and six without."""
    draw = np.random.default_rng(29)
    jobs = [Job(0.2 * number, 2, 90.0, "saves", CKPT) for number in range(4)]
    for number in range(18):
        gpus, work_s = int(draw.choice([1, 2, 2, 4])), float(draw.uniform(6.0, 14.0))
        within_s = round(float(work_s + draw.choice([1.0, 30.0, 45.0, 60.0, 90.0])))
        comment = f"slurmsched:deadline=+{within_s}s" if number % 3 else ""
        jobs.append(Job(12.0 + 0.2 * number, gpus, work_s, "burst", comment))
    deadline_rules = DeadlineRules(
        lead_s=6.0, hold_s=4.0, reserve=0.0, user_share=1.0, yields=True, lease_s=5.0, stop_s=5.0
    )
    powers = frozenset({"order", "hold", "requeue", "comment"})
    rules = Rules(powers=powers, scope="queue", deadlines=deadline_rules)
    return Flow("deadlines", tuple(jobs), {"gpu": ("n1,n2", 1)}, rules)


def steering_burst() -> Flow:
    """Two nodes of different types are full; then jobs come that are faster on one of them, or as fast on both."""
    draw = np.random.default_rng(5)
    jobs = [Job(0.0, GPUS, 15.0, "filler", gpu_type=name) for name in (SLOW, CALM)]
    kinds = {"vision": {SLOW: 0.4, CALM: 1.0}, "speech": {SLOW: 1.0, CALM: 0.7}, "even": {SLOW: 1.0, CALM: 1.0}}
    for number in range(20):
        name = str(draw.choice(list(kinds), p=[0.5, 0.25, 0.25]))
        gpus, work_s = int(draw.choice([1, 1, 2])), float(draw.uniform(10.0, 25.0))
        jobs.append(Job(3.0 + 0.3 * number, gpus, work_s, name, speeds=kinds[name]))
    rules = Rules(powers=frozenset({"order", "steer"}), scope="queue", steering=SteeringRules(patience_s=600.0))
    return Flow("steering", tuple(jobs), {"gpu": ("n1,n2", 1)}, rules, types=(SLOW, CALM), cpus=(CPUS, CPUS))


def rightsizing_burst() -> Flow:
    """Two nodes are full; then jobs for one GPU come that ask for most CPUs of a node, and need less."""
    draw = np.random.default_rng(7)
    jobs = [Job(0.0, GPUS, 12.0, "filler", cpus=8, memory_mib=16_000) for _ in range(2)]
    for number in range(24):
        name = str(draw.choice(["greedy", "known", "unknown"], p=[0.4, 0.4, 0.2]))
        comment = "slurmsched:cpus=1-6,mem=1G-12G" if name == "greedy" else ""
        work_s = float(draw.uniform(8.0, 24.0))
        jobs.append(Job(2.0 + 0.3 * number, 1, work_s, name, comment, cpus=6, memory_mib=12_000))
    terms = RightsizingRules(accounts=("astro",), again_s=2.0)
    rules = Rules(powers=frozenset({"order", "rightsize"}), scope="queue", rightsizing=terms)
    return Flow("rightsizing", tuple(jobs), {"gpu": ("n1,n2", 1)}, rules, cpus=(8,), uses={"known": 0.8})


def resizing_burst() -> Flow:
    """Two nodes are full; then jobs for two GPUs that run on one to four come in two waves, with a pause in between."""
    draw = np.random.default_rng(11)
    jobs = [Job(0.0, GPUS, 12.0, "filler") for _ in range(2)]
    for number in range(14):
        at_s = 3.0 + 0.3 * number + (110.0 if number >= 8 else 0.0)
        jobs.append(Job(at_s, 2, float(draw.uniform(25.0, 65.0)), "elastic", "slurmsched:gpus=1-4,ckpt"))
    powers = frozenset({"order", "hold", "requeue", "resize"})
    rules = Rules(powers=powers, scope="queue", resizing=ResizingRules(least_s=20.0, restart_s=10.0, stop_s=5.0))
    return Flow("resizing", tuple(jobs), {"gpu": ("n1,n2", 1)}, rules)


def migration_burst() -> Flow:
    """Three nodes with few CPUs are overloaded by others, and slow; three with many come free a while later."""
    speeds, draw = {SLOW: 0.3, CALM: 1.0}, np.random.default_rng(13)
    jobs = [Job(0.2 * number, 2, 20.0, "filler", gpu_type=CALM, memory_mib=1) for number in range(3)]
    for number in range(6):
        work_s = float(draw.uniform(20.0, 36.0))
        jobs.append(Job(2.0 + 0.3 * number, 1, work_s, "saves", CKPT, memory_mib=1, speeds=speeds))
    terms = MigrationRules(for_s=4.0, patience_s=60.0, stop_s=3.0, restart_s=0.0)
    rules = Rules(powers=frozenset({"order", "requeue", "migrate"}), scope="queue", migration=terms)
    shape = {"types": (SLOW, CALM), "gpus": 2, "cpus": (2, 1_000), "memory_mib": 100, "load": 40}
    return Flow("migration", tuple(jobs), {"gpu": ("n1,n2,n3,n4,n5,n6", 1)}, rules, **shape)


FLOWS = {
    "profiling": profiling_flow,
    "deadlines": deadline_burst,
    "steering": steering_burst,
    "rightsizing": rightsizing_burst,
    "resizing": resizing_burst,
    "migration": migration_burst,
}
