"""The selections that Chronus is compared with: fixed parts of the GPUs, and a plan of jobs that run to their end."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, trace, worlds

from examples import examples
from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.deadlines import Deadlines
from slurmsched.simulator.report.metrics import summary, violations
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.workload import Workload

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("SLURMSCHED_TRACES", ROOT.parent / "shared/data"))
MINUTE_S = 60.0
INF = np.inf


def minutes(*rows: tuple[float, float, int, float]) -> Workload:
    """Jobs as (submit, runtime, GPUs, deadline) in minutes, in order of submission; infinite without a deadline."""
    jobs = [(submit * MINUTE_S, runtime * MINUTE_S, gpus) for submit, runtime, gpus, _ in rows]
    due_s = [deadline * MINUTE_S for *_, deadline in rows]
    return trace(*jobs, deadline_s=due_s, best_effort=np.isinf(due_s))


def ends_min(replay: Replay) -> list[float]:
    return (replay.end_s / MINUTE_S).tolist()


def run(jobs: Workload, gpus: int, selection: str, ordering: str = "fifo") -> Replay:
    return decided(jobs, ClusterSpec.of(1, gpus), Setup.of(ordering, selection, beat_s=300.0))


def test_yarn_gives_no_job_the_part_of_the_others():
    jobs = minutes((0, 60, 1, INF), (0, 60, 1, INF), (0, 60, 1, 500), (0, 60, 1, 500))
    assert ends_min(run(jobs, 2, "yarn-cs")) == [60, 120, 60, 120]
    assert ends_min(run(jobs, 4, "yarn-cs 0.25")) == [60, 60, 60, 120]


def test_nothing_passes_a_job_of_its_own_queue_under_yarn():
    jobs = minutes((0, 60, 1, INF), (1, 10, 2, INF), (2, 10, 1, INF), (3, 10, 1, 500))
    assert ends_min(run(jobs, 4, "yarn-cs share=0.5")) == [60, 70, 80, 15]


def test_a_job_wider_than_the_part_of_its_queue_gets_room_and_runs():
    jobs = minutes((0, 60, 1, INF), (0, 60, 1, INF), (0, 60, 3, 500), (0, 60, 1, INF))
    assert ends_min(run(jobs, 4, "yarn-cs share=0.25")) == [60, 120, 60, 120]


def test_where_the_widest_jobs_do_not_fit_beside_each_other_there_is_one_queue():
    jobs = minutes((0, 10, 2, INF), (0, 60, 4, INF), (0, 10, 1, 500))
    assert ends_min(run(jobs, 4, "yarn-cs")) == [10, 70, 80]


@pytest.mark.parametrize("words", ["share=2", "share=most", "1 2", "part=0.5"])
def test_a_share_that_is_none_is_refused_with_what_is_accepted(words):
    with pytest.raises(ConfigError, match="share=X from 0 to 1"):
        Setup.of("fifo", f"yarn-cs {words}")


def test_3sigma_never_stops_a_job_that_can_meet_its_deadline():
    jobs = minutes((0, 100, 1, 300), (5, 20, 1, 25))
    replay = run(jobs, 1, "3sigma", "srtf")
    assert replay.stops.sum() == 0
    assert ends_min(replay) == [100, 120]


def test_best_effort_and_jobs_that_must_be_late_yield_to_the_plan_of_3sigma():
    for due in (INF, 50):
        jobs = minutes((0, 100, 1, due), (5, 20, 1, 45))
        assert ends_min(run(jobs, 1, "3sigma", "srtf")) == [120, 25]


def test_3sigma_runs_the_jobs_that_meet_most_deadlines_together():
    jobs = minutes((0, 60, 4, 65), (0, 60, 2, 70), (0, 60, 2, 70))
    assert ends_min(run(jobs, 4, "3sigma", "srtf")) == [120, 60, 60]


@pytest.mark.parametrize(("ordering", "selection"), [("fifo", "yarn-cs"), ("srtf", "3sigma"), ("las", "3sigma")])
@examples(15)
@given(world=worlds(), beat_s=st.sampled_from([0.0, 5.0]))
def test_in_any_world_every_job_runs_whole_and_none_is_lost(ordering, selection, world, beat_s):
    jobs, fleet = world
    replay = decided(jobs, fleet, Setup.of(ordering, selection, beat_s=beat_s, restart_s=2.0))
    assert violations(replay) == []


@pytest.mark.skipif(
    not (DATA / "chronus_philly_mix1.csv").exists(),
    reason="needs Chronus' whole traces in $SLURMSCHED_TRACES: tests/data/README.md says where they are from",
)
@pytest.mark.parametrize(
    ("ordering", "selection", "figures"),
    [
        ("srtf", "preemptive", (0.0810, 217.0)),
        ("edf rest=remaining", "preemptive", (0.0014, 717.6)),
        ("edf rest=remaining late=rest", "preemptive", (0.0014, 673.9)),
        ("laxity within_s=1200", "preemptive", (0.0000, 246.9)),
        pytest.param("fifo", "yarn-cs share=0.70054", (0.8119, 571.1), marks=pytest.mark.soak),
        pytest.param("srtf", "3sigma", (0.0985, 798.9), marks=pytest.mark.soak),
    ],
)
def test_on_a_contended_day_of_chronus_own_trace_the_figures_are_those_of_the_page(ordering, selection, figures):
    source = Source.of(str(DATA / "chronus_philly_mix1.csv"), 480).load().workload
    day = source.take((source.gpus > 0) & (source.submit_s <= 1440 * MINUTE_S))
    setup = Setup.of(ordering, selection, placement="pool", beat_s=300.0, restart_s=30.0, restart_doubling_s=30.0)
    replay = simulate(day, ClusterSpec.of(60, 8), setup)
    best_effort_min = summary(replay).best_effort_jct_s / MINUTE_S
    assert Deadlines.of(replay).unearned == pytest.approx(figures[0], abs=6e-5)
    assert best_effort_min == pytest.approx(figures[1], abs=0.06)
