"""Replays whose composition of ordering and admission is chosen by playing the present state forward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_decided import demand_equal
from simulator.test_direct import jobs_of, some_jobs
from simulator.worlds import simulate

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.decide.synthesis import Candidate, SynthesisRules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.placement import CONSOLIDATE
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.cycle_driver import IdealDriver, composed
from slurmsched.simulator.engine.keys import Keys
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import direct, rules_of, run_direct
from slurmsched.simulator.machine.starters import reorder
from slurmsched.simulator.ordering_keys import keys_of
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import (
    Controller,
)
from slurmsched.simulator.synthesizer import Synthesizer
from slurmsched.simulator.workload.workload import Workload

POOL = ClusterSpec.of(1, 3)


def exact(jobs: Workload, runtime_s: np.ndarray | None = None) -> Forecast:
    found = jobs.runtime_s if runtime_s is None else runtime_s
    return Forecast(found, found, found, Labels.of(["exact"] * len(jobs)))


def before_first_event(jobs: Workload, keys: Keys, beat_s: float = 1.0) -> Controller:
    rules = rules_of("preemptive", beat_s, 1000)
    return direct(jobs, POOL, rules, keys, np.full(len(jobs), CONSOLIDATE))


@examples(25)
@given(
    jobs=some_jobs(3),
    name=st.sampled_from(["fifo", "srtf", "las", "tiresias steps=4,9"]),
    admission=st.sampled_from([np.inf, 1.0, 1.4]),
    beat_s=st.sampled_from([1.0, 4.0]),
)
def test_with_one_candidate_a_replay_is_that_of_the_candidate(jobs, name, admission, beat_s):
    loads = "all" if admission == np.inf else f"{admission}"
    fixed = Setup.of(name, "preemptive", placement="pool", admission=admission, beat_s=beat_s, restart_s=1.0)
    rules = replace(SynthesisRules.of(f"auto loads={loads} rounds=2"), orderings=(name,))
    auto = replace(Setup.of("auto", placement="pool", beat_s=beat_s, restart_s=1.0), synthesis=rules)
    demand_equal(simulate(jobs, POOL, auto), simulate(jobs, POOL, fixed))


@examples(25)
@given(data=st.data(), names=st.permutations(["fifo", "srtf", "las"]))
def test_a_switch_is_what_decide_makes_of_the_other_ordering_from_then_on(data, names):
    jobs = data.draw(some_jobs(3))
    at_s = data.draw(st.sampled_from(sorted(set(jobs.submit_s.tolist()))))
    before, after = (Setup.of(name, "preemptive", placement="pool") for name in names[:2])
    forecast = forecast_of(jobs, before, None)
    keys = [keys_of(jobs, setup.ordering, forecast) for setup in (before, after)]
    model = run_direct(before_first_event(jobs, keys[0], 0.0), float(np.nextafter(at_s, -np.inf)))._replace(
        given=keys[1]
    )
    reorder(model, at_s)
    life = run_direct(model).stage.life

    cluster = IdealCluster(jobs, POOL, SlurmConf(rules_of("preemptive", 0.0, 1000)))
    driver = IdealDriver(
        cluster,
        composed(before.ordering, before.composition, admission=before.admits),
        FixedForecast(jobs.job_id, forecast),
    )
    while cluster.advance_to_decision():
        if cluster.now_s >= at_s:
            driver.context.policy = composed(after.ordering, after.composition, admission=after.admits)
        driver.cycle(cluster.now_s)
        cluster.decided()
    assert cluster.model.stage.life.first_s.tolist() == life.first_s.tolist()
    assert cluster.model.stage.life.ended_s == pytest.approx(life.ended_s)


def test_forecasts_alone_are_played_forward_and_never_the_truth():
    jobs = jobs_of((0, 50, 3), (1, 60, 3), (2, 10, 3))
    believed_s = np.array([40.0, 30.0, 20.0])
    rules = SynthesisRules.of("auto orderings=fifo,srtf loads=all arrivals=0")
    for truth_s in (jobs.runtime_s, np.array([500.0, 700.0, 900.0])):
        world = replace(jobs, runtime_s=truth_s)
        forecast = exact(world, believed_s)
        empty = before_first_event(world, keys_of(world, find_ordering("fifo"), forecast))
        synthesizer = Synthesizer(world, forecast, rules, empty)
        assert synthesizer.advance(10.0)
        outlook, undelayed = synthesizer.outlooks(10.0)
        assert outlook[Candidate("fifo", "accept-all")].end_s.tolist() == [40, 70, 90]
        assert undelayed.end_s.tolist() == [40, 40, 30]
        assert outlook[Candidate("srtf", "accept-all")].end_s.tolist() == [60, 90, 30]


def test_short_jobs_behind_long_ones_make_it_leave_fifo_and_a_second_switch_takes_its_time():
    jobs = jobs_of((0, 5000, 3), (10, 4000, 3), *[(20 + at, 30, 3) for at in range(20)])
    replay = simulate(jobs, POOL, Setup.of("auto orderings=fifo,srtf loads=all", beat_s=60.0))
    figures = replay.synthesis
    assert (figures.switches, [(one.before, one.after) for one in figures.changes]) == (1, [("fifo", "srtf")])
    assert "% of the delay under fifo" in figures.changes[0].reason
    assert figures.decisions >= 1
    fifo, srtf = (
        simulate(jobs, POOL, Setup.of(name, "preemptive", beat_s=60.0)).end_s.mean() for name in ("fifo", "srtf")
    )
    assert srtf <= replay.end_s.mean() < fifo


def test_jobs_that_all_have_gpus_need_no_decision():
    assert simulate(jobs_of((0, 5, 1), (1, 5, 2)), POOL, Setup.of("auto")).synthesis.decisions == 0


def test_what_it_cannot_play_forward_is_refused():
    for line, parts, problem in (
        ("auto", {"executor": "slurm"}, "is not what slurmctld does"),
        ("auto", {"selection": "strict"}, "accepted is selection preemptive"),
        ("auto orderings=themis,fifo", {}, "themis: accepted are orderings whose keys do not change with time"),
        ("auto", {"admission": 1.2}, "chooses the admission itself"),
    ):
        with pytest.raises(ConfigError, match=problem):
            Setup.of(line, **parts)
    kinds = replace(POOL, nodes=nodes_of(1, 3, cpus=np.array([500])))
    with pytest.raises(ConfigError, match="one pool of equal nodes"):
        simulate(jobs_of((0, 5, 1)), kinds, Setup.of("auto"))
