"""Profiling and deadlines on a lab and on the modelled Slurm: ``python -m tests.bench.flows [profiling|deadlines]``.

On both the daemon's own cycle runs once a second, with the same policy, the same jobs, their exact runtimes as
forecasts and the same profiles. The model gets the arrivals of the lab's run, what a start and an end cost there, and
when slurmctld's backfill first ran: a pass comes every ten seconds from then on, and what it finds free decides much.
The times of the lab are those of slurmctld's log.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from slurmsched.clock import SystemClock
from slurmsched.cluster.columns import FloatArray, Labels
from slurmsched.cluster.comment_columns import comment_columns
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable, deadlines
from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, ProfilingRules, Rules
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.waiting import wait_until
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.decisions import DecisionWatch
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.gpu_profiles import ended_runs, profiles_of, true_use
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.slurmctld import BACKFILL_LAST
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.simulator.workload.workload import Workload, as_submitted, workload
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

from .fidelity import BEGAN, CAME, ENDED, times_in_log

RUNS = 2
KINDS = ("bert", "convnet", "dqn", "gan", "lstm", "pointnet", "resnet", "vgg")
GPUS, CPUS = 4, 16
SPARE_S = 1.0  #: of a forecast beyond the work: Slurm's times are whole seconds
SAVES_S = 0.3  #: from the signal to a job until it has asked for its requeue
RELEASE_S = 0.05
PATIENCE_S = 900.0
SETTLES_S = 60.0  #: the most that the loops of a new slurmctld take to run

BACKFILL = r"^\[(\S+)\] sched/backfill: _attempt_backfill: beginning"
"""What slurmctld writes in its log with ``DebugFlags=Backfill``."""

MAIN_CYCLES = r"Main schedule statistics[^:]*:(?s:.*?)Total cycles:\s*(\d+)"
"""What sdiag prints of the main loop."""

WORKER = """
import os, signal, subprocess, sys, time
path, left_s = sys.argv[1], float(sys.argv[2])
if os.path.exists(path):
    left_s = float(open(path).read())
def give_way(*_):
    subprocess.run(["scontrol", "requeue", "incomplete", os.environ["SLURM_JOB_ID"]])
    time.sleep(60)
signal.signal(signal.SIGURG, give_way)
last_s = time.monotonic()
while left_s > 0:
    time.sleep(min(0.1, left_s))
    now_s = time.monotonic()
    left_s, last_s = left_s - (now_s - last_s), now_s
    open(path + ".new", "w").write(str(left_s))
    os.replace(path + ".new", path)
"""
"""A job that saves its work ten times a second, and goes on from there after a requeue."""


@dataclass(frozen=True)
class Job:
    """A job of a flow; its id is its place, from 1 on."""

    at_s: float
    gpus: int
    work_s: float
    name: str = "job"
    comment: str = ""
    partition: str = "gpu"


@dataclass(frozen=True)
class Flow:
    """Jobs, the nodes of each partition with its tier, and the rules of the daemon."""

    name: str
    jobs: tuple[Job, ...]
    partitions: dict[str, tuple[str, int]]
    rules: Rules

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(nodes.count("n") for nodes, _ in self.partitions.values())

    @property
    def policy(self) -> Policy:
        """First come, first served under the rules."""
        return Policy(find_ordering("fifo"), self.rules)


@dataclass
class Course:
    """What became of a flow."""

    decided: DecisionWatch = field(default_factory=DecisionWatch)
    actions: Counter[str] = field(default_factory=Counter)
    ended_s: dict[int, float] = field(default_factory=dict)
    started_s: dict[int, float] = field(default_factory=dict)
    submitted_s: dict[int, float] = field(default_factory=dict)
    restarts: Counter[int] = field(default_factory=Counter)
    backfill_s: float = 0.0  #: the first pass of backfill

    def watch(self, report: CycleReport) -> None:
        """Count, and note the ends of jobs."""
        self.decided.watch(report)
        self.actions.update(report.actions)
        ended = report.ended
        for at in range(len(ended)):
            job = int(ended.job_id[at])
            self.restarts[job] = max(self.restarts[job], int(ended.restart[at]))
            if ended.state[at] == JobState.COMPLETED:
                self.ended_s[job], self.started_s[job] = float(ended.ended_s[at]), float(ended.started_s[at])
                self.submitted_s[job] = float(ended.first_submit_s[at])

    @property
    def jct_s(self) -> float:
        """Mean time from the submission of a job to its end."""
        return statistics.mean(self.ended_s[job] - self.submitted_s[job] for job in self.ended_s)

    def counts(self) -> dict[str, int]:
        """The figures that should be equal."""
        figures = self.decided.figures()
        return {
            "pairs": figures.pairs,
            "yields": figures.yields,
            "requeues": sum(self.restarts.values()),
            "node moves": self.actions["MoveNodes"],
            "to their own partition": self.actions["MovePartition"],
            "promised": figures.promised,
            "refused": figures.refused,
            "broken": figures.broken,
        }


def profiling_flow() -> Flow:
    """Jobs of eight kinds, new at first, come faster than they can run; the profiling partition has one node."""
    draw = np.random.default_rng(17)
    jobs = []
    for number in range(40):
        kind, ckpt = f"{KINDS[draw.integers(len(KINDS))]}_{number}", draw.random() < 0.6
        gpus, work_s = int(draw.choice([1, 1, 2, 2, 4])), float(draw.uniform(12.0, 40.0))
        jobs.append(Job(2.0 * number, gpus, work_s, kind, "slurmsched:ckpt" * ckpt, "profile,gpu"))
    profiling = ProfilingRules("profile", n_max=4, t_s=8.0, wait_s=600.0, home="gpu", nodes_most=1, pressure=1.0)
    powers = frozenset({"order", "requeue", "partition", "profile", "nodes"})
    rules = Rules(powers=powers, scope="queue", profiling=profiling)
    return Flow("profiling", tuple(jobs), {"gpu": ("n1,n2", 1), "profile": ("n3", 2)}, rules)


def deadline_burst() -> Flow:
    """Jobs that save their work fill both nodes; then twelve jobs with deadlines come at once, and six without."""
    draw = np.random.default_rng(29)
    jobs = [Job(0.2 * number, 2, 90.0, "saves", "slurmsched:ckpt") for number in range(4)]
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


FLOWS = {"profiling": profiling_flow, "deadlines": deadline_burst}


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
        cpus=np.ones(len(jobs)),
        time_limit_s=np.full(len(jobs), 600.0),
        name=[job.name for job in jobs],
        user=["alice"] * len(jobs),
        account=["astro"] * len(jobs),
        partition=[job.partition for job in jobs],
        gpu_util=np.full(len(jobs), 0.5),
        memory_util=np.full(len(jobs), 0.2),
        gpu_memory_mib=np.full(len(jobs), 4000.0),
    )
    comments = Labels.of([job.comment for job in jobs])
    table = replace(as_submitted(work), comment=comments, **comment_columns(comments))
    return work, replace(table, deadline_s=deadlines(table, UTC))


def forecast_of(flow: Flow) -> FixedForecast:
    """The work of each job, and a little more."""
    runtime_s = np.array([job.work_s + SPARE_S for job in flow.jobs])
    source = Labels.of(["exact"] * len(runtime_s))
    return FixedForecast(np.arange(1, len(runtime_s) + 1), Forecast(runtime_s, runtime_s, runtime_s, source))


# The lab


def on_lab(flow: Flow) -> tuple[Course, dict[str, str]]:
    """The course of *flow* on a lab, and the configuration of its Slurm."""
    lines = tuple(
        f"PartitionName={name} Nodes={nodes} Default={'YES' if name == 'gpu' else 'NO'} MaxTime=INFINITE"
        f" PriorityTier={tier} State=UP"
        for name, (nodes, tier) in flow.partitions.items()
    )
    lines += ("DebugFlags=Backfill",)
    directory = Path(tempfile.mkdtemp(prefix="ssflow-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        with Lab(directory / "lab", LabSpec(nodes=flow.nodes, gpus=GPUS, cpus=CPUS, extra_conf=lines)) as lab:
            return _driven(lab, flow)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _driven(lab: Lab, flow: Flow) -> tuple[Course, dict[str, str]]:
    home = lab.layout.work / "flow"
    home.mkdir()
    home.chmod(0o777)
    (home / "worker.py").write_text(WORKER)
    cluster, store, course = SlurmCommand(CommandRunner(environment=lab.env())), VolatileStore.blank(), Course()
    config = dict(cluster.facts().config)
    context = CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster=lab.cluster),
        model=forecast_of(flow),
        policy=flow.policy,
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=SystemClock(),
        learns=False,
        site=config,
    )
    _settle(lab)
    thread = threading.Thread(target=_submit, args=(lab, home, flow.jobs))
    thread.start()
    work, table = submitted(flow, np.zeros(len(flow.jobs)))
    rows = {int(job): [row] for row, job in enumerate(work.job_id.tolist())}
    until_s = time.monotonic() + PATIENCE_S
    while len(course.ended_s) < len(flow.jobs) and time.monotonic() < until_s:
        time.sleep(1.0 - time.time() % 1.0)
        now_s = time.time()
        report = run_cycle(context, context.memory.next_number(now_s), now_s, "act")
        store.add_profiles(lab.cluster, profiles_of(ended_runs(report.ended, rows), table, true_use(work)))
        course.watch(report)
    thread.join()
    if len(course.ended_s) < len(flow.jobs):
        raise LabError(f"of {len(flow.jobs)} jobs only {len(course.ended_s)} ended within {PATIENCE_S:g} s")
    log, jobs = lab.layout.log("slurmctld").read_text(), sorted(course.ended_s)
    for times, words in ((course.submitted_s, CAME), (course.started_s, BEGAN), (course.ended_s, ENDED)):
        times.update(zip(jobs, times_in_log(log, words, jobs), strict=True))
    first = re.search(BACKFILL, log, re.MULTILINE)
    if first is None:
        raise LabError("slurmctld's log has no pass of backfill")
    course.backfill_s = datetime.fromisoformat(first[1]).timestamp()
    return course, config


def _settle(lab: Lab) -> None:
    """Wait until both loops of a new slurmctld have run: from then on each comes at its own interval."""

    def running() -> bool:
        main = re.search(MAIN_CYCLES, lab.ask(["sdiag"]))
        began = re.search(BACKFILL, lab.layout.log("slurmctld").read_text(), re.MULTILINE)
        return main is not None and int(main[1]) > 0 and began is not None

    wait_until(running, SETTLES_S, "the first passes of the main loop and of backfill")


def _submit(lab: Lab, home: Path, jobs: Sequence[Job]) -> None:
    """Submit each job at its time."""
    began_s = time.monotonic()
    for number, job in enumerate(jobs, 1):
        time.sleep(max(0.0, began_s + job.at_s - time.monotonic()))
        command = f"exec python3 {home}/worker.py {home}/left{number} {job.work_s:.3f}"
        lab.submit(
            f"-J{job.name}", f"-p{job.partition}", f"--gres=gpu:{job.gpus}", "-n1", "-t10", "--requeue", "-o/dev/null",
            f"--comment={job.comment}", f"--wrap={command}", user="alice",
        )  # fmt: skip


def launch_s(flow: Flow, course: Course) -> float:
    """What a start and an end cost on the lab: the mean time that jobs of one run took beyond their work."""
    once = [job for job in course.ended_s if not course.restarts[job]]
    over_s = [course.ended_s[job] - course.started_s[job] - flow.jobs[job - 1].work_s for job in once]
    return max(0.0, statistics.mean(over_s))


# The model


def modelled(flow: Flow, came_s: FloatArray, cost_s: float, config: dict[str, str], backfill_s: float) -> Course:
    """The course of *flow* on the modelled Slurm, whose first pass of backfill is at *backfill_s*."""
    work, table = submitted(flow, came_s)
    where = {node: name for name, (nodes, _) in flow.partitions.items() for node in nodes.split(",")}
    nodes = nodes_of(flow.nodes, GPUS, cpus=np.full(flow.nodes, CPUS), partitions=[where[n] for n in sorted(where)])
    first, *others = (
        partition_of(name, nodes, tier=np.array([tier])) for name, (nodes, tier) in flow.partitions.items()
    )
    for other in others:
        first = first.joined(other)
    conf = SlurmConf.of(config).with_overheads(cost_s, RELEASE_S)
    conf = replace(conf, rules=conf.rules._replace(saves_s=SAVES_S))
    fleet = ClusterSpec(nodes, first, ClusterSpec.of(1, 1).qos)
    cluster, course = SimulatedCluster(work, fleet, conf, config, submitted=table, checked=True), Course()
    cluster.model.clock[BACKFILL_LAST] = backfill_s - conf.rules.bf_interval_s
    cluster.advance(math.floor(came_s[0]) - 1.0)
    CycleDriver(cluster, flow.policy, forecast_of(flow), every_s=1.0, watch=course.watch).run()
    if not cluster.drained:
        raise LabError("the modelled Slurm has jobs left")
    life = cluster.model.stage.life
    course.ended_s = dict(zip(work.job_id.tolist(), life.ended_s.tolist(), strict=True))
    course.submitted_s = dict(zip(work.job_id.tolist(), work.submit_s.tolist(), strict=True))
    course.restarts = Counter(dict(zip(work.job_id.tolist(), life.restarts.tolist(), strict=True)))
    return course


def compare(flow: Flow, each_job: bool) -> float:
    """Run *flow* on both, print the figures of both, and return the difference of the mean JCT in per cent."""
    load = os.getloadavg()[0]
    real, config = on_lab(flow)
    cost_s = launch_s(flow, real)
    came_s = np.array([real.submitted_s[job] for job in sorted(real.submitted_s)])
    model = modelled(flow, came_s, cost_s, config, real.backfill_s)
    off = 100.0 * (model.jct_s / real.jct_s - 1.0)
    print(
        f"  {flow.name}: mean JCT {real.jct_s:.1f} s on the lab, {model.jct_s:.1f} s modelled, {off:+.1f} %;", end=" "
    )
    print(f"a start and an end cost {cost_s:.2f} s; load before {load:.1f}, after {os.getloadavg()[0]:.1f}")
    counts = real.counts(), model.counts()
    print("    " + ", ".join(f"{name} {counts[0][name]}/{counts[1][name]}" for name in counts[0]), flush=True)
    for job, it in enumerate(flow.jobs, 1) if each_job else ():
        jct_s = "/".join(f"{course.ended_s[job] - course.submitted_s[job]:.1f}" for course in (real, model))
        print(f"    {job:4}: {jct_s} s, restarts {real.restarts[job]}/{model.restarts[job]}, {it}")
    return off


def main(words: Sequence[str] = ()) -> None:
    """Print the figures of the flows named, or of all; ``once`` runs each once, ``jobs`` shows each job."""
    programs.check(LabSpec())
    runs = 1 if "once" in words else RUNS
    print("flows: the daemon's cycle on a lab and on the modelled Slurm, the same jobs; counts as lab/model")
    for name in [name for name in FLOWS if name in words] or FLOWS:
        off = [compare(FLOWS[name](), "jobs" in words) for _ in range(runs)]
        print(f"  {name}: off by {statistics.median(off):+.1f} % (median of {runs}; target: within 5 %)", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
