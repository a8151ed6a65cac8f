"""Figures that other people's simulators, run unmodified, gave on the same files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from simulator.worlds import simulate

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.metrics import summary
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload

DATA = Path(__file__).parents[3] / "shared" / "data"

PHILLY_DAY = [
    ("fifo", "strict", 0.0, (28467.41, 30662.0, 48782.60, 137030)),
    ("fifo", "backfill", 0.0, (21874.24, 26096.0, 47034.68, 127424)),
    ("srtf", "preemptive", 1e-3, (6221.58, 1464.0, 85354.72, 133188)),
    ("srsf", "preemptive", 1e-3, (5608.39, 1464.0, 61763.20, 132485)),
]
TIRESIAS_60 = [
    ("fifo", "strict", 1556.48),
    ("fifo", "backfill", 715.27),
    ("srtf", "preemptive", 519.87),
    ("srsf", "preemptive", 563.38),
]


def read(name: str, gpus: str) -> Workload:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with path.open(newline="") as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: float(row["submit_time"]))
    return workload(
        len(rows),
        job_id=np.arange(len(rows)),
        submit_s=[float(row["submit_time"]) for row in rows],
        runtime_s=[float(row["duration"]) for row in rows],
        gpus=[int(row[gpus]) for row in rows],
    )


@pytest.mark.parametrize(("name", "selection", "within", "figures"), PHILLY_DAY)
def test_a_day_of_philly_in_one_pool_of_128_gpus(name, selection, within, figures):
    jobs = read("philly_oct5_cap6h.csv", "num_gpus")
    replay = summary(simulate(jobs, ClusterSpec.of(16, 8), Setup.of(name, selection, placement="pool")))
    ours = (replay.jct_s.mean, replay.jct_s.median, replay.jct_s.p99, replay.makespan_s)
    assert ours == pytest.approx(figures, rel=within, abs=0.005)


@pytest.mark.parametrize(("name", "selection", "average_s"), TIRESIAS_60)
def test_the_sixty_jobs_of_tiresias_in_one_pool_of_8_gpus(name, selection, average_s):
    jobs = read("tiresias_60_job.csv", "num_gpu")
    replay = summary(simulate(jobs, ClusterSpec.of(2, 4), Setup.of(name, selection, placement="pool")))
    assert replay.jct_s.mean == pytest.approx(average_s, abs=0.005)
