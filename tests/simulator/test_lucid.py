"""Lucid in the simulator: beliefs, profiles, modes and who shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.worlds import simulate, trace

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.models.sharing.sharing_model import GpuUse, SharingModel
from slurmsched.models.sharing.speed_curve import SpeedCurve
from slurmsched.models.throughput import Errors, ThroughputModel
from slurmsched.simulator.cluster_spec import ClusterSpec, Mode, PackingSetup, Sharing
from slurmsched.simulator.lucid.belief import believed
from slurmsched.simulator.lucid.modes import APATHETIC, modes
from slurmsched.simulator.lucid.packing import pack, profiled_s
from slurmsched.simulator.lucid.staged import Profiler, staged
from slurmsched.simulator.lucid.truth import completed
from slurmsched.simulator.pair_rules import use_of
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.run import Replay
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload

HALF = SpeedCurve(np.array([0.5, 1.5]), np.array([1.0, 0.5]))


def fleet_of(gpus: int, speed: float, names: tuple[str, ...] = ("a",)) -> ClusterSpec:
    return replace(ClusterSpec.of(1, gpus), sharing=Sharing(names, np.full((len(names),) * 2, speed)))


def use(*rows: tuple[float, float, float]) -> GpuUse:
    util, memory_util, mib = (np.array(column) for column in zip(*rows, strict=True))
    return GpuUse(util, memory_util, mib, np.zeros(len(rows)))


def weighed(jobs: Workload, speed: float, told_s: tuple[float, ...], mode: Mode | None = None) -> Replay:
    fleet = fleet_of(1, speed)
    modes_ = () if mode is None else (mode,)
    packing = PackingSetup(np.full((1, 1), speed), np.zeros(len(jobs)), 0.3, True, np.array(told_s), modes_)
    return simulate(jobs, fleet, Setup.of("fifo"), packing=packing)


def test_a_pair_that_was_not_measured_runs_as_those_with_the_nearest_utilisations():
    speeds = np.array([[0.0, 0.9, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    whole = completed(Sharing(("a", "b", "c"), speeds), np.array([0.2, 0.4, 0.4]))
    assert whole.speeds[0, 1] == 0.9
    assert whole.speeds[1, 0] == 0.8
    assert whole.speeds[2, 0] == pytest.approx(0.85), "both measured pairs stand for it: there are no five"
    assert (whole.speeds > 0).all()


def test_gaps_are_not_filled_from_nothing():
    with pytest.raises(ValueError, match="measured pairs"):
        completed(Sharing(("a",), np.zeros((1, 1))), np.array([0.5]))


def test_the_speed_curve_never_rises_and_knows_nothing_of_the_unmeasured():
    curve = SpeedCurve.fit(np.array([0.2, 0.4, 0.6, 0.8]), np.array([1.0, 0.8, 0.9, 0.5]))
    told = curve.speed(np.linspace(0, 1, 50))
    assert (np.diff(told) <= 0).all()
    assert curve.speed(np.array([np.nan]))[0] == 0
    assert curve.speed(np.array([0.4]))[0] == pytest.approx(0.85)


def test_two_jobs_whose_memory_does_not_fit_are_never_believed_in():
    table = believed(use((0.2, 0.1, 8000), (0.2, 0.1, 16000), (0.2, 0.1, np.nan)), HALF, gpu_mib=24000)
    assert table[0, 0] > 0.9
    assert table[0, 1] == 0, "24,000 MiB are more than 95 % of the GPU"
    assert (table[2] == 0).all(), "what was not measured may not fit"


def test_two_jumbos_are_never_believed_in():
    pytest.importorskip("sklearn")
    rows = [(0.1, 0.1, 1000.0)] * 6 + [(0.9, 0.9, 1000.0)] * 6
    scores = SharingModel.fit(
        use(*rows), np.repeat([0, 2], 6), np.array([0.2, 1.8]), np.array([[0.95, 0.95], [0.5, 0.5]]), seed=1
    )
    table = believed(use((0.1, 0.1, 1000.0), (0.9, 0.9, 1000.0)), HALF, scores)
    assert table[1, 1] == 0
    assert table[0, 1] > 0
    assert table[0, 0] > 0


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(*[st.floats(0, 1)] * 2, st.floats(0, 30000)), min_size=1, max_size=6))
def test_heavier_pairs_are_never_believed_to_be_faster(rows):
    told = believed(use(*rows), HALF)
    sums = np.add.outer(*[np.array([row[0] for row in rows])] * 2)
    for one in range(len(rows)):
        kept = told[one] > 0
        order = np.argsort(sums[one][kept])
        assert (np.diff(told[one][kept][order]) <= 1e-12).all()


def test_gpu_use_of_a_name_is_the_mean_over_its_measured_jobs():
    jobs = trace(*[(0, 1, 1)] * 3, work=["x", "x", "y"], gpu_util=np.array([0.2, 0.4, np.nan]))
    told = use_of(jobs, ("x", "y", "z"))
    assert told.gpu_util[0] == pytest.approx(0.3)
    assert np.isnan(told.gpu_util[1:]).all()


def test_a_profile_is_known_to_later_jobs_of_the_same_user_and_name_only():
    who = {"user": ["u", "u", "u", "v"], "name": ["n"] * 4}
    jobs = trace((0, 1000, 1), (100, 10, 1), (300, 10, 1), (300, 10, 1), **who)
    assert profiled_s(jobs, None, 200.0).tolist() == [200, 200, 0, 200]
    assert profiled_s(jobs.take(slice(2, None)), jobs.take(slice(0, 2)), 200.0).tolist() == [0, 200]


def test_a_job_that_ends_before_it_is_profiled_tells_of_the_next_one():
    jobs = trace((0, 10, 1), (50, 10, 1), user=["u"] * 2, name=["n"] * 2)
    assert profiled_s(jobs)[1] == 0


def test_a_short_job_does_not_join_where_both_lose_more_than_it_would_wait():
    # Alone the second would wait for nobody: the first ends soon, and nobody else waits.
    jobs = trace((0, 10, 1), (9, 100, 1), name=["a"] * 2)
    assert weighed(jobs, 0.4, (10.0, 100.0)).start_s.tolist() == [0, 10]
    assert weighed(jobs, 1.0, (10.0, 100.0)).start_s.tolist() == [0, 9]


def test_a_pair_is_made_for_the_sake_of_those_that_wait_or_are_to_come():
    jobs = trace((0, 100, 1), (1, 100, 1), name=["a"] * 2)
    calm, busy = Mode(-np.inf, 0.3), Mode(-np.inf, 0.3, coming=20.0)
    assert weighed(jobs, 0.6, (100.0, 100.0), calm).start_s.tolist() == [0, 100]
    assert weighed(jobs, 0.6, (100.0, 100.0), busy).start_s.tolist() == [0, 1]


def test_a_mode_holds_until_the_next_begins():
    jobs = trace((0, 100, 1), (1, 10, 1), (50, 10, 1), name=["a"] * 3)
    packing = PackingSetup(
        np.full((1, 1), 0.9), np.zeros(3), 0.3, modes=(Mode(-np.inf, 0.95), Mode(50.0, 0.85), Mode(51.0, 0.95))
    )
    starts = simulate(jobs, fleet_of(1, 0.9), Setup.of("fifo"), packing=packing).start_s
    assert starts[1] == 50, "while 0.95 is asked for nobody joins"


def test_the_order_of_lucid_packs_where_the_fleet_lets_it():
    jobs = trace((0, 100, 1), (1, 10, 1), (2, 50, 1), name=["a"] * 3, user=["u"] * 3)
    known = trace((-500, 1, 1), name=["a"], user=["u"])
    setup = Setup.of("lucid")
    assert simulate(jobs, ClusterSpec.of(1, 1), setup).start_s.tolist() == [0, 100, 110]
    alone = simulate(jobs, fleet_of(1, 0.9), setup)
    assert alone.start_s[1] == 100, "the first is profiled after 200 s, when it has ended"
    packing = pack(jobs, fleet_of(1, 0.9).sharing, jobs.runtime_s, history=known)
    packed = simulate(jobs, fleet_of(1, 0.9), setup, packing=packing)
    assert packed.start_s[1] == 1
    assert violations(packed) == []


def through_profiler(jobs: Workload, known_s: tuple[float, ...], **columns: float) -> Replay:
    """Jobs on a node for the queue and one that profiles, one GPU each, where nobody shares."""
    fleet = replace(ClusterSpec.of(2, 1), sharing=Sharing(("a",), np.zeros((1, 1))))
    setup = Setup.of("fifo", forecast="exact")
    told = simulate(jobs, ClusterSpec.of(1, 1), setup).forecast_s
    forecast = Forecast(told, told, told, Labels.of(["exact"] * len(jobs)))
    packing = PackingSetup(np.zeros((1, 1)), np.array(known_s), 0.3, told_s=told)
    return staged(jobs, fleet, setup, forecast, packing, Profiler(limit_s=20.0, restart_s=5.0, **columns))


def test_a_new_job_runs_where_jobs_are_profiled_until_it_ends_or_begins_anew_in_the_queue():
    jobs = trace((0, 100, 1), (1, 10, 1), (2, 50, 1), name=["a"] * 3)
    replay = through_profiler(jobs, (0.0, 200.0, 200.0))
    assert replay.start_s.tolist() == [0, 1, 100], "the last was profiled from 11 to 31"
    assert replay.end_s.tolist() == [100, 11, 155]
    assert replay.stops.tolist() == [0, 0, 1]


def test_a_new_job_does_not_wait_for_its_profile_for_ever():
    jobs = trace((0, 100, 1), (1, 100, 1), (2, 10, 1), name=["a"] * 3)
    replay = through_profiler(jobs, (200.0, 200.0, 200.0), patience_s=5.0)
    assert replay.stops.tolist() == [1, 0, 0]
    assert replay.start_s[2] > 7, "nobody leaves before the patience is over"


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pairs_that_are_not_believed_in_never_share(data):
    many = data.draw(st.integers(2, 8))
    moments = data.draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), min_size=many, max_size=many))
    names = data.draw(st.lists(st.sampled_from("ab"), min_size=many, max_size=many))
    jobs = trace(*sorted((at, runs, 1) for at, runs in moments), name=Labels.of(names))
    packing = PackingSetup(np.zeros((2, 2)), np.zeros(many), 0.3, True, jobs.runtime_s)
    replay = simulate(jobs, fleet_of(2, 0.9, ("a", "b")), Setup.of("lucid"), packing=packing)
    plain = simulate(jobs, ClusterSpec.of(1, 2), Setup.of("qssf"))
    assert replay.end_s.tolist() == pytest.approx(plain.end_s.tolist())


def steady(per_step: int, steps: int, since: int = 0) -> Workload:
    at = np.repeat(np.arange(since, since + steps), per_step) * 600.0
    return trace(*[(float(moment), 60.0, 1) for moment in at])


def test_little_that_stays_little_is_an_idle_mode_and_a_usual_step_is_not():
    model = ThroughputModel({"jobs": None, "gpus": None}, {name: Errors(np.inf, 0.0) for name in ("jobs", "gpus")})
    history, quiet = steady(4, 300), steady(1, 40, since=300)
    found = modes(model, quiet, history)
    assert found[0].from_s == -np.inf
    assert found[-1].least == APATHETIC
    assert not found[-1].first
    usual = modes(model, steady(4, 40, since=300), history)
    assert all(mode.first and mode.coming == 0 for mode in usual[1:])


def test_what_is_forecast_beyond_what_came_counts_as_waiting():
    model = ThroughputModel({"jobs": None, "gpus": None}, {name: Errors(np.inf, 0.0) for name in ("jobs", "gpus")})
    # The median of the twelve steps before still tells of a busy hour when submissions stop.
    found = modes(model, steady(1, 3, since=302), steady(6, 300))
    assert max(mode.coming for mode in found) > 0


def test_an_eager_policy_counts_all_that_is_forecast():
    model = ThroughputModel({"jobs": None, "gpus": None}, {name: Errors(np.inf, 0.0) for name in ("jobs", "gpus")})
    found = modes(model, steady(4, 40, since=300), steady(4, 300), eager=True)
    assert {mode.coming for mode in found[1:]} == {24.0}


def test_modes_look_at_nothing_that_comes_later():
    model = ThroughputModel({"jobs": None, "gpus": None}, {name: Errors(np.inf, 0.0) for name in ("jobs", "gpus")})
    history = steady(3, 300)
    early, more = steady(2, 20, since=300), steady(9, 20, since=320)
    short, long = modes(model, early, history), modes(model, early.joined(more), history)
    assert short == long[: len(short)]
