"""Promises in a crowd, in leases as planned and beside a modelled slurmctld: with exact runtimes, none is broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.decisions import DecisionFigures
from slurmsched.simulator.run import decided, simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload

COSTS = {"restart_s": 30.0, "restart_doubling_s": 30.0}
FLEET = ClusterSpec.of(2, 4)
PROMISES = DeadlineRules(
    yields=True, slack_s=3600.0, restart_s=60.0, restart_doubling_s=30.0, hold_s=120.0, again_s=600.0, asks_a_day=10
)


def crowd(seed: int, count: int = 60) -> Workload:
    """Jobs of 8 hours that ask for several times the GPUs, most with a deadline and all with ``ckpt``."""
    random = np.random.default_rng(seed)
    runtime_s = np.rint(np.clip(np.exp(random.normal(np.log(3000.0), 1.1, count)), 600.0, 40_000.0))
    submit_s = np.sort(random.uniform(0.0, 8 * 3600.0, count))
    within_s = runtime_s * random.uniform(1.2, 3.0, count) + 300.0
    has = random.random(count) < 0.75
    return workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=submit_s,
        runtime_s=runtime_s,
        gpus=random.choice([1, 2, 4, 8], count, p=[0.7, 0.12, 0.12, 0.06]),
        deadline_s=np.where(has, submit_s + within_s, np.inf),
        best_effort=~has,
        ckpt=np.ones(count, dtype=np.bool_),
    )


def widened(jobs: Workload) -> Workload:
    """The same jobs with four GPUs in place of one."""
    return replace(jobs, gpus=np.where(jobs.gpus == 1, 4, jobs.gpus))


def on_slurm(jobs: Workload, rules: DeadlineRules = PROMISES) -> DecisionFigures:
    """The decisions of a daemon beside a modelled slurmctld."""
    policy = Policy(
        find_ordering("chronus"),
        Rules(powers=frozenset({"order", "hold", "requeue"}), scope="queue", deadlines=rules),
    )
    made = simulate(jobs, FLEET, Setup.of_site(policy, 60.0, "chronus", forecast="exact", **COSTS))
    assert made.decisions is not None
    return made.decisions


def in_leases(jobs: Workload, beat_s: float) -> DecisionFigures:
    """The decisions where plans happen as they are, every *beat_s*, or at each event too where that is 0."""
    made = decided(jobs, FLEET, Setup.of("chronus", "leases", placement="pool", beat_s=beat_s, **COSTS), None)
    assert made.decisions is not None
    return made.decisions


@pytest.mark.parametrize(("seed", "beat_s"), [pytest.param(0, 300.0, marks=pytest.mark.soak), (1, 300.0), (1, 0.0)])
def test_no_promise_is_broken_in_leases_in_a_crowd(seed, beat_s):
    found = in_leases(crowd(seed), beat_s)
    assert found.promised >= 40
    assert found.broken == 0


def test_promised_jobs_take_turns_where_less_than_these_would_break_a_promise():
    found = in_leases(widened(crowd(1)), 300.0)
    assert found.promised >= 15
    assert found.broken == 0


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 2, 3, 4, 5))])
def test_no_promise_is_broken_beside_slurm_in_a_crowd(seed):
    found = on_slurm(crowd(seed))
    assert found.promised >= 20
    assert found.broken == 0


def test_wide_jobs_that_pay_more_for_each_stop_keep_their_promises():
    found = on_slurm(widened(crowd(1)))
    assert found.promised >= 5
    assert found.broken == 0
