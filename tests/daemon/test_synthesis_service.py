"""The play-forward of compositions beside the daemon's cycles."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from daemon.daemon_worlds import report, view

from slurmsched.clock import ManualClock
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.config import Settings
from slurmsched.config.settings import PolicySettings, PowerSettings
from slurmsched.cycle import CycleReport
from slurmsched.daemon.active_policy import ActivePolicy
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.daemon.synthesis_service import CompositionPlayer, SynthesisFailed, SynthesisService, contended
from slurmsched.decide.synthesis import PlayRequest
from slurmsched.lab.waiting import wait_until
from slurmsched.simulator.cluster_spec import nodes_of

LINE = "auto orderings=fifo,sjf loads=all rounds=3"


def chosen() -> ActivePolicy:
    settings = Settings(policy=PolicySettings(ordering=LINE), power=PowerSettings(order=True))
    return ActivePolicy(policy_of, settings, dict)


def crowded(number: int) -> CycleReport:
    world = view()
    return report(number, view=replace(world, pending=replace(world.pending, gpus=np.array([1, 1]))))


@pytest.mark.parametrize(
    ("worker", "timeout_s", "problem"),
    [
        ("tests.policies.dying_solver", 300.0, "has died"),
        ("tests.policies.hanging_solver", 0.2, "took longer than 0.2 s"),
    ],
)
def test_without_an_answer_the_composition_stays_and_the_daemon_says_why(worker, timeout_s, problem):
    active, played = chosen(), []
    player = CompositionPlayer(worker, timeout_s)
    rest = (lambda: active.policy, dict, lambda _: outcomes_of(()), ManualClock(0.0), played.append)
    service = SynthesisService(active, player, *rest)
    for number in (1, 2):
        service.observe(crowded(number))
    service.once()
    assert not played, "the third cycle is the first that is played"
    service.start()
    service.observe(crowded(3))
    wait_until(lambda: played, 120.0, "a forecast that failed")
    assert math.isnan(played[0])
    assert problem in service.trouble
    assert service.take() is None
    service.close()


def test_a_process_that_cannot_be_started_costs_a_forecast_and_not_the_thread():
    player = CompositionPlayer("m" * 200_000)
    for _ in range(2):
        with pytest.raises(SynthesisFailed, match="cannot be started"):
            player.play(PlayRequest(LINE, view(), "{}", (), {}, outcomes_of(())))
    player.close()


def test_a_state_that_cannot_be_played_is_an_error_of_one_forecast():
    player = CompositionPlayer("slurmsched.foresee.synthesis_worker")
    try:
        for _ in range(2):
            with pytest.raises(SynthesisFailed, match="the play-forward failed: ConfigError: this is no policy"):
                player.play(PlayRequest(LINE, view(), "no policy", (), {}, outcomes_of(())))
    finally:
        player.close()


def test_there_is_nothing_to_choose_while_all_jobs_have_room():
    world = view()
    table = {"pending": replace(world.pending, gpus=np.array([2, 2]), tasks=np.array([1, 2]))}
    world = replace(world, **table, running=replace(world.running, gpus=np.array([2])))
    for gpus, crowded in ((8, False), (7, True)):
        assert contended(replace(world, nodes=nodes_of(1, gpus))) is crowded
