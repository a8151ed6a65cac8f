"""How far a replay has come, by the order of events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import whole_queue
from slurmsched.simulator.replay_progress import PROGRESS, STEPS
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import STOCK, Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic

FLEET = ClusterSpec.of(2, 8)


def jobs(many: int):
    made = synthetic(SyntheticSpec(jobs=many, cluster_gpus=16, load=1.2, median_s=900.0, spread=1.0))
    return replace(made, time_limit_s=2 * made.runtime_s)


@pytest.fixture
def told():
    events: list[object] = []
    token = PROGRESS.set(lambda done, total: events.append((done, total)))
    yield events
    PROGRESS.reset(token)


def test_stock_slurm_is_told_before_and_on_the_way_and_is_the_same_as_in_one_go(told):
    some = jobs(300)
    replay = simulate(some, FLEET, Setup.of(STOCK, "conservative"))
    assert told[0] == (0, 300)
    assert told == sorted(told)
    assert len(told) == STEPS + 1
    assert told[-1] == (300, 300)
    whole = SimulatedCluster(some, FLEET, SlurmConf())
    whole.advance(np.inf)
    assert np.array_equal(replay.end_s, whole.model.stage.life.ended_s)


def test_an_order_of_ours_is_told_before_its_first_decision_and_after_each(told):
    sjf = find_ordering("sjf")

    def decides(view):
        told.append("decides")
        return sjf.function(view)

    policy = whole_queue(replace(sjf, function=decides))
    simulate(jobs(40), FLEET, Setup.of_site(policy, 60.0, "sjf"))
    assert told[:2] == [(0, 40), "decides"]
    cycles = [event for event in told if event != "decides"]
    assert cycles == sorted(cycles)
    assert cycles[-1] == (40, 40)
    assert len(cycles) > 20
