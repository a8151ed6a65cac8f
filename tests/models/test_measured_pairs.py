"""The rule of who shares, on pairs of training jobs that were measured on a GPU that the model never saw."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.config.settings import ShareSettings
from slurmsched.models.registry import shipped
from slurmsched.models.sharing.sharing_model import GpuUse, SharingModel
from slurmsched.policies.sharing import allowed
from slurmsched.policies.sharing_candidates import CURVE_MARGIN, PackingLimits, Sharers

DATA = Path(__file__).parents[1] / "data/gpu"
DEFAULT = ShareSettings()


class Judged(NamedTuple):
    """Which pairs the rule lets share, and the speeds that both kept."""

    shares: np.ndarray
    kept: np.ndarray  #: one row for each pair


def judged(least: float, least_each: float) -> Judged:
    """Let the rule judge each measured pair by what its two jobs used alone."""
    model = shipped().read_as(SharingModel.of_document)
    alone = list(csv.DictReader((DATA / "h200_alone.csv").read_text().splitlines()))
    pairs = list(csv.DictReader((DATA / "h200_pairs_mps.csv").read_text().splitlines()))
    row = {job["job"]: at for at, job in enumerate(alone)}
    use = GpuUse(
        np.array([float(job["gpu_util"]) / 100.0 for job in alone]),
        np.array([float(job["memory_util"]) / 100.0 for job in alone]),
        np.array([float(job["memory_mib"]) for job in alone]),
        np.array([float(job["amp"]) for job in alone]),
    )
    packing = PackingLimits(
        DEFAULT.capacity,
        140_000.0,
        curve=model.speeds.knots(),
        least_speed=least,
        least_speed_each=least_each,
        margin=CURVE_MARGIN,
    )
    guests, hosts = (sharers(use, model, first) for first in (1, 100))
    table = allowed(guests, hosts, packing)
    shares = np.array([table[row[pair["job1"]], row[pair["job2"]]] for pair in pairs])
    kept = np.array([[float(pair["speed1"]), float(pair["speed2"])] for pair in pairs])
    return Judged(shares, kept)


def sharers(use: GpuUse, model: SharingModel, first: int) -> Sharers:
    """The jobs as candidates that nothing but their use of the GPU keeps apart."""
    count = len(use)
    ones, yes, one_user = np.ones(count, dtype=np.int64), np.ones(count, dtype=np.bool_), Labels.of(["alice"] * count)
    return Sharers(
        job_id=np.arange(first, first + count),
        user=one_user,
        kind=one_user,
        gpus=ones,
        open_gpus=ones,
        nodes=ones,
        score=model.score(use),
        memory_mib=use.memory_mib,
        gpu_util=use.gpu_util,
        kept=np.ones(count),
        speed=np.ones(count),
        left_s=np.full(count, 3600.0),
        measured=yes,
        unstable=~yes,
        barred=~yes,
    )


def rates(judgement: Judged, good: np.ndarray) -> tuple[float, float]:
    """Precision and recall."""
    right = np.count_nonzero(judgement.shares & good)
    return right / max(1, np.count_nonzero(judgement.shares)), right / np.count_nonzero(good)


@pytest.mark.parametrize(
    ("least", "each", "least_recall"), [(0.85, 0.65, 0.85), (DEFAULT.least_speed, DEFAULT.least_speed_each, 0.73)]
)
def test_pairs_of_another_gpu_that_may_share_keep_what_was_asked_for(least, each, least_recall):
    judgement = judged(least, each)
    good = (judgement.kept.mean(axis=1) >= least) & (judgement.kept.min(axis=1) >= each)
    precision, recall = rates(judgement, good)
    assert len(judgement.shares) == 30
    assert precision >= 0.97
    assert recall >= least_recall
