"""Figures that the simulator of PCS's authors, run unmodified, gave on the same file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.applications import Applications, applications, read_speedups
from slurmsched.research.elastic.experiment import Policy, replay
from slurmsched.simulator.traces.source import Source

DATA = Path(__file__).parents[3] / "shared" / "data"
GPUS = 64

PUBLISHED = {
    "PCS-jct": Wfq((1182, 29225, 752852, math.inf), (5 / 11, 276 / 1001, 24 / 143, 102 / 1001), 0.884013, 0.742860),
    "PCS-bal": Wfq((3516, 437700, math.inf), (147 / 1000, 36 / 125, 113 / 200), 0.724092, 0.362806),
    "PCS-pred": Wfq((25469, 5123638, math.inf), (941 / 1000, 7 / 125, 3 / 1000), 0.545920, 0.095946),
}

FIGURES: list[tuple[Policy, tuple[float, float, float, float]]] = [
    ("fifo", (1134525, 1585164, 0, 0)),
    ("srsf", (152675, 2195583, 9.40, 158.0)),
    ("afs-l", (158001, 1771050, 10.26, 118.0)),
    (PUBLISHED["PCS-jct"], (181423, 1600020, 6.10, 58.2)),
    (PUBLISHED["PCS-bal"], (208656, 1472817, 5.26, 76.6)),
    (PUBLISHED["PCS-pred"], (284924, 2075445, 2.08, 44.0)),
]


@pytest.fixture(scope="module")
def apps() -> Applications:
    path = DATA / "pcs_trace_ee9e8c.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    known = read_speedups(DATA / "pcs_speedups.json")
    return applications(Source.of(str(path), GPUS).load().jobs("0:301").workload, known)


@pytest.mark.parametrize(("policy", "figures"), FIGURES)
def test_the_first_301_applications_of_ee9e8c_on_64_gpus(apps, policy, figures):
    played = replay(apps, GPUS, policy)
    error = 100 * played.error
    ours = (played.jct_s.mean(), np.percentile(played.jct_s, 99), error.mean(), np.percentile(error, 99))
    assert ours == pytest.approx(figures, rel=3e-3, abs=1e-3)


def test_themis_on_the_same(apps):
    """Its mean error there is 32.07 %: their play-forward takes the work left for the whole and leases late."""
    played = replay(apps, GPUS, "themis")
    ours = (played.jct_s.mean(), np.percentile(played.jct_s, 99), np.percentile(100 * played.error, 99))
    assert ours == pytest.approx((166610, 2291881, 142.2), rel=1e-3)
