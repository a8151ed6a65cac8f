"""The answer to a new job with a deadline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from lease_worlds import best_of_all, problem, problems

from slurmsched.policies.deadlines.lease_admission import AdmissionResult, admit


def test_a_job_with_room_is_promised_its_deadline_and_told_its_slack():
    asked = problem((4, 2, [(3, 1)], "promised"), (4, 2, [(7, 1)]), horizon=10)
    assert admit(asked, 1) == AdmissionResult(step=0, slack=3, earliest=4)


def test_a_job_without_room_is_told_when_it_could_end():
    asked = problem((4, 2, [(2, 1)], "promised"), (4, 2, [(3, 1)]), horizon=10)
    assert admit(asked, 1) == AdmissionResult(step=-1, slack=0, earliest=4)


def test_a_job_with_steps_is_promised_the_first_that_can_be_kept():
    asked = problem((4, 2, [(2, 1)], "promised"), (4, 2, [(3, 10), (5, 8)]), horizon=10)
    assert admit(asked, 1) == AdmissionResult(step=1, slack=1, earliest=4)


def test_a_job_that_runs_and_cannot_stop_is_planned_around():
    asked = problem((4, 3, [], "fixed"), (4, 2, [(4, 1)]), horizon=10)
    assert admit(asked, 1) == AdmissionResult(step=-1, slack=0, earliest=5)


def test_a_job_longer_than_the_horizon_is_told_of_no_end():
    assert admit(problem((1, 9, [(4, 1)])), 0) == AdmissionResult(step=-1, slack=0, earliest=None)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_a_promise_is_only_made_where_a_plan_keeps_it_and_all_before(asked):
    answer = admit(asked, len(asked) - 1)
    if answer.step < 0 or asked.fixed[-1]:
        return
    promised = np.where(np.arange(len(asked)) == len(asked) - 1, answer.step, asked.promised)
    best = best_of_all(replace(asked, promised=promised))
    assert best.kept == np.count_nonzero(promised >= 0)
