"""Nobody waits much less for having steered the forecasts of his jobs, and nobody else pays for the cure."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from gaming import (
    DAY_S,
    GAIN,
    HOUR_S,
    LOSS,
    NEVER,
    ORDERINGS,
    STRATEGIES,
    Gamed,
    Strategy,
    alternating,
    bait_under_fresh_names,
    gamed,
    honest,
    waits,
)

from slurmsched.cluster.forecast import Forecast
from slurmsched.models.runtime.overruns import FAR_FOR_MEDIANS
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, repeating
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.trace_forecasts import learnt, trained
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers
from slurmsched.simulator.workload.workload import Workload

FLEET, GPUS = ClusterSpec.of(1, 64), 8
DRAWS, MORE_DRAWS = 1, 3  #: of the moments of the cheater's jobs: thirty waits in a crowded month scatter


@pytest.fixture(scope="module")
def sites() -> list[Workload]:
    """Two sites with nearly all of 64 GPUs in use."""
    specs = (
        SyntheticSpec(jobs=4000, cluster_gpus=64, load=0.95, seed=n, habits=SyntheticUsers(users=40)) for n in (1, 2)
    )
    return [synthetic(spec) for spec in specs]


@cache
def with_cheater(site: Workload, strategy: Strategy, seed: int) -> Gamed:
    return gamed(site, strategy, GPUS, seed)


@cache
def known(of: Gamed, far: float) -> Forecast:
    return learnt(of.jobs, far=far)


@cache
def known_to_a_model(of: Gamed) -> Forecast:
    return trained(of.jobs, every_s=15 * DAY_S, how=repeating(LAST_OF_NAME))


def waited_h(sites, strategy, draws: int, far: float = FAR_FOR_MEDIANS, orderings=ORDERINGS) -> np.ndarray:
    """Mean wait of the cheater's jobs, and of all others', in each ordering: shape (orderings, 2)."""
    found = []
    for site, seed in product(sites, range(draws)):
        of = with_cheater(site, strategy, seed)
        forecast = known(of, far)
        found.append([waits(of, forecast, FLEET, ordering) for ordering in orderings])
    return np.mean([[(w.cheater_h, w.others_h) for w in row] for row in found], axis=0)


@pytest.fixture(scope="module", params=[DRAWS, pytest.param(MORE_DRAWS, marks=pytest.mark.soak)])
def draws(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def honestly(sites, draws) -> np.ndarray:
    return waited_h(sites, honest, draws)


def test_without_records_of_overruns_bait_pays_several_times_over(sites, draws):
    fair, baited = (waited_h(sites, how, draws, NEVER, ("sjf",))[0, 0] for how in (honest, bait_under_fresh_names))
    assert fair > 4 * baited


LONG = ("alternating", "colluding pair")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in STRATEGIES]
)
def test_no_strategy_shortens_the_cheaters_waits_by_much(sites, honestly, draws, name):
    gain = honestly[:, 0] / waited_h(sites, STRATEGIES[name], draws)[:, 0]
    assert (gain <= GAIN).all(), dict(zip(ORDERINGS, gain.round(2), strict=True))


def test_where_nobody_cheats_jobs_take_no_longer(sites, honestly, draws):
    runtime_h = np.mean([site.runtime_s.mean() for site in sites]) / HOUR_S
    before, after = (waited[:, 1] + runtime_h for waited in (waited_h(sites, honest, draws, NEVER), honestly))
    assert (after <= LOSS * before).all(), (after / before).round(3)


def test_records_move_the_order_and_no_forecast(sites):
    of = with_cheater(sites[0], bait_under_fresh_names, 0)
    without, ranked = known(of, NEVER), known(of, FAR_FOR_MEDIANS)
    for name in ("low_s", "runtime_s", "high_s"):
        assert np.array_equal(getattr(without, name), getattr(ranked, name))
    assert not without.floor_s.any()
    theirs = of.job >= 0
    assert (ranked.rank_s[theirs] > 10 * ranked.runtime_s[theirs]).mean() > 0.8


@pytest.mark.parametrize("strategy", [bait_under_fresh_names, alternating])
def test_bait_does_not_pay_against_a_trained_model_either(sites, strategy):
    waited = []
    for how in (honest, strategy):
        of = with_cheater(sites[0], how, 0)
        waited.append([waits(of, known_to_a_model(of), FLEET, ordering).cheater_h for ordering in ORDERINGS])
    assert (np.divide(*waited) <= GAIN).all()
