"""Deadlines by leases: the tables of Chronus, on its traces (``python -m tests.bench.chronus [slurmctld]``).

``slurmctld`` prints the rows beside a modelled one alone; they are in no other run, and take a quarter of an hour.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.config import load as read_settings
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.policies.deadlines.lease_plan import solve
from slurmsched.policies.deadlines.lease_problem import LeaseProblem
from slurmsched.policies.deadlines.milp_solver import highs
from slurmsched.policies.deadlines.plan_check import violations
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.deadlines import Deadlines
from slurmsched.simulator.run import decided, simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.rewards import written
from slurmsched.simulator.workload.workload import Workload, workload
from tests.simulator.worlds import misjudged

DATA = Path(os.environ.get("SLURMSCHED_TRACES", Path(__file__).parents[3] / "shared" / "data"))
MIXES = ("mix1", "mix2")
DAY_S = 86_400.0
HOPES = (1.0, 0.125, 0.0)
NODE = 8
LIMIT_S = 2.0
SITE = """
[daemon]
every_s = 60
[policy]
ordering = "chronus"
[power]
order = true
hold = true
requeue = true
[order]
scope = "queue"
[deadline]
enabled = true
yields = true
user_share = 1
slack_s = 3600
asks_a_day = 10
"""
LONG_DELAYED = "long_share = 0.15\nhold_most_s = 14400\n"
RESTART = "restart_s = 150\n"


def main() -> None:
    """All tables, or the one beside slurmctld."""
    if sys.argv[1:] == ["slurmctld"]:
        beside_slurmctld()
        return
    schedulers(60)
    schedulers(120)
    densities()
    misjudgement()
    hopes()
    drawn()
    nodes_and_consent()
    fortnight()
    planning()


def first_day(mix: str) -> Workload:
    """What was submitted in the first 1440 minutes and asks for GPUs."""
    jobs = whole(mix)
    return jobs.take(jobs.submit_s <= DAY_S)


def whole(mix: str) -> Workload:
    """The whole trace, two weeks, jobs that ask for GPUs."""
    jobs = Source.of(str(DATA / f"chronus_philly_{mix}.csv"), 120 * NODE).load().workload
    return jobs.take(jobs.gpus > 0)


def schedulers(nodes: int) -> None:
    """Chronus alone; ``deadline_policies`` has the schedulers beside it."""
    print(f"day 1, {nodes} nodes x {NODE}: weighted miss rate, best-effort JCT in minutes")
    for mix in MIXES:
        tell(mix, first_day(mix), nodes)


def densities() -> None:
    """Jobs left out or said twice at random, as in figure 9 c-f."""
    for nodes in (60, 120):
        print(f"density, day 1, {nodes} nodes x {NODE}")
        for mix in MIXES:
            jobs = first_day(mix)
            for density in (0.8, 1.0, 1.2, 1.4, 1.6):
                tell(f"{mix} {density:.0%}", thinned(jobs, density), nodes)


def thinned(jobs: Workload, density: float) -> Workload:
    """*density* times as many jobs, drawn at random with a fixed seed, numbered anew."""
    random, count = np.random.default_rng(0), len(jobs)
    if density <= 1:
        rows = random.choice(count, int(count * density), replace=False)
    else:
        rows = np.concatenate([np.arange(count), random.choice(count, int(count * (density - 1)), replace=False)])
    return replace(jobs.take(np.sort(rows)), job_id=np.arange(1, len(rows) + 1))


def misjudgement() -> None:
    """Promises where runtimes are known with an error, planned by the upper decile."""
    print("promises under runtime error, planned by q90, day 1")
    for nodes in (60, 120):
        for mix in MIXES:
            jobs = first_day(mix)
            for error in (0.2, 0.4):
                for seed in range(3):
                    known = misjudged(jobs.runtime_s, error, seed)
                    tell(f"{mix} {nodes} nodes, error {error:.0%}, seed {seed}", jobs, nodes, known=known)


def beside_slurmctld() -> None:
    """The daemon's cycles beside a modelled slurmctld, day 1; no job is stopped by anybody else."""
    print("beside slurmctld, 60 nodes, day 1")
    for mix in MIXES:
        jobs = first_day(mix)
        on_slurm(f"{mix} all ckpt", jobs, SITE)
        on_slurm(f"{mix} nobody ckpt", jobs, SITE, ckpt=False)
        on_slurm(f"{mix} nobody ckpt, long jobs delayed", jobs, SITE + LONG_DELAYED, ckpt=False)
        on_slurm(f"{mix} all ckpt, error 20 %", jobs, SITE + RESTART, known=misjudged(jobs.runtime_s, 0.2, 0))


def on_slurm(title: str, jobs: Workload, toml: str, *, known: Forecast | None = None, ckpt: bool = True) -> None:
    """Replay under the settings *toml*, and print one row."""
    began_s = time.perf_counter()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml)
        file.flush()
        settings = read_settings(file.name, {}).settings
    setup = Setup.of_site(
        policy_of(settings),
        settings.daemon.every_s,
        title,
        forecast="exact" if known is None else "history",
        restart_s=30.0,
        restart_doubling_s=30.0,
        writes_per_s=settings.slurm.writes_per_s,
        writes_burst=settings.slurm.writes_burst,
    )
    jobs = replace(jobs, ckpt=np.full(len(jobs), ckpt))
    row(title, simulate(jobs, ClusterSpec.of(60, NODE), setup, learnt=known), began_s)


def hopes() -> None:
    """Jobs without a promise, run like best effort and as they are by default."""
    print("jobs without a promise: like best effort, and by default")
    crowded = [("mix1 140 %", thinned(first_day("mix1"), 1.4), 60), ("mix2 14 days", whole("mix2"), 120)]
    for title, jobs, nodes in crowded:
        for hope in HOPES:
            tell(f"{title}, hope {hope:g}", jobs, nodes, f"chronus hope={hope:g}")
    for mix in MIXES:
        jobs = first_day(mix)
        known = misjudged(jobs.runtime_s, 0.2, seed=0)
        for hope in HOPES:
            tell(f"{mix} error 20 %, hope {hope:g}", jobs, 60, f"chronus hope={hope:g}", known=known)


def drawn() -> None:
    """Overload by jobs drawn anew from the traces, and by invented ones."""
    print("jobs drawn anew, 60 nodes, and invented, 30 nodes")
    for mix, load, seed in (("mix1", 1.3, 15), ("mix1", 1.5, 5), ("mix2", 1.2, 16), ("mix2", 1.5, 6)):
        tell(f"{mix} anew {load:.0%}", anew(mix, load, seed), 60)
    for load, seed in ((1.3, 1), (1.8, 2)):
        tell(f"invented {load:.0%}", invented(load, seed), 30)


def anew(mix: str, load: float, seed: int) -> Workload:
    """*load* times as many jobs of the two weeks as day 1 has, submitted at any time of one day."""
    random, trace = np.random.default_rng(seed), whole(mix)
    count = int(len(first_day(mix)) * load)
    jobs = trace.take(np.sort(random.choice(len(trace), count, replace=False)))
    submit_s = np.sort(random.uniform(0, DAY_S, count))
    return replace(jobs, submit_s=submit_s, deadline_s=jobs.deadline_s - jobs.submit_s + submit_s)


def invented(load: float, seed: int) -> Workload:
    """Two days of jobs that need *load* times the GPU-time of 30 nodes; three quarters have deadlines, half soft."""
    random, most = np.random.default_rng(seed), 30_000
    runtime_s = np.clip(np.exp(random.normal(np.log(1800), 1.6, most)), 60, 2 * DAY_S)
    gpus = random.choice([1, 2, 4, 8, 16], most, p=[0.6, 0.12, 0.12, 0.12, 0.04])
    count = int(np.searchsorted(np.cumsum(runtime_s * gpus), load * 30 * NODE * 2 * DAY_S))
    submit_s = np.sort(random.uniform(0, 2 * DAY_S, count))
    within_s = runtime_s[:count] * random.uniform(1.15, 2.0, count) + 300.0
    best_effort, soft = random.random(count) < 0.25, random.random(count) < 0.5
    steps = (((1.0, 1.0),), ((1.0, 1.0), (0.8, 1.1), (0.5, 1.2), (0.2, 1.5)))
    rewards = [
        written((times * within, worth) for worth, times in steps[also]) if has else ""
        for has, also, within in zip(~best_effort, soft.astype(int), within_s, strict=True)
    ]
    return workload(
        count,
        job_id=np.arange(count),
        submit_s=submit_s,
        runtime_s=runtime_s[:count],
        gpus=gpus[:count],
        deadline_s=np.where(best_effort, np.inf, submit_s + within_s),
        best_effort=best_effort,
        rewards=Labels.of(rewards),
    )


def nodes_and_consent() -> None:
    """Jobs placed on nodes instead of one pool, decisions on the beat alone, and jobs that may not be stopped."""
    print(f"nodes of {NODE}, the beat, and jobs that are not stopped, day 1, 60 nodes")
    for mix in MIXES:
        jobs = first_day(mix)
        tell(f"{mix} on nodes", jobs, 60, placement="consolidate")
        tell(f"{mix} every 300 s", jobs, 60, beat_s=300.0)
        tell(f"{mix} nobody ckpt", jobs, 60, ckpt=False)


def fortnight() -> None:
    """The whole traces."""
    print(f"14 days, 120 nodes x {NODE}")
    for mix in MIXES:
        tell(mix, whole(mix), 120)


def tell(
    title: str,
    jobs: Workload,
    nodes: int,
    ordering: str = "chronus",
    *,
    known: Forecast | None = None,
    placement: str = "pool",
    beat_s: float = 0.0,
    ckpt: bool = True,
) -> None:
    """Replay by the daemon's cycle and print one row; a stop costs half a minute and half for each doubling of GPUs."""
    began_s = time.perf_counter()
    costs = {"restart_s": 30.0, "restart_doubling_s": 30.0, "beat_s": beat_s}
    forecast = "exact" if known is None else "history"
    setup = Setup.of(ordering, "leases", placement=placement, forecast=forecast, **costs)
    jobs = replace(jobs, ckpt=np.full(len(jobs), ckpt))
    made = decided(jobs, ClusterSpec.of(nodes, NODE), setup, known)
    row(title, made, began_s)


def row(title: str, made: Replay, began_s: float) -> None:
    """Print weighted misses, minutes of best effort, and what became of the promises."""
    took_s, words = time.perf_counter() - began_s, ("promised", "refused", "broken", "warned", "alarms")
    promises = ", ".join(f"{word} {getattr(made.decisions, word)}" for word in words)
    best_effort_min = float((made.end_s - made.workload.submit_s)[made.workload.best_effort].mean()) / 60.0
    figures = f"{Deadlines.of(made).unearned:7.4f} {best_effort_min:8.1f}  {took_s:6.2f} s"
    print(f"  {title:<32}{figures}  {promises}", flush=True)


def planning() -> None:
    """How long planning takes and how good plans are: runtimes and GPUs of mix2, deadlines as in section 4.1."""
    print(f"planning, 80 % of jobs contiguous, limit {LIMIT_S:g} s: seconds (median, p99), gap (median, largest)")
    trace = whole("mix2")
    for count in (600, 1000):
        for demand in (1.5, 3.0):
            took, gaps, solved = [], [], 0
            for seed in range(20):
                asked = crowd(trace, count, demand, seed)
                began_s = time.perf_counter()
                plan = solve(asked, LIMIT_S, highs)
                took.append(time.perf_counter() - began_s)
                gaps.append(plan.gap)
                solved += plan.origin == "milp"
                if wrong := violations(asked, plan):
                    raise RuntimeError(wrong[0])
            told = f"{statistics.median(took):.3f} {max(took):.3f} s, gap {statistics.median(gaps):.2%} {max(gaps):.2%}"
            print(
                f"  {count} jobs, demand {demand:g} x the GPUs: {told}, best plan by the solver {solved} x", flush=True
            )


def crowd(trace: Workload, count: int, demand: float, seed: int) -> LeaseProblem:
    """*count* jobs that ask for *demand* times the GPUs there are; two thirds have soft deadlines."""
    random = np.random.default_rng(seed)
    jobs = trace.take(random.choice(len(trace), count, replace=False))
    minutes = jobs.runtime_s / 60.0
    leases = np.ceil(minutes / 20).astype(np.int64)
    first = minutes * random.uniform(1.2, 2.0, count)
    soft = random.random(count) < 2 / 3
    steps = np.stack([first * factor for factor in (1.0, 1.1, 1.2, 1.5)], axis=1)
    slots = np.maximum((steps // 20).astype(np.int64), leases[:, None] * (np.arange(4) == 0))
    slots, values = np.maximum.accumulate(slots, axis=1), np.tile([10.0, 8.0, 5.0, 2.0], (count, 1))
    slots[~soft, 1:], values[~soft, 1:] = 0, 0.0
    never = np.zeros(count, np.bool_)
    capacity = np.full((1, int(slots.max())), int(jobs.gpus.sum() / demand))
    contiguous = random.random(count) < 0.8
    return LeaseProblem(jobs.gpus, leases, contiguous, never, np.full(count, -1), slots, values, capacity)


if __name__ == "__main__":
    main()
