"""From when on a decision may differ by time alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, running_jobs, view

from slurmsched.cluster.jobs import SETTLE_S
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.decide.rules import DeadlineRules, ProfilingRules, ResizingRules, Rules, SharingRules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

SJF = find_ordering("sjf")


def change_s(seen, rules: Rules, start_by_s: float = np.nan) -> float:
    plan = decide(seen, SJF, rules)
    promises = promise_table(1, job_id=[1], state=[PromiseState.OPEN], start_by_s=[start_by_s])
    return next_change_s(seen, replace(plan, promises=promises), SJF, rules)


def test_an_order_alone_changes_only_with_the_jobs():
    assert change_s(view(jobs(2)), Rules()) == np.inf


@pytest.mark.parametrize(("yields", "early_s"), [(False, 150.0), (True, 270.0)])
def test_a_promised_job_becomes_due_before_its_latest_start(yields, early_s):
    rules = Rules(deadlines=DeadlineRules(lead_s=120.0, hold_s=30.0, stop_s=120.0, yields=yields, lease_s=86400.0))
    assert change_s(view(jobs(1)), rules, NOW_S + 1000.0) == NOW_S + 1000.0 - early_s
    assert change_s(view(jobs(1)), rules, NOW_S + 10.0) == NOW_S


def test_a_promise_may_come_into_doubt_once_its_notice_begins():
    rules, seen = Rules(deadlines=DeadlineRules(lead_s=120.0)), view(jobs(1))
    open_promise = promise_table(
        1, job_id=[1], state=[PromiseState.OPEN], first_submit_s=[NOW_S - 1000.0], promised_s=[NOW_S + 9000.0]
    )
    plan = replace(decide(seen, SJF, rules), promises=open_promise)
    assert next_change_s(seen, plan, SJF, rules) == NOW_S + 9000.0 - 1000.0 - 120.0
    assert next_change_s(replace(seen, now_s=NOW_S + 7900.0), plan, SJF, rules) == np.inf, "it has been decided"


def test_promises_are_planned_again_at_the_end_of_leases():
    rules = Rules(deadlines=DeadlineRules(yields=True, lease_s=300.0))
    assert change_s(view(jobs(1)), rules, NOW_S + 5000.0) == NOW_S + 200.0


def test_the_time_of_a_job_that_was_asked_to_stop_runs_out():
    rules = Rules(deadlines=DeadlineRules(stop_s=120.0))
    asked = running_jobs(1, started_s=[NOW_S - 500.0], stop_requested_s=[NOW_S - 20.0])
    assert change_s(view(jobs(1), running=asked), rules) == NOW_S + 100.0
    over = running_jobs(1, started_s=[NOW_S - 500.0], stop_requested_s=[NOW_S - 121.0])
    assert change_s(view(jobs(1), running=over), rules) == np.inf, "it has been decided"


def test_a_job_that_was_queued_again_may_start_once_its_requeue_has_settled():
    back = jobs(1, restarts=[1], submitted_s=[NOW_S - 1.0], held_by_us=[True], eligible_s=[NOW_S + 119.0])
    assert change_s(view(back), Rules()) == NOW_S - 1.0 + SETTLE_S
    assert change_s(view(back.changed(submitted_s=np.array([NOW_S - 4.0]))), Rules()) == np.inf, "it has been decided"


def test_numbers_of_gpus_are_decided_anew_while_jobs_wait():
    rules, sized = Rules(resizing=ResizingRules(least_s=600.0)), {"least_gpus": [1], "most_gpus": [4]}
    assert change_s(view(jobs(1, **sized)), rules) == NOW_S
    runs = running_jobs(1, started_s=[NOW_S - 500.0], **sized)
    assert change_s(view(jobs(1), running=runs), rules) == NOW_S
    assert change_s(view(jobs(0), running=runs), rules) == NOW_S + 100.0, "it may be stopped for more GPUs"
    assert change_s(view(jobs(1)), rules) == np.inf


def test_jobs_on_their_way_to_shared_gpus_go_on_in_the_next_cycle():
    assert change_s(view(jobs(1, shares=[True])), Rules(sharing=SharingRules())) == NOW_S
    assert change_s(view(jobs(1)), Rules(sharing=SharingRules())) == np.inf


def test_a_job_that_is_measured_has_run_long_enough_after_its_time():
    rules = Rules(profiling=ProfilingRules("profile", t_s=200.0, wait_s=600.0))
    measured = running_jobs(1, partition=["profile"], started_s=[NOW_S - 50.0])
    assert change_s(view(jobs(1), running=measured), rules) == NOW_S + 150.0
    waits = jobs(1, partition=["profile,gpu"], eligible_s=[NOW_S - 100.0])
    assert change_s(view(waits), rules) == NOW_S + 500.0
    late = running_jobs(1, partition=["profile"], started_s=[NOW_S - 300.0])
    assert change_s(view(waits, running=late), rules) == NOW_S + 500.0
