"""Nodes that power saving switches off and on: when each can run jobs again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.power_saving import LEAST, NodePower, ResumeTimes, power_of
from slurmsched.cluster.state import ClusterState
from slurmsched.decide.rules import Rules
from slurmsched.explain.eta import etas
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.research.conformance.random_views import (
    NOW_S,
    forecast,
    jobs,
    nodes,
    partitions,
    qos,
    running_jobs,
    view,
)

CONFIG = {"ResumeTimeout": "90 sec", "SuspendTimeout": "6 sec"}
OFF, COMES, GOES = "idle+powered_down", "mixed+not_responding+powering_up", "idle+powering_down"


def state(*states: str, runs: tuple[tuple[JobState, float], ...] = ()) -> ClusterState:
    """Nodes n1, n2, ... in these states; jobs on n1 with their states and starts."""
    room = replace(nodes((4,) * len(states)), state=Labels.of(states))
    its = running_jobs(len(runs), state=[int(one) for one, _ in runs], started_s=[start_s for _, start_s in runs])
    none = job_table(0)
    return ClusterState(none, its, none, room, partitions(), qos())


def after(*seen: tuple[float, ClusterState]) -> list[float]:
    """What the last of some states says of its nodes."""
    now = [0.0]
    times = ResumeTimes(lambda: now[0], lambda: CONFIG)
    for now[0], one in seen:
        filled = times.filled(one)
    return filled.nodes.ready_s.tolist()


@pytest.mark.parametrize(
    ("text", "power"),
    [
        ("idle", NodePower.UP),
        ("idle+cloud+powered_down", NodePower.DOWN),
        ("IDLE+POWERING_DOWN", NodePower.GOING_DOWN),
        ("idle+power_down", NodePower.GOING_DOWN),
        (COMES, NodePower.COMING_UP),
    ],
)
def test_power_is_read_from_the_state(text, power):
    assert power_of(text) == power


def test_before_anything_was_seen_slurms_timeouts_hold():
    assert after((100.0, state("idle", OFF, COMES, GOES))) == [0.0, 90.0, 90.0, 96.0]
    assert after((100.0, state(COMES, GOES)), (110.0, state(COMES, GOES))) == [80.0, 91.0]


def test_a_node_is_powering_up_since_slurm_gave_it_to_a_job():
    assert after((100.0, state(COMES, runs=((JobState.CONFIGURING, 70.0),)))) == [60.0]


def resume(at_s: float, took_s: float) -> list[tuple[float, ClusterState]]:
    """A job gets n1, waits for it, and runs; looked at now and then."""
    return [
        (at_s + 4.0, state(COMES, OFF, runs=((JobState.CONFIGURING, at_s),))),
        (at_s + took_s - 1.0, state("mixed", OFF, runs=((JobState.CONFIGURING, at_s),))),
        (at_s + took_s + 9.0, state("mixed", OFF, runs=((JobState.RUNNING, at_s + took_s),))),
        (at_s + took_s + 60.0, state(OFF, OFF)),
    ]


def test_after_some_resumes_nodes_of_the_kind_take_what_those_took():
    seen = [look for number in range(LEAST) for look in resume(1_000.0 * number, 20.0 + number)]
    assert after(*seen) == [21.0, 21.0]
    assert after(*seen[:-4]) == [90.0, 90.0], "two say nothing"
    late = [*seen, (9_000.0, state(COMES, OFF)), (9_030.0, state(COMES, OFF))]
    assert after(*late) == [30.0, 21.0], "it has taken longer than ever: as long again, until Slurm gives it up"


def test_a_node_that_failed_or_whose_job_was_cancelled_teaches_nothing():
    waits = (JobState.CONFIGURING, 0.0)
    seen = [(4.0, state(COMES, runs=(waits,))), (50.0, state("mixed")), (99.0, state(OFF))] * (LEAST + 1)
    assert after(*seen) == [90.0]


def off(**columns: object):
    """A job before one node that is up and full and one that is switched off."""
    room = replace(nodes((4, 4), (4, 0)), state=Labels.of(["allocated", OFF]), ready_s=np.array([0.0, 240.0]))
    room = replace(room, cpus=room.cpus + 100)
    running = running_jobs(1, gpus=[4], started_s=[NOW_S - 10.0], time_limit_s=[1e6])
    seen = view(jobs(1, time_limit_s=[7_200.0], **columns), running=running, room=room)
    one = partitions().take(slice(0, 1)).changed(name=Labels.of(["gpu"]), nodes=Labels.of(["n[1-2]"]))
    return replace(seen, partitions=one, forecast_running=forecast([5_010.0]))


SLURM = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0"}


def test_a_job_starts_when_its_node_has_powered_up():
    seen = off()
    plan = decide(seen, find_ordering("fifo"), Rules())
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, SLURM)
    assert table.start_s[0] - NOW_S == 240.0
    assert table.finish_s[0] - NOW_S == 840.0
    assert etas(table, NOW_S, [0])[0].derivation.endswith(", after about 4 min to power up its nodes")
    assert seen.gpus_free_s[1].tolist() == [240.0] * 4
    assert "it runs once they have powered up, after about 4 min" in why(seen, plan, Rules(), 1).reason


def test_a_job_does_not_wait_for_a_node_that_comes_free_sooner_than_one_powers_up():
    seen = off()
    soon = replace(seen, forecast_running=forecast([60.0]))
    plan = decide(soon, find_ordering("fifo"), Rules())
    table = predict_completion(soon, plan.jobs.rank, plan.jobs.standing, SLURM)
    assert table.start_s[0] - NOW_S == 240.0, "Slurm gives it the node that is switched off at once"


def test_what_runs_on_nodes_that_power_up_has_all_of_its_runtime_ahead():
    seen = off()
    waits = running_jobs(1, state=[int(JobState.CONFIGURING)], gpus=[4], node_list=["n2"], started_s=[NOW_S - 60.0])
    seen = replace(seen, running=waits, forecast_running=forecast([600.0]))
    assert seen.remaining.median_s.tolist() == [840.0]
    assert (
        "it runs when all of them are" in why(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), 901).reason
    )
