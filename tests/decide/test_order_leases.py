"""Leases: running jobs that said ckpt and had their lease yield to jobs that come before them in the order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decide.full_cluster import HOUR_S, UNWILLING, asked, beside, full, requeued
from decide.views import ALL_POWERS, NOW_S, jobs, nodes
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import Preempt
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.outlook.remaining import ROUNDING_S
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.state import View
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Composition, LeaseRules, Rules, as_planned
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

LAS, SRTF, FIFO = find_ordering("las"), find_ordering("srtf"), find_ordering("fifo")
LEASE = LeaseRules("lease 20m", 1200.0, stop_s=60.0, lead_s=30.0, asks_a_day=2, restart_s=60.0)
RULES = Rules(powers=ALL_POWERS, scope="queue", lease=LEASE)


def ran(*ran_s: float, **columns: Any) -> View:
    """Jobs of four GPUs that ran for *ran_s* on a node each and will for days, and one of four GPUs that just came."""
    return seen(full(*[4] * len(ran_s), **({"started_s": NOW_S - np.array(ran_s)} | columns)))


def seen(running: JobTable, **columns: Any) -> View:
    return beside(running, jobs(1, **({"gpus": [4]} | columns)), [600.0])


def stopped(what: View, rules: Rules = RULES, ordering: Any = LAS) -> list[int]:
    return asked(decide(what, ordering, rules))


def test_the_job_that_is_last_in_the_order_yields_once_it_had_its_lease():
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S)) == [901]
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S), ordering=SRTF) == [902], "both will run for days, this one longer"
    assert stopped(ran(1199.0, 600.0)) == []
    assert stopped(ran(1200.0, 600.0)) == [901]
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S), replace(RULES, lease=None)) == []


def test_a_job_that_was_requeued_as_often_as_the_admin_allows_is_asked_no_more_and_another_one_is():
    what = ran(3 * HOUR_S, 2 * HOUR_S, restarts=[3, 2])
    assert stopped(what) == [901], "no limit by default"
    assert stopped(what, replace(RULES, most_requeues=4)) == [901]
    assert stopped(what, replace(RULES, most_requeues=3)) == [902]
    assert stopped(what, replace(RULES, most_requeues=2)) == []


def test_where_plans_happen_as_they_are_the_same_job_yields_and_never_one_without_ckpt():
    rules = Rules(powers=frozenset({"start", "preempt"}), executor=as_planned(Composition("preemptive lease_s=1200")))

    def yields(what: View) -> list[int]:
        return [act.job_id for act in decide(what, LAS, rules).actions if isinstance(act, Preempt)]

    assert yields(ran(3 * HOUR_S, 2 * HOUR_S, ran_s=[3 * HOUR_S, 2 * HOUR_S])) == [901]
    assert yields(ran(3 * HOUR_S, 2 * HOUR_S, ran_s=[3 * HOUR_S, 2 * HOUR_S], ckpt=[False, True])) == [902]
    assert yields(ran(1199.0, 1199.0)) == []


def test_a_cluster_without_partitions_is_one_pool():
    what = ran(3 * HOUR_S, 2 * HOUR_S)
    assert stopped(replace(what, nodes=replace(what.nodes, partitions=Labels.of(["", ""])))) == [901]


def test_nobody_is_asked_for_a_job_behind_it_in_the_order():
    before = seen(ran(3 * HOUR_S, 2 * HOUR_S).running, ran_s=[4 * HOUR_S], restarts=[1], ckpt=[True])
    assert stopped(before) == []
    assert stopped(replace(before, pending=replace(before.pending, ran_s=np.array([2.5 * HOUR_S])))) == [901]


@pytest.mark.parametrize("powers", [{"order"}, {"requeue"}], ids=str)
def test_a_lease_needs_the_powers_to_order_and_to_requeue(powers):
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S), replace(RULES, powers=frozenset(powers))) == []


def test_slurms_own_order_ranks_no_running_jobs_and_stops_none():
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S), ordering=FIFO) == []


@pytest.mark.parametrize(
    "special",
    [
        *UNWILLING,
        {"stop_requested_s": [NOW_S - 1300.0] * 2, "stop_requests": [2, 2]},
        {"qos": ["high", "high"]},
    ],
    ids=str,
)
def test_a_job_that_did_not_agree_or_was_asked_too_often_or_stands_above_is_never_stopped(special):
    assert stopped(ran(3 * HOUR_S, 2 * HOUR_S, **special), replace(RULES, scope="qos")) == []


def test_a_job_with_a_promise_is_never_asked_for_the_order():
    what = ran(3 * HOUR_S, 2 * HOUR_S)
    columns = {"job_id": [901], "first_submit_s": [NOW_S - 60.0], "state": [PromiseState.OPEN], "gpus": [4]}
    promised = promise_table(1, **columns, promised_s=[NOW_S + 1e6], needs_s=[60.0])
    assert stopped(replace(what, promises=promised)) == [902]


def test_nobody_is_asked_for_less_time_than_going_on_costs():
    what = ran(3 * HOUR_S, 2 * HOUR_S)
    for left_s, expected in ((119.0, [902]), (121.0, [901])):
        forecast_s = np.array([3 * HOUR_S + left_s, 1e6])
        soon = replace(what.forecast_running, runtime_s=forecast_s, low_s=forecast_s, high_s=forecast_s * 10)
        assert stopped(replace(what, forecast_running=soon)) == expected
    slow = replace(what.running, coldstart_s=np.array([0.0, 2e6]))
    assert stopped(replace(what, forecast_running=soon, running=slow)) == [901], "an owner may say what it costs"


def test_going_on_costs_more_for_each_doubling_of_the_gpus():
    what, forecast_s = ran(3 * HOUR_S, 2 * HOUR_S), np.array([3 * HOUR_S + 150.0, 1e6])
    soon = replace(what.forecast_running, runtime_s=forecast_s, low_s=forecast_s, high_s=forecast_s * 10)
    for doubling_s, expected in ((0.0, [901]), (30.0, [902])):
        rules = replace(RULES, lease=replace(LEASE, restart_doubling_s=doubling_s))
        assert stopped(replace(what, forecast_running=soon), rules) == expected


def test_a_job_that_fits_on_free_gpus_needs_nobody_to_stop():
    what = ran(3 * HOUR_S)
    assert stopped(replace(what, nodes=nodes((4, 4), (4, 0)))) == []


def test_as_few_are_asked_as_are_needed_and_on_one_node():
    ran_s = HOUR_S * np.array([7.0, 8.0, 4.0, 5.0])
    running = full(2, 2, 2, 2, node_list=["n1", "n2", "n1", "n2"], started_s=NOW_S - ran_s, ran_s=ran_s)
    assert sorted(stopped(seen(running))) == [902, 904], (
        "n1 has the 1st and the 3rd in the order, n2 the 2nd and the last"
    )
    assert stopped(seen(running, gpus=[2])) == [902]


def test_a_job_that_was_asked_is_waited_for_and_requeued_after_its_time_to_save():
    what = ran(3 * HOUR_S, 2 * HOUR_S, stop_requested_s=[NOW_S - 59.0, np.nan], stop_requests=[1, 0])
    assert decide(what, LAS, RULES).actions == ()
    late = ran(3 * HOUR_S, 2 * HOUR_S, stop_requested_s=[NOW_S - 60.0, np.nan], stop_requests=[1, 0])
    assert requeued(decide(late, LAS, RULES)) == [901]
    assert stopped(late) == []


def test_what_time_alone_changes_is_decided_at_every_cycle_while_a_job_waits():
    what = ran(3 * HOUR_S, 2 * HOUR_S)
    assert next_change_s(what, decide(what, LAS, RULES), LAS, RULES) == NOW_S


def test_before_any_lease_ends_the_end_of_the_first_one_is_waited_for():
    what = ran(1000.0, 600.0)
    assert next_change_s(what, decide(what, LAS, RULES), LAS, RULES) == NOW_S + 200.0
    alone = ran(3 * HOUR_S, 2 * HOUR_S, ckpt=[False, False])
    assert next_change_s(alone, decide(alone, LAS, RULES), LAS, RULES) == np.inf


@pytest.mark.parametrize(
    ("left_s", "changes_s"),
    [
        ([500.0, 1e6], [380.0, 501.0]),  # it would end sooner than it can give way; then it outlasted its forecast
        ([1e6, 500.0], [469.0, 501.0]),  # the other one ends as soon as room could be made; then it did not
    ],
    ids=str,
)
def test_a_request_ends_and_begins_where_time_alone_changes_what_a_forecast_says(left_s, changes_s):
    what, qssf = ran(3 * HOUR_S, 2 * HOUR_S, ckpt=[True, False]), find_ordering("qssf")
    forecast_s = np.array([3, 2]) * HOUR_S + left_s
    told = replace(what.forecast_running, runtime_s=forecast_s, low_s=forecast_s, high_s=forecast_s)
    what, first_s, then_s = replace(what, forecast_running=told), *changes_s
    asked_from_to = [(0.0, first_s, [901]), (first_s, then_s, []), (then_s + 1.0, then_s + HOUR_S, [901])]
    for from_s, to_s, expected in asked_from_to:
        now = replace(what, now_s=NOW_S + from_s)
        assert (
            stopped(now, ordering=qssf) == stopped(replace(what, now_s=NOW_S + to_s - 1.0), ordering=qssf) == expected
        )
        changes = next_change_s(now, decide(now, qssf, RULES), qssf, RULES) - NOW_S
        assert to_s - ROUNDING_S <= changes
        assert changes <= to_s or to_s > then_s, "later the rule for jobs past their forecast leaves one change"


@given(st.data())
def test_where_keys_stay_time_alone_changes_no_request_to_stop_before_the_next_change(data):
    count = data.draw(st.integers(1, 4), "running jobs")

    def each(drawn, label):
        return np.array(data.draw(st.lists(drawn, min_size=count, max_size=count), label))

    ran_s, forecast_s = (
        each((st.integers(0, 5000) | st.integers(1100, 1500)).map(float), "ran_s"),
        each((st.integers(60, 9000) | st.integers(1200, 1900)).map(float), "forecast_s"),
    )
    gpus = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count), "gpus")
    asked_s = NOW_S - each(st.just(np.nan) | st.integers(0, 150).map(float), "asked")
    running = full(*gpus, started_s=NOW_S - ran_s, ckpt=each(st.booleans(), "ckpt"), stop_requested_s=asked_s)
    what = seen(running, gpus=[data.draw(st.integers(1, 4), "wanted")])
    told = replace(what.forecast_running, runtime_s=forecast_s, low_s=forecast_s, high_s=2 * forecast_s)
    what = replace(what, forecast_running=told)
    qssf = find_ordering("qssf")
    plan = decide(what, qssf, RULES)
    until_s = next_change_s(what, plan, qssf, RULES)
    later_s = NOW_S + data.draw(st.integers(1, 6000) | st.integers(1, 400), "later")
    if later_s < until_s:
        assert decide(replace(what, now_s=later_s), qssf, RULES).actions == plan.actions


def test_a_record_has_the_lease_and_one_without_is_as_before():
    assert Policy.from_json(Policy(LAS, RULES).to_json()) == Policy(LAS, RULES)
    assert "lease 20m" not in Policy(LAS, Rules()).to_json()


def on_two_types(*started_s_ago: float, **columns: Any) -> View:
    """Jobs that fill n1, of one type, and n2, of another, and a job of four GPUs that came a minute ago."""
    what = seen(full(4, 4, started_s=NOW_S - np.array(started_s_ago)), **columns)
    return replace(what, nodes=replace(what.nodes, gpu_type=Labels.of(["a100", "v100"])))


def test_a_job_that_was_sent_to_a_type_makes_room_there_alone():
    assert stopped(on_two_types(3 * HOUR_S, 2 * HOUR_S)) == [901], "it may start anywhere, and this one is last"
    assert stopped(on_two_types(3 * HOUR_S, 2 * HOUR_S, steered=["v100"], excluded_nodes=["n1"])) == [902]
    assert stopped(on_two_types(3 * HOUR_S, 2 * HOUR_S, steered=["a100"], excluded_nodes=["n2"])) == [901]
    assert stopped(on_two_types(3 * HOUR_S, 600.0, steered=["v100"], excluded_nodes=["n1"])) == []
    assert stopped(on_two_types(3 * HOUR_S, 2 * HOUR_S, steered=["*"], excluded_nodes=["n1"])) == [901]
    assert stopped(on_two_types(3 * HOUR_S, 2 * HOUR_S, gpu_type=["v100"])) == [902], "as one that asks for it"


def test_those_that_wait_for_one_type_take_no_turn_on_another():
    """Nine jobs of four GPUs are before it in the order, all of them for V100."""
    what, many = on_two_types(3 * HOUR_S, 2 * HOUR_S), 9
    pending = jobs(
        many + 1,
        gpus=[4] * (many + 1),
        steered=["v100"] * many + ["a100"],
        excluded_nodes=["n1"] * many + ["n2"],
        ran_s=[0.0] * many + [60.0],
    )
    crowd = replace(beside(what.running, pending, [600.0] * (many + 1)), nodes=what.nodes)
    assert sorted(stopped(crowd)) == [901, 902]
    assert stopped(replace(crowd, nodes=replace(crowd.nodes, gpu_type=Labels.of(["", ""])))) != [901, 902]


def test_with_gavel_the_job_that_received_most_of_its_share_yields_on_the_type_that_another_was_sent_to():
    """Both ran for as long; what runs on the type that is four times as slow has received a quarter."""
    kinds = {"type_speeds": ["a100=0.25 v100=1"]}
    what = on_two_types(3 * HOUR_S, 3 * HOUR_S, **kinds)
    what = replace(what, running=replace(what.running, type_speeds=Labels.of(kinds["type_speeds"] * 2)))
    assert stopped(what, ordering=find_ordering("gavel")) == [902]
    assert stopped(what, replace(RULES, lease=None), find_ordering("gavel")) == []
