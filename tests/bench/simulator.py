"""The simulator's figures of ``make bench``: speed after compilation, peak memory, and what compiling takes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source

DATA = Path(__file__).parents[3] / "shared" / "data"
GPUS = 8
SIZE = 82_247
LIKE_PHILLY = f"synthetic:{SIZE}:0.9"
MILLION = "synthetic:1000000:0.95"
COMMAND = str(Path(sys.executable).with_name("slurmsched"))

GOALS = {"qssf": 100_000, "tiresias": 50_000, "slurm": 20_000}
"""Jobs per second, at least."""

WATCH = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
took_s, peak_kib = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, done.stdout.decode(), took_s, peak_kib / 1024]))
"""
"""A small process between us and a measured one: memory of a process that forks counts as its child's."""


class Watched(NamedTuple):
    """What came of a command in a process of its own."""

    printed: str
    took_s: float
    peak_mib: float


def bench_simulator() -> None:
    """Speed of each kind of policy on a real trace and on a large one, then the command as people start it."""
    philly, limited = (_here(name) for name in ("philly.csv", "philly_semisynthetic.csv.gz"))
    print(f"simulator, nodes of {GPUS} GPUs, placement consolidate; after compilation, each in a process of its own")
    for trace, nodes, runs, policies in (
        (philly, 108, 5, ("fifo", "sjf", "qssf", "srtf", "srsf", "las", "tiresias", "slurm")),
        (limited, 108, 5, ("slurm", "fifo easy", "fifo conservative")),
        (MILLION, 1000, 1, ("sjf", "srtf", "slurm")),
    ):
        print(f"  {Path(trace).name}, {nodes:,} nodes, median of {runs}")
        for words in policies:
            bench_policy(trace, nodes, words, runs)
    bench_command(philly)
    bench_compiling()
    print()


def bench_policy(trace: str, nodes: int, words: str, runs: int) -> None:
    """One policy on one trace."""
    watched = watch([sys.executable, "-m", "tests.bench.simulator", trace, str(nodes), words, str(runs)])
    jobs, took_s = json.loads(watched.printed)
    goal = GOALS.get(words)
    aim = f"  target: {goal:,}" if goal and jobs == SIZE else ""
    speed = f"{jobs / took_s:>11,.0f} jobs/s {took_s:7.2f} s"
    print(f"    {words:<18}{speed}  peak {watched.peak_mib:5,.0f} MiB{aim}", flush=True)


def bench_command(trace: str) -> None:
    """``slurmsched simulate`` on a trace: the whole command, reading and printing with it."""
    for words in (("sjf",), ("tiresias",), ("slurm",), ("fifo", "sjf", "qssf", "srtf", "slurm")):
        policies = [part for name in words for part in ("--policy", name)]
        command = [COMMAND, "simulate", trace, "--nodes", "108", "--no-baseline", *policies]
        runs = [watch(command) for _ in range(3)]
        took_s = statistics.median(run.took_s for run in runs)
        peak_mib = statistics.median(run.peak_mib for run in runs)
        print(
            f"  slurmsched simulate {Path(trace).name} {' '.join(words)}: {took_s:.2f} s,"
            f" peak {peak_mib:.0f} MiB (median of 3; target <= 500 MB)",
            flush=True,
        )


def bench_compiling() -> None:
    """The command on a hundred jobs with an empty cache of compiled code, and again with what is then there."""
    for name in ("sjf", "srtf", "slurm"):
        command = [COMMAND, "simulate", "synthetic:100", "--nodes", "4", "--no-baseline", "--policy", name]
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            cold_s = watch(command, environment).took_s
            warm_s = statistics.median(watch(command, environment).took_s for _ in range(5))
        print(f"  100 jobs, {name}: compiling {cold_s:.1f} s, compiled before {warm_s:.2f} s (median of 5)", flush=True)


def watch(command: list[str], environment: Mapping[str, str] | None = None) -> Watched:
    """Run *command*; RuntimeError where it fails."""
    told = subprocess.run(
        [sys.executable, "-c", WATCH, *command], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    code, printed, took_s, peak_mib = json.loads(told.stdout)
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return Watched(printed, took_s, peak_mib)


def setup_of(words: str) -> Setup:
    """A preset, or an ordering and a selection."""
    name, _, selection = words.partition(" ")
    return Setup.of(name, selection or None)


def median_of_replays(trace: str, nodes: int, words: str, runs: int) -> tuple[int, float]:
    """How many jobs a trace has, and the median seconds of replaying it, compiled by a short replay before."""
    fleet, setup = ClusterSpec.of(nodes, GPUS), setup_of(words)
    jobs = Source.of(trace, fleet.total).load().workload
    simulate(jobs.take(slice(0, 100)), fleet, setup)
    took = []
    for _ in range(runs):
        began = time.perf_counter()
        simulate(jobs, fleet, setup)
        took.append(time.perf_counter() - began)
    return len(jobs), statistics.median(took)


def _here(name: str) -> str:
    """A trace of the data folder, or one of the same size where that folder is absent."""
    path = DATA / name
    return str(path) if path.exists() else LIKE_PHILLY


if __name__ == "__main__":
    print(json.dumps(median_of_replays(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
