"""Forecast outcomes of compositions on a cluster, from its present state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulator.test_predict_completion import LATER_S, NOW_S, SLURM, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import View
from slurmsched.decide.synthesis import Candidate, Outlook
from slurmsched.foresee.composition_outlooks import ARRIVALS_MOST, composition_outlooks, expected_jobs
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cycle_driver import whole_queue

FIFO, SJF = Candidate("fifo", "accept-all"), Candidate("sjf", "accept-all")
BOUNDED = Candidate("sjf", "load:1")
NONE_ENDED = outcomes_of(())


def outlooks(
    state: View, *candidates: Candidate, ended: OutcomeTable = NONE_ENDED, arrivals_s: float = 0.0
) -> tuple[dict[Candidate, Outlook], Outlook]:
    return composition_outlooks(state, whole_queue(find_ordering("fifo")), candidates, SLURM, ended, arrivals_s)


def ends_s(outlook: Outlook) -> list[float]:
    return [round(end_s - NOW_S) for end_s in outlook.end_s.tolist()]


def ended(*runs: tuple[float, float]) -> OutcomeTable:
    """Runs of four GPUs as (submission before now, runtime)."""
    count = len(runs)
    submit_s = np.array([NOW_S - before_s for before_s, _ in runs])
    ones = np.ones(count, dtype=np.int64)
    words = {name: Labels.of(["x"] * count) for name in ("name", "user", "account", "qos")}
    return OutcomeTable(
        job_id=500 + np.arange(count),
        restart=0 * ones,
        **words,
        partition=Labels.of(["gpu"] * count),
        gpus=4 * ones,
        nodes=ones,
        cpus=ones,
        time_limit_s=np.full(count, 1e5),
        first_submit_s=submit_s,
        eligible_s=submit_s,
        started_s=submit_s,
        ended_s=np.full(count, NOW_S),
        runtime_s=np.array([runtime_s for _, runtime_s in runs]),
        state=np.full(count, int(JobState.COMPLETED)),
    )


def test_each_order_has_its_own_outcome_and_no_delay_has_the_best():
    found, undelayed = outlooks(view((900.0, 4), (300.0, 4), running=((100.0, 4),)), FIFO, SJF)
    assert ends_s(found[FIFO]) == pytest.approx([1000, 1300], abs=2 * LATER_S)
    assert ends_s(found[SJF]) == pytest.approx([1300, 400], abs=2 * LATER_S)
    assert ends_s(undelayed) == [900, 300]
    assert found[SJF].submit_s.tolist() == [NOW_S, NOW_S]


def test_jobs_outside_come_in_by_their_submission_once_those_inside_have_left():
    state = view((900.0, 4), (300.0, 4), (60.0, 4), first_submit_s=NOW_S - np.array([30.0, 20.0, 10.0]))
    found, _ = outlooks(state, SJF, BOUNDED)
    assert ends_s(found[SJF]) == pytest.approx([1260, 360, 60], abs=3 * LATER_S)
    assert ends_s(found[BOUNDED]) == pytest.approx([900, 1200, 1260], abs=3 * LATER_S)


def test_arrivals_of_the_past_come_again_with_their_true_runtimes_and_wait_until_then():
    state = view((400.0, 4), first_submit_s=np.array([NOW_S - 1000.0]))
    found, undelayed = outlooks(state, FIFO, ended=ended((600.0, 50.0), (200.0, 70.0)), arrivals_s=800.0)
    assert ends_s(undelayed) == [400, 250, 670]
    assert ends_s(found[FIFO]) == pytest.approx([400, 450, 670], abs=3 * LATER_S)
    assert (found[FIFO].submit_s - NOW_S).tolist() == [-1000.0, 200.0, 600.0]


def test_a_requeued_job_comes_again_once_and_only_the_latest_arrivals_do():
    state = view((400.0, 4), job_id=[500], first_submit_s=[NOW_S - 100.0])
    runs = ended((100.0, 5.0), (50.0, 7.0))
    assert len(expected_jobs(state, runs, 800.0).pending) == 1, "those since the first one, which itself is not"
    many = ended(*((10_000.0 - at, 1.0) for at in range(ARRIVALS_MOST + 50)))
    assert len(expected_jobs(state, many, 86_400.0).pending) == ARRIVALS_MOST


def test_what_is_not_played_is_in_no_outcome():
    state = view((100.0, 4), (100.0, 4), (100.0, 8), priority=[3, 0, 1])
    found, undelayed = outlooks(state, FIFO)
    assert len(found[FIFO].end_s) == len(undelayed.end_s) == 1, "one is held, one is too large"


def test_tasks_of_an_array_and_holds_of_ours_are_played():
    state = view((100.0, 4), (50.0, 4), tasks=[3, 1], held_by_us=[False, True], eligible_s=NOW_S + np.array([0.0, 9e4]))
    found, _ = outlooks(state, SJF)
    assert ends_s(found[SJF]) == pytest.approx([150, 250, 350, 50], abs=4 * LATER_S)


def test_a_job_without_a_forecast_runs_as_long_as_the_others_on_average():
    state = view((100.0, 4), (300.0, 4))
    state = replace(state, forecast=replace(state.forecast, runtime_s=np.array([100.0, np.nan])))
    _, undelayed = outlooks(state, FIFO)
    assert ends_s(undelayed) == [100, 100]
