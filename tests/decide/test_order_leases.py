"""Leases: running jobs that said ckpt and had their lease yield to jobs that come before them in the order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view

from slurmsched.cluster.actions import AskToStop, Requeue
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.state import View
from slurmsched.decide.engine import decide
from slurmsched.decide.next_change import next_change_s
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import LeaseRules, Rules
from slurmsched.policies.contract import find_ordering

LAS, SRTF, FIFO = find_ordering("las"), find_ordering("srtf"), find_ordering("fifo")
HOUR_S = 3600.0
LEASE = LeaseRules("lease 20m", 1200.0, stop_s=60.0, lead_s=30.0, asks_a_day=2, restart_s=60.0)
RULES = Rules(powers=ALL_POWERS, scope="queue", lease=LEASE)


def full(*ran_s: float, **columns: Any) -> View:
    """Jobs of four GPUs that ran for *ran_s* on a node each and will for days, and one of four GPUs that just came."""
    count = len(ran_s)
    known = {
        "gpus": np.full(count, 4),
        "ckpt": np.ones(count, dtype=bool),
        "node_list": [f"n{number}" for number in range(1, count + 1)],
        "started_s": NOW_S - np.array(ran_s),
    }
    return seen(running_jobs(count, **(known | columns)))


def seen(running: Any, **columns: Any) -> View:
    room = nodes((4,) * 2, (4,) * 2)
    what = view(jobs(1, **({"gpus": [4]} | columns)), [600.0], running=running, room=room)
    days = np.full(len(running), 1e6)
    longer = replace(what.forecast_running, runtime_s=days, low_s=days, high_s=days)
    return replace(what, forecast_running=longer)


def asked(what: View, rules: Rules = RULES, ordering: Any = LAS) -> list[int]:
    return [wish.job_id for wish in decide(what, ordering, rules).actions if isinstance(wish, AskToStop)]


def requeued(plan: Plan) -> list[int]:
    return [wish.job_id for wish in plan.actions if isinstance(wish, Requeue)]


def test_the_job_that_is_last_in_the_order_yields_once_it_had_its_lease():
    assert asked(full(3 * HOUR_S, 2 * HOUR_S)) == [901]
    assert asked(full(3 * HOUR_S, 2 * HOUR_S), ordering=SRTF) == [902], "both will run for days, this one longer"
    assert asked(full(1199.0, 600.0)) == []
    assert asked(full(1200.0, 600.0)) == [901]
    assert asked(full(3 * HOUR_S, 2 * HOUR_S), replace(RULES, lease=None)) == []


def test_a_cluster_without_partitions_is_one_pool():
    what = full(3 * HOUR_S, 2 * HOUR_S)
    assert asked(replace(what, nodes=replace(what.nodes, partitions=Labels.of(["", ""])))) == [901]


def test_nobody_is_asked_for_a_job_behind_it_in_the_order():
    ran = seen(full(3 * HOUR_S, 2 * HOUR_S).running, ran_s=[4 * HOUR_S], restarts=[1], ckpt=[True])
    assert asked(ran) == []
    assert asked(replace(ran, pending=replace(ran.pending, ran_s=np.array([2.5 * HOUR_S])))) == [901]


@pytest.mark.parametrize("powers", [{"order"}, {"requeue"}], ids=str)
def test_a_lease_needs_the_powers_to_order_and_to_requeue(powers):
    assert asked(full(3 * HOUR_S, 2 * HOUR_S), replace(RULES, powers=frozenset(powers))) == []


def test_slurms_own_order_ranks_no_running_jobs_and_stops_none():
    assert asked(full(3 * HOUR_S, 2 * HOUR_S), ordering=FIFO) == []


@pytest.mark.parametrize(
    "special",
    [
        {"ckpt": [False, False]},
        {"requeueable": [False, False]},
        {"interactive": [True, True]},
        {"off": [True, True]},
        {"array_job_id": [901, 902]},
        {"state": [JobState.SUSPENDED] * 2},
        {"asked_s": [NOW_S - 1300.0] * 2, "asks": [2, 2]},
        {"qos": ["high", "high"]},
    ],
    ids=str,
)
def test_a_job_that_did_not_agree_or_was_asked_too_often_or_stands_above_is_never_asked(special):
    assert asked(full(3 * HOUR_S, 2 * HOUR_S, **special), replace(RULES, scope="qos")) == []


def test_a_job_with_a_promise_is_never_asked_for_the_order():
    what = full(3 * HOUR_S, 2 * HOUR_S)
    columns = {"job_id": [901], "first_submit_s": [NOW_S - 60.0], "state": [PromiseState.OPEN], "gpus": [4]}
    promised = promise_table(1, **columns, promised_s=[NOW_S + 1e6], needs_s=[60.0])
    assert asked(replace(what, promises=promised)) == [902]


def test_nobody_is_asked_for_less_time_than_going_on_costs():
    what = full(3 * HOUR_S, 2 * HOUR_S)
    for left_s, expected in ((119.0, [902]), (121.0, [901])):
        forecast_s = np.array([3 * HOUR_S + left_s, 1e6])
        soon = replace(what.forecast_running, runtime_s=forecast_s, low_s=forecast_s, high_s=forecast_s * 10)
        assert asked(replace(what, forecast_running=soon)) == expected
    slow = replace(what.running, coldstart_s=np.array([0.0, 2e6]))
    assert asked(replace(what, forecast_running=soon, running=slow)) == [901], "an owner may say what it costs"


def test_a_job_that_fits_on_free_gpus_needs_nobody_to_stop():
    what = full(3 * HOUR_S)
    assert asked(replace(what, nodes=nodes((4, 4), (4, 0)))) == []


def test_as_few_are_asked_as_are_needed_and_on_one_node():
    running = running_jobs(
        4,
        gpus=np.full(4, 2),
        ckpt=np.ones(4, dtype=bool),
        node_list=["n1", "n2", "n1", "n2"],
        started_s=NOW_S - HOUR_S * np.array([7.0, 8.0, 4.0, 5.0]),
        ran_s=HOUR_S * np.array([7.0, 8.0, 4.0, 5.0]),
    )
    assert sorted(asked(seen(running))) == [902, 904], "the jobs of n1 are 1st and 3rd in the order, these 2nd and last"
    assert asked(seen(running, gpus=[2])) == [902]


def test_a_job_that_was_asked_is_waited_for_and_requeued_after_its_time_to_save():
    what = full(3 * HOUR_S, 2 * HOUR_S, asked_s=[NOW_S - 59.0, np.nan], asks=[1, 0])
    assert decide(what, LAS, RULES).actions == ()
    late = full(3 * HOUR_S, 2 * HOUR_S, asked_s=[NOW_S - 60.0, np.nan], asks=[1, 0])
    assert requeued(decide(late, LAS, RULES)) == [901]
    assert asked(late) == []


def test_what_time_alone_changes_is_decided_at_every_cycle_while_a_job_waits():
    what = full(3 * HOUR_S, 2 * HOUR_S)
    assert next_change_s(what, decide(what, LAS, RULES), RULES) == NOW_S


def test_a_record_has_the_lease_and_one_without_is_as_before():
    assert Policy.from_json(Policy(LAS, RULES).to_json()) == Policy(LAS, RULES)
    assert "lease 20m" not in Policy(LAS, Rules()).to_json()
