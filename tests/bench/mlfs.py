"""``python -m tests.bench.mlfs [--json] [JOBS ...]``: the workloads of MLFS beside the figures of an independent model.

Each figure is the mean of three seeds. JCTs of mlfs-h are over those of tiresias. Seconds are those of one replay.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from slurmsched.research.tasks.gangs import play_gangs
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.metrics import Summary, summary
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.registry import read

DATA = Path(__file__).parents[3] / "shared" / "data" / "mlfs"
FLEET = ClusterSpec.of(20, 4)
SEEDS = range(3)
PRINTED = "mlfs-h form=printed unit=h dag=sum"
LOGARITHMS = "mixed:left=1,gpus=1,late=1.5,urg=1,gain=.05"


@dataclass(frozen=True)
class MlfsBenchRow:
    """One figure of one policy on workloads of so many jobs, beside its reference; NaN where there is none."""

    jobs: int
    policy: str
    figure: str
    reference: float
    ours: float
    seconds: float


@cache
def replayed(jobs: int, line: str, **parts: Any) -> tuple[list[Summary], float]:
    """Return the summaries of the three seeds, and the mean seconds of a replay."""
    setup = Setup.of(line, executor="tasks", **parts)
    workloads = [read(DATA / f"mlfs_{jobs}_{seed}.csv").workload for seed in SEEDS]
    play_gangs(workloads[0].take(slice(0, 20)), FLEET, setup)  # compiles
    begin_s = time.process_time()
    replays = [play_gangs(workload, FLEET, setup) for workload in workloads]
    return [summary(replay) for replay in replays], (time.process_time() - begin_s) / len(replays)


@cache
def reference(jobs: int, policy: str, load_control: str, column: str) -> float:
    """Return the mean of a column of the reference."""
    with (DATA / "reference.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["policy"], row["mlfc"]) == (policy, load_control)]
    return float(np.mean([float(row[column]) for row in rows if int(row["jobs"]) == jobs] or [np.nan]))


def figures(runs: list[Summary]) -> dict[str, float]:
    """Return the means of the figures under the names of the reference's columns."""
    trained = [run.training for run in runs if run.training is not None]
    return {
        "jct_h": float(np.mean([run.jct_s.mean for run in runs])) / 3600,
        "tta_h": float(np.mean([one.to_accuracy_s["mean"] for one in trained])) / 3600,
        "deadline": 1 - float(np.mean([run.deadline_miss_rate for run in runs])),
        "deadline_urgent": 1 - float(np.mean([one.urgent_deadline_miss_rate for one in trained])),
        "accuracy_met": float(np.mean([one.accuracy_met for one in trained])),
        "net_tb": float(np.mean([one.server_mib for one in trained])) * 2**20 / 1e12,
        "overloads": float(np.mean([one.overloads for one in trained])),
        "migrations": float(np.mean([one.migrations for one in trained])),
    }


def rows(sizes: list[int]) -> Iterator[MlfsBenchRow]:
    """Yield every figure."""
    for jobs in sizes:
        for line, name in (("fifo", "fifo"), ("tiresias", "tiresias"), (PRINTED, "mlfh-h"), ("mlfs-h", LOGARITHMS)):
            yield from _figures(jobs, line, name, ("jct_h", "deadline", "accuracy_met"))
    for line, name, parts in (
        ("graphene", "graphene", {}),
        ("mlfs-h", "mixed:left=1,gpus=1,late=1.5,urg=1,gain=.05,pre=0", {"selection": "backfill"}),
        ("mlfs-h", LOGARITHMS + ",know=site", {"forecast": "site"}),
        ("mlfs-h urgency=0", "mixed:left=1,gpus=1,late=1.5,gain=.05", {}),
        ("mlfs-h", LOGARITHMS, {}),
        ("graphene", "graphene-ideal", {"placement": "ideal"}),
        ("graphene", "graphene@ideal+migrate", {"placement": "ideal", "migrate": True}),
        ("tiresias", "tiresias", {"load_control": "mlfs"}),
        ("mlfs-h", LOGARITHMS, {"load_control": "mlfs"}),
    ):
        names = ("jct_h", "tta_h", "deadline_urgent", "net_tb", "overloads", "migrations")
        yield from _figures(1240, line, name, names, **parts)


def _figures(jobs: int, line: str, name: str, names: tuple[str, ...], **parts: Any) -> Iterator[MlfsBenchRow]:
    runs, seconds = replayed(jobs, line, **parts)
    found, control = figures(runs), str(parts.get("load_control", "none"))
    label = " ".join([line, *(f"{part}={value}" for part, value in parts.items())])
    for figure in names:
        yield MlfsBenchRow(jobs, label, figure, reference(jobs, name, control, figure), found[figure], seconds)


def main(arguments: list[str]) -> None:
    """Print the figures."""
    sizes = [int(word) for word in arguments if word.isdecimal()] or [620, 1240, 1860]
    found = rows(sizes)
    if "--json" in arguments:
        print(json.dumps([asdict(row) for row in found]))
        return
    for row in found:
        shown = f"{row.reference:10.3f} {row.ours:10.3f} {row.seconds:6.2f} s"
        print(f"{row.jobs:5d} {row.policy:50s} {row.figure:16s} {shown}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
