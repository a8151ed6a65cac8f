"""Jobs that share GPUs: measured ones, and the burst that shows what sharing saves on the lab and the model."""

from __future__ import annotations

import csv
import time
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from lab_site import Site

from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.profiles import NodeProfile

DATA = Path(__file__).parents[2].parent / "shared" / "data"
KINDS = {
    "mobilenet": ("MobileNetV3", "ImageNet", "32", "0"),
    "resnet": ("ResNet18", "CIFAR-10", "32", "0"),
    "pointnet": ("PointNet", "ShapeNet", "64", "0"),
    "vgg": ("VGG", "CIFAR-10", "64", "0"),
    "efficientnet": ("EfficientNet", "CIFAR-10", "64", "0"),
    "bert": ("BERT", "SQuAD", "32", "0"),
}
JOBS = 40


def rows(name: str) -> list[dict[str, str]]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with path.open() as file:
        return list(csv.DictReader(file))


def measured_speeds() -> dict[str, dict[str, float]]:
    """What each kind keeps beside each other, as Lucid's authors measured; their slowest where nobody did."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
    for row in rows("lucid_colocate_info.csv"):
        one, other = (tuple(row[f"{name}{at}"] for name in ("model", "dataset", "batchsize", "amp")) for at in (1, 2))
        found[one, other], found[other, one] = float(row["speed1"]), float(row["speed2"])
    slowest = min(speed for speed in found.values() if speed > 0)
    return {
        mine: {its: found.get((key, other)) or slowest for its, other in KINDS.items()} for mine, key in KINDS.items()
    }


def measured_use() -> dict[str, tuple[float, float, float]]:
    """GPU utilisation (0..1), that of the memory controller, and GPU memory in MiB, of each kind alone."""
    alone = {(row["model"], row["dataset"], row["batchsize"], row["amp"]): row for row in rows("lucid_single_data.csv")}
    uses = {kind: alone[key] for kind, key in KINDS.items()}
    return {
        kind: (float(use["gpu_util"]) / 100, float(use["gmem_util"]) / 100, float(use["gmem"]))
        for kind, use in uses.items()
    }


def jobs_of_burst() -> list[tuple[str, str, float]]:
    """Kind, name and seconds of work of each job, in order."""
    work_s = np.random.default_rng(5).uniform(12.0, 25.0, JOBS)
    return [(kind, f"{kind}_{number}", float(work_s[number])) for number, kind in zip(range(JOBS), cycle(KINDS))]


def measured(
    site: Site,
    name: str,
    runtime_s: float,
    gpu_util: float = 0.1,
    memory_util: float = 0.05,
    memory_mib: float = 3e3,
    user: str = "alice",
) -> None:
    """Let the database know three runs of a user's *name* on one GPU, an hour ago."""
    start_s = int(time.time()) - 3600
    end_s, owner = int(start_s + runtime_s), site.lab.user(user)
    first = 2_000_000 + 10 * sum((user + name).encode())
    jobs = [
        JobRecord(job_id, 0, -1, 1, name, owner, "astro", "normal", "gpu", 1, 1, 1, 3600.0, *[start_s] * 3, 0, start_s)
        for job_id in range(first, first + 3)
    ]
    profiles = [
        NodeProfile(
            *(job.job_id, 0, "n1", start_s, end_s, 1, runtime_s),
            *(0.9, gpu_util, 0.1, memory_util, memory_mib, 100.0, 0.0),
        )
        for job in jobs
    ]
    with site.store() as store:
        store.add_outcomes(site.lab.cluster, outcomes_of([EndedRun(job, end_s, JobState.COMPLETED) for job in jobs]))
        store.add_profiles(site.lab.cluster, profiles)
