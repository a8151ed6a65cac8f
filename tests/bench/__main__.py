"""``make bench``: figures, not tests. Medians of several runs on the machine it runs on; a real Slurm for the cycle."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slurmsched.clock import SystemClock
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

from .composition import main as bench_composition
from .fidelity import bench_fidelity
from .flows import main as bench_flows
from .predictions import main as bench_predictions
from .preemption import bench_preemption
from .report import RUNS as REPORTED
from .report import bench as bench_report
from .simulator import bench_simulator
from .synthetic import after, promised_view, view
from .variants import main as bench_variants

BLOCKERS = 4
RUNS = 5


def main() -> None:
    """All of it, half an hour."""
    print(
        "decide() alone, 1,000 nodes, milliseconds (median of 9; target: 2,048 <= 1, 100,000 <= 50, and 2,048 with 500 "
        "promises on 60 nodes <= 20)"
    )
    for pending in (2_048, 20_000, 100_000):
        bench_decide(pending)
    for promised in (0, 500):
        bench_promises(promised)
    print()
    bench_command_line()
    bench_simulator()
    bench_preemption()
    bench_composition([])
    bench_predictions()
    bench_report(REPORTED)
    bench_variants()
    try:
        for pending in (1_000, 10_000):
            bench_cycle(pending)
        bench_fidelity(time.time())
        bench_flows()
        from .backends import main as bench_backends  # it takes its parts from here

        bench_backends()
    except LabError as error:
        print(f"nothing on a real Slurm: {error}")


def median_s(work: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median seconds of *work*."""
    took = []
    for _ in range(runs):
        began = clock()
        work()
        took.append(clock() - began)
    return statistics.median(took)


def bench_decide(pending: int) -> None:
    """Cold (nothing labelled yet), steady (nothing to do), and with 50 jobs newly arrived."""
    policy, rules = find_ordering("qssf"), Rules(powers=frozenset({"order"}))
    cold = view(pending)
    plan = decide(cold, policy, rules)
    steady = after(cold, plan)
    points = steady.pending.site_points.copy()
    points[points.argsort()[-50:]] = 0
    fresh = replace(
        steady,
        pending=replace(
            steady.pending, site_points=points, priority=steady.pending.priority - steady.pending.site_points + points
        ),
    )
    assert not decide(steady, policy, rules).actions
    for name, state in (("cold", cold), ("50 new", fresh), ("steady", steady)):
        took_s = median_s(lambda state=state: decide(state, policy, rules), 9)
        writes = len(decide(state, policy, rules).actions)
        print(f"  {pending:>7,} pending  {name:<7} {took_s * 1e3:8.2f} ms  {writes:>5} writes wanted")


def bench_promises(promised: int) -> None:
    """A busy site of 60 nodes with open promises, deadlines and stop requests switched on; processor time."""
    policy, deadlines = find_ordering("qssf"), DeadlineRules(yields=True)
    rules = Rules(powers=frozenset({"order", "hold", "requeue", "comment"}), scope="queue", deadlines=deadlines)
    cold = promised_view(2_048, promised)
    steady = after(cold, decide(cold, policy, rules))
    for name, state in (("cold", cold), ("steady", steady)):
        took_s = median_s(lambda state=state: decide(state, policy, rules), 9, time.process_time)
        print(f"  {2_048:>7,} pending, {promised} with a promise  {name:<7} {took_s * 1e3:8.2f} ms of processor time")


def bench_command_line() -> None:
    """How soon ``slurmsched --help`` is there."""
    command = [str(Path(sys.executable).with_name("slurmsched")), "--help"]
    took_s = median_s(lambda: subprocess.run(command, check=True, capture_output=True), RUNS)
    print(f"slurmsched --help: {took_s * 1e3:.0f} ms (median of {RUNS}; target <= 200)\n")


class Meter:
    """Adds up what Slurm's commands cost us."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.bytes = 0

    def __call__(self, command: str, result: str, seconds: float, size_b: int) -> None:
        self.calls[command] = self.calls.get(command, 0) + 1
        self.bytes += size_b

    def take(self) -> tuple[dict[str, int], int]:
        """What came since the last time."""
        taken = self.calls, self.bytes
        self.calls, self.bytes = {}, 0
        return taken


def bench_cycle(pending: int) -> None:
    """Full cycles before *pending* waiting jobs on a lab of four nodes."""
    directory = Path(tempfile.mkdtemp(prefix="ssbench-", dir="/tmp"))
    directory.chmod(0o755)  # the lab's users pass through
    spec = LabSpec(extra_conf=("SchedulerParameters=bf_interval=30,bf_continue,default_queue_depth=100",))
    with Lab(directory / "lab", spec) as lab:
        print(f"{pending:,} pending jobs on the lab")
        fill(lab, pending)
        meter = Meter()
        console = CommandRunner(
            environment=lab.env(), prefix=tuple(lab.command([], user="operator")), called=meter, timeout_s=60
        )
        world = make_world(SlurmCommand(console), directory, lab.cluster)
        for mode, title, runs in (
            ("observe", "observing", RUNS),
            ("act", "cold start, writing as the token bucket allows", 1),
        ):
            report_cycles(lab, world, meter, mode, title, runs)
        drain(world)
        report_cycles(lab, world, meter, "act", "steady state", RUNS)
        report_cycles(lab, world, meter, "act", "100 jobs to be written", RUNS, disturb=lambda: disturb(lab, world))
    shutil.rmtree(directory, ignore_errors=True)
    print()


def make_world(cluster: SlurmCommand, directory: Path, name: str) -> CycleContext:
    """The parts of a daemon that orders by qssf."""
    store = Store(f"sqlite:///{directory}/bench.db", timeout_s=5.0)
    store.upgrade()
    policy = Policy(find_ordering("qssf"), Rules(powers=frozenset({"order"}), scope="queue", max_points=0))
    return CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster=name),
        model=RuntimeModel.fit(outcomes_of(())),
        policy=policy,
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=SystemClock(),
    )


def fill(lab: Lab, pending: int) -> None:
    """Occupy all GPUs, then queue *pending* jobs of many names, limits and sizes behind them."""
    for _ in range(BLOCKERS):
        lab.submit("--gres=gpu:4", "--time=600", "--output=/dev/null", "--wrap=sleep 36000", user="alice")
    wait_until(
        lambda: lab.ask(["squeue", "-h", "-t", "running", "-o", "%A"]).count("\n") == BLOCKERS, 60, "all GPUs taken"
    )
    began = time.perf_counter()
    script = (
        'sbatch -Q -o /dev/null --gres=gpu:$((1 + $1 % 4)) -t $((1 + $1 % 97)) -J train_$(($1 % 300)) --wrap "sleep 60"'
    )
    workers = []
    for worker in range(2):
        loop = f"for i in $(seq {worker + 1} 2 {pending}); do set -- $i; {script} >/dev/null || exit 1; done"
        workers.append(
            subprocess.Popen(lab.command(["bash", "-c", loop], user="bob"), env=lab.env("bob"), cwd=lab.layout.work)
        )
    assert not any(worker.wait(600) for worker in workers), "sbatch failed"
    print(f"  submitted in {time.perf_counter() - began:.0f} s")


def report_cycles(
    lab: Lab,
    world: CycleContext,
    meter: Meter,
    mode: str,
    title: str,
    runs: int,
    disturb: Callable[[], None] = lambda: None,
) -> None:
    """Median cycle with its parts, what it read and what slurmctld spent on it."""
    reports: list[tuple[float, CycleReport]] = []
    read, spent_s, calls = [], [], {}
    for _ in range(runs):
        disturb()
        world.writer.budget = Budget(20.0, 100)
        meter.take()
        before_s = rpc_s(lab)
        began = time.perf_counter()
        now_s = time.time()
        report = run_cycle(world, world.memory.next_number(now_s), now_s, mode)
        reports.append((time.perf_counter() - began, report))
        spent_s.append(rpc_s(lab) - before_s)
        calls, size_b = meter.take()
        read.append(size_b)
    took_s = statistics.median(took for took, _ in reports)
    phases = {
        name: statistics.median(report.phases_s[name] for _, report in reports) for name in reports[0][1].phases_s
    }
    written = statistics.median(sum(report.actions.values()) for _, report in reports)
    print(f"  {title}: {took_s:.3f} s, {written:g} writes, {reports[-1][1].deferred} left for later (median of {runs})")
    print("    " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in phases.items()))
    slurmctld_ms = statistics.median(spent_s) * 1e3
    print(f"    read {statistics.median(read) / 1e6:.1f} MB in {calls}; slurmctld {slurmctld_ms:.0f} ms")


def drain(world: CycleContext) -> None:
    """Cycles without a budget until the order stands."""
    for _ in range(20):
        world.writer.budget = Budget(1e6, 1_000_000)
        now_s = time.time()
        if not run_cycle(world, world.memory.next_number(now_s), now_s, "act").actions:
            return


def disturb(lab: Lab, world: CycleContext) -> None:
    """Take the points of a hundred ranked jobs away, as a restart of slurmctld without state would."""
    pending = world.cluster.observe().pending
    jobs = pending.job_id[pending.site_points.argsort()[-100:]].tolist()
    lab.run(["scontrol"], input="".join(f"update jobid={job} sitefactor=0\n" for job in jobs), timeout_s=60)


def rpc_s(lab: Lab) -> float:
    """All service time of slurmctld so far, in seconds (sdiag)."""
    text = lab.ask(["sdiag"]).partition("statistics by message type")[2].partition("statistics by user")[0]
    return sum(int(total) for total in re.findall(r"total_time:(\d+)", text)) / 1e6


if __name__ == "__main__":
    main()
