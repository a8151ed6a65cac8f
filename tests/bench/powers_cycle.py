"""``python -m tests.bench.powers_cycle``: whole cycles with steering, right-sizing and numbers of GPUs on.

10,000 pending jobs, all of known kinds, before 510 full nodes of three types. A program (``printed_slurm``) prints
what Slurm's commands would, since no lab has so many nodes; the writes go to it, and the next reading shows them.
Seconds are processor time of the daemon's own process, with parsing, deciding, records and intents.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from slurmsched.clock import SystemClock
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.kind_speeds import KindSpeeds
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cluster.records.usage import UsageTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.usage_history import LEAST, UsageHistory
from slurmsched.cycle import CycleContext, CycleReport, Surroundings, run_cycle
from slurmsched.daemon.compiled_code import load_decisions
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import (
    AdmissionRules,
    DeadlineRules,
    LeaseRules,
    MigrationRules,
    ResizingRules,
    RightsizingRules,
    Rules,
    SteeringRules,
)
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

from .printed_slurm import Rows, install

PENDING, NODES, GPUS, CPUS, MEMORY_MIB = 10_000, 510, 8, 64, 512_000
TYPES = {"a100": 1.0, "v100": 0.5, "t4": 0.25}  #: GPUs with their typical speed
USERS, NAMES, ACCOUNTS = 300, 20, 20
ELASTIC = 0.2  #: part of the jobs that say on how many GPUs they can run
DEADLINES = 0.05  #: part of the jobs that want to be done in some days
OVERLOADED = 0.05  #: part of the nodes with more load than CPUs
RUNS = 3
MOST_S, MOST_WRITES = 1.5, 100

ORDER = {"powers": frozenset({"order"}), "scope": "queue"}
STEERING = {"steering": SteeringRules()}
SIZES = {"rightsizing": RightsizingRules(accounts=tuple(f"account{number}" for number in range(ACCOUNTS)))}
NUMBERS = {"resizing": ResizingRules()}
OTHERS = {
    "migration": MigrationRules(),
    "deadlines": DeadlineRules(yields=True, lease_s=300.0),
    "admission": AdmissionRules("load:1.2"),
    "lease": LeaseRules("lease 20m", 1_200.0),
    "stopping": "mlf-c",
}


def main() -> None:
    """Print the processor time of cold and of steady cycles, with more and more of the powers."""
    print(f"cycles at {PENDING:,} pending on {NODES} full nodes of three types, processor time")
    powers = ORDER["powers"] | {"steer", "rightsize"}
    both = {**ORDER, "powers": powers, **STEERING, **SIZES}
    every = {**both, **NUMBERS, "powers": powers | {"resize", "requeue", "hold"}}
    all_ten = {**every, **OTHERS, "powers": every["powers"] | {"migrate", "comment"}}
    titles = {
        "the order alone": ORDER,
        "with steering and right-sizing": both,
        "and with numbers of GPUs": every,
        "all powers": all_ten,
    }
    for title, terms in titles.items():
        if len(sys.argv) > 1 and title not in sys.argv[1:]:
            continue
        process = get_context("spawn").Process(target=bench_alone, args=(title, Rules(**terms)))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(process.exitcode)


def bench_alone(title: str, rules: Rules) -> None:
    """Print the cycles of this process, with files that are removed at its end."""
    directory = Path(tempfile.mkdtemp(prefix="sscycle-", dir="/tmp"))
    try:
        bench(directory, title, rules)
    finally:
        shutil.rmtree(directory)


def bench(directory: Path, title: str, rules: Rules) -> None:
    """Print the cycles under *rules*: the first one, those that write what it left, and those without changes."""
    world = made(directory, rules)
    if rules.deadlines is not None:
        load_decisions()  # as a daemon does before its first cycle
    first_s, first = cycle(world)
    print(
        f"  {title}: first {first_s:.2f} s (target: {MOST_S} s), {first.ranked:,} ranked, {written(first)} writes,"
        f" {first.deferred} left for later",
        flush=True,
    )
    print("    deciding took " + ", ".join(f"{part} {took_s:.2f} s" for part, took_s in first.decided_s.items()))
    kinds = Counter(action.stored for action in first.plan.actions)
    print("    it wants " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    rows = [cycle(world) for _ in range(RUNS)]
    show("with a full budget", rows)
    drained(world)
    show("once all is written", [cycle(world) for _ in range(RUNS)])


def show(title: str, rows: list[tuple[float, CycleReport]]) -> None:
    """Print the median of cycles, the longest, and how much they wrote."""
    took_s, writes = [each for each, _ in rows], [written(report) for _, report in rows]
    phases = {
        name: statistics.median(report.phases_s.get(name, 0.0) for _, report in rows) for name in rows[-1][1].phases_s
    }
    print(
        f"    {title}: {statistics.median(took_s):.2f} s, at most {max(took_s):.2f} s; at most {max(writes)} writes"
        f" (target: {MOST_WRITES}), {rows[-1][1].refused} refused"
    )
    print("      elapsed: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in phases.items()), flush=True)


def written(report: CycleReport) -> int:
    """The updates of a cycle."""
    return sum(report.actions.values())


def cycle(world: CycleContext, budget: Budget | None = None) -> tuple[float, CycleReport]:
    """Run a cycle with a full budget; return its processor time."""
    world.writer.budget = budget or Budget(20.0, MOST_WRITES)
    gc.collect()
    now_s, began_s = time.time(), time.process_time()
    report = run_cycle(world, world.memory.next_number(now_s), now_s, "act")
    return time.process_time() - began_s, report


def drained(world: CycleContext) -> None:
    """Run cycles without a budget until hardly anything is left to write."""
    for _ in range(3):
        if not cycle(world, Budget(1e6, 1_000_000))[1].actions:
            return


def made(directory: Path, rules: Rules) -> CycleContext:
    """The parts of a daemon that orders by qssf beside the printed queue."""
    jobs, nodes = queue(np.random.default_rng(0))
    cluster = SlurmCommand(
        CommandRunner(bin_dir=str(install(directory, jobs, nodes)), timeout_s=120.0),
        apart=lambda: rules.optional_columns,
    )
    store = Store(f"sqlite:///{directory}/bench.db", timeout_s=5.0)
    store.upgrade()
    return CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster="printed"),
        model=RuntimeModel.fit(outcomes_of(())),
        policy=Policy(find_ordering("qssf"), rules),
        writer=Writer(cluster, Budget(20.0, MOST_WRITES)),
        clock=SystemClock(),
        beside=Beside(knowledge(jobs), jobs),
    )


@dataclass(frozen=True)
class Beside(Surroundings):
    """What a daemon knows of the printed jobs."""

    known: Callable[[ClusterState], ClusterState]
    jobs: Rows

    def filled(self, state: ClusterState) -> ClusterState:
        """Fill in what is known of jobs."""
        return self.known(state)

    def progress(self) -> ProgressTable:
        """Return what jobs report."""
        return reports(self.jobs)


def reports(jobs: Rows) -> ProgressTable:
    """What the running jobs with ranges of GPUs last reported."""
    ids = np.array([int(row["JobID"]) for row in jobs if row["NodeList"] and "ckpt" in row["Comment"]])
    many = len(ids)
    whole = {"iteration": np.full(many, 1000), "accuracy": np.full(many, 0.5), "loss_fall": np.full(many, 0.01)}
    return ProgressTable(
        ids, **whole, late_fall=np.full(many, 0.1), may_end=np.zeros(many, np.bool_), settled=np.zeros(many, np.bool_)
    )


def knowledge(jobs: Rows) -> Callable[[ClusterState], ClusterState]:
    """What a daemon knows of kinds of jobs after a long history: their speed on each type, and what they use."""
    speeds, usage = KindSpeeds(), UsageHistory()
    random = np.random.default_rng(1)
    kinds = list(dict.fromkeys((row["UserName"], row["Name"], int(row["gpus"])) for row in jobs))
    runs = [
        (*kind, name, 4_000.0 / speed * random.uniform(0.7, 1.4)) for kind in kinds for name, speed in TYPES.items()
    ]
    runs = [run for run in runs for _ in range(2)]
    columns = {"state": np.full(len(runs), JobState.COMPLETED, dtype=np.int64)}
    columns |= {
        name: Labels.of([run[at] for run in runs]) for at, name in enumerate(("user", "name", "", "gpu_type")) if name
    }
    columns |= {"gpus": np.array([run[2] for run in runs]), "runtime_s": np.array([run[4] for run in runs])}
    columns |= {"job_id": np.arange(1, len(runs) + 1)}  # each run counts once
    speeds.learn(table_of(OutcomeTable, len(runs), {}, columns))
    uses = [kind for kind in kinds for _ in range(LEAST)]
    usage.learn(
        table_of(
            UsageTable,
            len(uses),
            {"runtime_s": 4_000.0, "state": int(JobState.COMPLETED)},
            {
                "user": Labels.of([user for user, _, _ in uses]),
                "name": Labels.of([name for _, name, _ in uses]),
                "gpus": np.array([gpus for _, _, gpus in uses]),
                "cpus": random.uniform(0.5, 6.0, len(uses)),
                "memory_mib": random.uniform(1_000.0, 30_000.0, len(uses)),
            },
        )
    )
    return lambda state: speeds.filled(usage.filled(state))


def queue(random: np.random.Generator) -> tuple[Rows, Rows]:
    """Jobs that fill all nodes, those that wait, and the nodes, as squeue and sinfo print them."""
    now = int(time.time())
    jobs: Rows = []
    kinds = [name for name in TYPES for _ in range(NODES // len(TYPES))]
    for node, _ in enumerate(kinds, 1):
        left = GPUS
        while left:
            gpus = min(left, int(random.choice([1, 2, 4, 8])))
            left -= gpus
            began = now - int(random.integers(600, 80_000))
            jobs.append(job_row(random, len(jobs) + 1, gpus, "RUNNING", began, f"x{node}"))
    for _ in range(PENDING):
        gpus = int(random.choice([1, 1, 1, 2, 4, 8]))
        jobs.append(job_row(random, len(jobs) + 1, gpus, "PENDING", now - int(random.integers(10, 200_000)), ""))
    nodes = [
        {
            "NodeList": f"x{node}", "PartitionName": "gpu", "Partition": "gpu*", "PriorityTier": "1", "Available": "up",
            "Time": "infinite", "DefaultTime": "n/a", "StateComplete": "mixed", "CPUs": str(CPUS),
            "CPUsState": f"{CPUS // 2}/{CPUS // 2}/0/{CPUS}",
            "Memory": str(MEMORY_MIB), "AllocMem": str(MEMORY_MIB // 2), "Gres": f"gpu:{name}:{GPUS}",
            "GresUsed": f"gpu:{name}:{GPUS}(IDX:0-7)", "Features": "(null)", "FreeMem": str(MEMORY_MIB // 2),
            "CPUsLoad": str(2 * CPUS if random.random() < OVERLOADED else CPUS // 2),
        }
        for node, name in enumerate(kinds, 1)
    ]  # fmt: skip
    return jobs, nodes


def job_row(random: np.random.Generator, job: int, gpus: int, state: str, since: int, node: str) -> dict[str, str]:
    """A job as squeue prints it; a pending one asks for twice the CPUs that belong to its GPUs."""
    user, cpus = int(random.integers(USERS)), min(2 * gpus * CPUS // GPUS, CPUS)
    memory_mib = gpus * MEMORY_MIB // GPUS
    elastic = f"slurmsched:gpus={max(gpus // 2, 1)}-{min(2 * gpus, GPUS)},ckpt" * bool(random.random() < ELASTIC)
    if not elastic and random.random() < DEADLINES:
        elastic = f"slurmsched:deadline=+{random.integers(60, 200)}h" + ",ckpt" * bool(random.random() < 0.5)
    begun = str(since) if node else "N/A"
    return {
        "JobID": str(job), "ArrayJobID": str(job), "ArrayTaskID": "N/A", "HetJobID": "0",
        "Name": f"train_{random.integers(NAMES)}", "UserName": f"user{user}", "Account": f"account{user % ACCOUNTS}",
        "QOS": "normal", "Partition": "gpu", "State": state, "Reason": "None" if node else "Priority", "NumNodes": "1",
        "MaxNodes": "1", "NumTasks": "1", "NumCPUs": str(cpus), "cpus-per-task": str(cpus), "MinCpus": str(cpus),
        "MinMemory": f"{memory_mib}M", "tres": f"cpu={cpus},mem={memory_mib}M,node=1,billing={cpus},gres/gpu={gpus}",
        "tres-per-job": "N/A", "tres-per-node": f"gres/gpu:{gpus}", "tres-per-socket": "N/A", "tres-per-task": "N/A",
        "cpus-per-tres": "N/A", "mem-per-tres": "N/A", "TimeLimit": "2-00:00:00", "SubmitTime": str(since),
        "EligibleTime": str(since), "StartTime": begun, "EndTime": "N/A", "Nice": "0", "RestartCnt": "0",
        "Requeue": "1", "BatchFlag": "1", "OverSubscribe": "OK", "Reservation": "(null)", "Feature": "(null)",
        "Licenses": "(null)", "Dependency": "(null)", "ReqNodes": "", "NodeList": node, "Comment": elastic or "(null)",
        "ExcNodes": "", "base": str(int(random.integers(1, 1_000))), "points": "0", "gpus": str(gpus),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
