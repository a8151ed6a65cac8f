"""Rigid jobs beside the modelled slurmctld, as the preference solver replays them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.errors import ConfigError
from slurmsched.policies.ordering.wfq import FIFO, Wfq
from slurmsched.research.pareto.beside_slurm import BesideSlurm, RigidJobs, contention
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import forecast_of, simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source

FLEET = ClusterSpec.of(2, 8)
SETUP = Setup.of("wfq", "conservative", executor="slurm")
SMALL_FIRST = Wfq((8 * 3600.0, math.inf), (0.9, 0.1), 0.0)


def rigid(jobs: int = 40, load: float = 1.6) -> RigidJobs:
    workload = Source.of(f"synthetic:{jobs}:{load}", FLEET.total).load().workload
    return RigidJobs.of(workload, forecast_of(workload, SETUP, None))


def test_a_replay_is_that_of_simulate_under_the_same_policy():
    sample = rigid()
    mine = BesideSlurm(FLEET, SETUP)(sample, FLEET.total, "srsf")
    theirs = simulate(sample.jobs, FLEET, Setup.of("srsf", "conservative", executor="slurm"))
    assert np.array_equal(mine.jct_s, theirs.end_s - sample.jobs.submit_s)
    assert np.array_equal(sample.service_s, sample.jobs.runtime_s * sample.jobs.gpus)


def test_without_later_arrivals_what_is_predicted_happens_and_with_them_it_does_not():
    sample, beside = rigid(), BesideSlurm(FLEET, SETUP)
    at_once = replace(sample, submit_s=np.zeros(len(sample)), jobs=replace(sample.jobs, submit_s=np.zeros(len(sample))))
    together, apart = (beside(jobs, FLEET.total, FIFO).error for jobs in (at_once, sample))
    assert np.mean(together) < 0.02
    assert np.mean(beside(sample, FLEET.total, SMALL_FIRST).error) > max(np.mean(apart), 0.05)


def test_a_job_that_never_runs_is_an_error():
    sample = rigid(4)
    broad = replace(sample, jobs=replace(sample.jobs, gpus=np.full(4, 17)))
    with pytest.raises(ConfigError, match="17 GPUs"):
        BesideSlurm(FLEET, SETUP)(broad, FLEET.total, FIFO)


def test_other_nodes_are_another_search():
    assert BesideSlurm(FLEET, SETUP).digest == BesideSlurm(ClusterSpec.of(2, 8), SETUP).digest
    assert BesideSlurm(FLEET, SETUP).digest != BesideSlurm(ClusterSpec.of(3, 8), SETUP).digest


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=8))
def test_contention_is_the_mean_of_those_inside_over_the_events_of_a_stay(stays):
    submit_s = np.array(sorted(float(at) for at, _ in stays))
    end_s = submit_s + np.array([float(length) for _, length in stays])
    events = np.sort(np.concatenate([submit_s, end_s]))
    inside = np.array([np.sum((submit_s <= at) & (end_s > at)) for at in events])
    for row, mean in enumerate(contention(submit_s, end_s)):
        assert mean == pytest.approx(inside[(events >= submit_s[row]) & (events < end_s[row])].mean())
