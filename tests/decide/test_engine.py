"""What decide() promises on any queue."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, QOS, TIERS, after, jobs, nodes, view, views
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import Rank, Release
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.state import View
from slurmsched.decide.ordering.greedy_fit import free_gpus
from slurmsched.decide.ordering.ranking import base_priority, waited_s
from slurmsched.decide.points_cap import PriorityWeights
from slurmsched.decide.rules import AdmissionRules, Rules
from slurmsched.policies.contract import Ordering, find_ordering
from slurmsched.powers import decide

FIFO, SJF = find_ordering("fifo"), find_ordering("sjf")
ORDER = Rules(powers=frozenset({"order"}), scope="queue")
anything = examples(60)
rules = st.builds(
    Rules,
    powers=st.just(ALL_POWERS),
    scope=st.sampled_from(["points", "qos", "queue"]),
    max_points=st.sampled_from([0, 1, 10, 999, 1_000_000]),
    weights=st.builds(PriorityWeights, st.sampled_from([0, 1, 1000]), st.sampled_from([0, 1, 5000])),
    window=st.sampled_from([1, 5, 500]),
    only_partitions=st.sampled_from([frozenset(), frozenset({"gpu"})]),
    admission=st.sampled_from([None, AdmissionRules("load:1.2")]),
)
orderings = st.sampled_from([FIFO, SJF, find_ordering("qssf")])


@given(views(), orderings, rules)
@anything
def test_every_job_is_ranked_or_left_alone_with_a_reason(seen, ordering, rules):
    placing = decide(seen, ordering, rules).jobs
    ranked = placing.rank >= 0
    assert (ranked == (placing.standing == Standing.RANKED)).all()
    assert sorted(placing.rank[ranked].tolist()) == list(range(int(ranked.sum())))
    assert set(placing.standing.tolist()) <= set(Standing)


@given(views(), orderings, rules)
@anything
def test_the_jobs_that_would_run_fit_into_the_free_gpus(seen, ordering, rules):
    placing = decide(seen, ordering, rules).jobs
    wanted = seen.pending.gpus * seen.pending.tasks
    assert wanted[placing.runs].sum() <= free_gpus(seen.nodes)
    assert (placing.rank[placing.runs] >= 0).all()


@given(views(), orderings, rules)
@anything
def test_the_same_view_gives_the_same_plan_bit_for_bit(seen, ordering, rules):
    assert pickle.dumps(decide(seen, ordering, rules)) == pickle.dumps(decide(seen, ordering, rules))


@given(views(), orderings, rules, st.randoms())
@anything
def test_the_rows_of_the_view_may_come_in_any_order(seen, ordering, rules, random):
    rows = np.array(random.sample(range(len(seen.pending)), len(seen.pending)), dtype=np.int64)
    straight, shuffled = decide(seen, ordering, rules), decide(seen.take(rows), ordering, rules)
    assert straight.jobs.take(rows).equals(shuffled.jobs)
    assert set(straight.actions) == set(shuffled.actions)
    assert set(straight.refusals) == set(shuffled.refusals)


def in_order(seen: View, plan) -> list[int]:
    ranked = np.flatnonzero(plan.jobs.rank >= 0)
    return ranked[np.argsort(plan.jobs.rank[ranked])].tolist()


@given(views(), st.sampled_from(["points", "qos", "queue"]))
@anything
def test_partition_tier_comes_first_then_qos_then_waiting_too_long_then_the_key(seen, scope):
    rules = Rules(scope=scope)
    rows = in_order(seen, decide(seen, SJF, rules))
    pending, waited = seen.pending, waited_s(seen.pending, seen.now_s)

    def place(row: int) -> tuple[float, ...]:
        tier = max(TIERS.get(name, 1) for name in pending.partition[row].split(","))
        qos = QOS.get(pending.qos[row], 0) if scope != "queue" else 0
        runtime_s = seen.forecast.runtime_s[row]
        key = float("inf") if np.isnan(runtime_s) else runtime_s
        starving = waited[row] > rules.starvation_s
        return (-tier, -qos, not starving, -waited[row] if starving else key, -base_priority(pending)[row])

    assert rows == sorted(rows, key=lambda row: (*place(row), pending.job_id[row]))


@given(views(), rules)
@anything
def test_slurms_own_order_gives_no_points_and_takes_stale_ones_back(seen, rules):
    plan = decide(seen, FIFO, rules)
    assert not plan.jobs.points.any()
    stale = set(seen.pending.job_id[seen.pending.site_points != 0].tolist())
    assert {action.job_id for action in plan.actions if isinstance(action, Rank)} == stale
    assert all(action.points == 0 for action in plan.actions if isinstance(action, Rank))


@given(views(), orderings, rules)
@anything
def test_jobs_left_alone_keep_no_points_of_ours(seen, ordering, rules):
    plan = decide(seen, ordering, rules)
    alone = plan.jobs.standing != Standing.RANKED
    assert not plan.jobs.points[alone].any()
    left = {job_id for job_id, standing in zip(seen.pending.job_id, plan.jobs.standing, strict=True) if standing}
    assert all(action.points == 0 for action in plan.actions if isinstance(action, Rank) and action.job_id in left)


@given(views(), orderings, rules)
@anything
def test_a_job_that_a_limit_blocks_is_never_ranked(seen, ordering, rules):
    plan = decide(seen, ordering, rules)
    for row, reason in enumerate(seen.pending.reason):
        if reason in {"AssocGrpGRES", "QOSMaxGRESPerUser", "Licenses"}:
            assert plan.jobs.rank[row] == -1


@given(views(), orderings, st.frozensets(st.sampled_from(sorted(ALL_POWERS))))
@anything
def test_without_its_power_an_action_is_a_refusal(seen, ordering, powers):
    plan = decide(seen, ordering, Rules(powers=powers, scope="queue"))
    everything = decide(seen, ordering, Rules(powers=ALL_POWERS, scope="queue"))
    for action in plan.actions:
        assert action.power in powers or (isinstance(action, Release) and "requeue" in powers)
    refused = [refusal.action for refusal in plan.refusals]
    assert set(plan.actions) | set(refused) == set(everything.actions) | {r.action for r in everything.refusals}


@given(views(), orderings, rules)
@anything
def test_an_unchanged_queue_costs_no_write_in_the_next_cycle(seen, ordering, rules):
    first = [action for action in decide(seen, ordering, rules).actions if isinstance(action, Rank)]
    again = decide(after(seen, first), ordering, rules)
    assert [action for action in again.actions if isinstance(action, Rank)] == []


@given(views(), rules)
@anything
def test_what_slurm_would_see_is_the_order_wanted(seen, rules):
    plan = decide(seen, SJF, rules)
    priority = base_priority(seen.pending) + plan.jobs.points
    tier = np.array([max(TIERS.get(name, 1) for name in names.split(",")) for names in seen.pending.partition])
    length = min(rules.window, rules.cap(seen.qos) if rules.scope == "points" else rules.window)
    rows = np.array(in_order(seen, plan), dtype=np.int64)
    for value in set(tier.tolist()):
        chain = rows[tier[rows] == value] if len(rows) else rows
        ours = [row for row in chain[:length].tolist() if not plan.jobs.capped[row]]
        assert all(priority[one] > priority[next_] for one, next_ in pairwise(ours))


def test_a_short_job_overtakes_a_long_one():
    plan = decide(view(jobs(2), [600.0, 60.0]), SJF, ORDER)
    assert plan.jobs.rank.tolist() == [1, 0]
    assert plan.actions == (Rank(2, int(plan.jobs.points[1])),)
    assert plan.jobs.points[1] > 0


def test_a_job_that_asks_for_more_than_is_free_does_not_run_in_part():
    plan = decide(view(jobs(2, gpus=[8, 2]), [60.0, 600.0], room=nodes((4, 4), (2, 2))), SJF, ORDER)
    assert plan.jobs.runs.tolist() == [False, True]


def test_with_points_a_short_job_of_a_lower_qos_stays_behind():
    pending = jobs(3, qos=["high", "low", "low"], priority=[2000, 1100, 1100])
    plan = decide(view(pending, [900.0, 300.0, 60.0]), SJF, Rules(powers=frozenset({"order"}), max_points=500))
    assert plan.jobs.rank.tolist() == [0, 2, 1]
    seen = base_priority(pending) + plan.jobs.points
    assert seen[0] > seen[2] > seen[1]


def test_only_with_scope_queue_does_it_overtake_a_higher_qos():
    pending = jobs(2, qos=["high", "low"], priority=[2000, 1000])
    seen = view(pending, [900.0, 60.0])
    assert decide(seen, SJF, Rules(scope="qos")).jobs.rank.tolist() == [0, 1]
    assert decide(seen, SJF, Rules(scope="queue")).jobs.rank.tolist() == [1, 0]


def test_fair_share_keeps_its_say_unless_scope_is_wider():
    pending = jobs(2, account=["served", "waiting"], priority=[1000, 6000])
    seen = view(pending, [60.0, 900.0])
    capped = decide(seen, SJF, Rules(max_points=500))
    assert capped.jobs.capped.tolist() == [True, False]
    assert 1000 + capped.jobs.points[0] < 6000
    wide = decide(seen, SJF, Rules(scope="qos"))
    assert 1000 + wide.jobs.points[0] > 6000 + wide.jobs.points[1]


def test_a_job_that_waited_too_long_stands_behind_nobody_younger():
    long_ago = NOW_S - 700_000
    pending = jobs(3, eligible_s=[NOW_S - 60, long_ago, long_ago - 60])
    assert decide(view(pending, [1.0, 900.0, 900.0]), SJF, ORDER).jobs.rank.tolist() == [2, 1, 0]


def test_a_requeued_job_has_waited_before_its_earlier_runs_too_and_a_run_is_no_wait():
    first_s = {"first_submit_s": [NOW_S - 60, NOW_S - 700_000]}
    pending = jobs(2, restarts=[0, 1], waited_s=[0.0, 500_000.0], **first_s)
    assert decide(view(pending, [1.0, 900.0]), SJF, ORDER).jobs.rank.tolist() == [0, 1]
    pending = jobs(2, restarts=[0, 1], waited_s=[0.0, 700_000.0], **first_s)
    assert decide(view(pending, [1.0, 900.0]), SJF, ORDER).jobs.rank.tolist() == [1, 0]


def test_only_the_window_gets_points_and_stands_above_the_rest():
    pending = jobs(6, priority=[10, 20, 30, 40, 50, 60])
    plan = decide(view(pending, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), SJF, Rules(scope="queue", window=2))
    assert (plan.jobs.points[:2] > 0).all()
    assert not plan.jobs.points[2:].any()
    assert 20 + plan.jobs.points[1] > 60


WINDOW_OF_ONE = Rules(powers=frozenset({"order"}), scope="queue", window=1)


def test_a_job_far_behind_the_window_gives_its_points_back():
    pending = jobs(3, site_points=[700, 0, 0], priority=[1700, 1000, 1000])
    assert Rank(1, 0) in decide(view(pending, [900.0, 60.0, 70.0]), SJF, WINDOW_OF_ONE).actions


def test_a_job_that_has_just_left_the_window_keeps_points_that_do_no_harm():
    pending = jobs(2, site_points=[700, 900], priority=[1700, 1900])
    assert decide(view(pending, [900.0, 60.0]), SJF, WINDOW_OF_ONE).actions == ()
    above = jobs(2, site_points=[900, 700], priority=[1900, 1700])
    assert Rank(1, 0) in decide(view(above, [900.0, 60.0]), SJF, WINDOW_OF_ONE).actions


def test_what_puts_the_top_right_is_written_first():
    pending = jobs(4, site_points=[0, 500, 0, 9000], priority=[1000, 1500, 1000, 10_000])
    rules = Rules(powers=frozenset({"order"}), scope="queue", window=2)
    plan = decide(view(pending, [40.0, 20.0, 30.0, 90.0]), SJF, rules)
    assert plan.jobs.rank.tolist() == [2, 0, 1, 3]
    assert [action.job_id for action in plan.actions] == [4, 3], "first the one that stands before the top"


def test_a_hold_of_ours_that_nobody_wants_is_lifted_once_the_requeue_has_settled():
    columns = {"held_by_us": [True, True], "reason": ["BeginTime"] * 2, "eligible_s": [NOW_S + 100] * 2}
    pending = jobs(2, restarts=[1, 1], submitted_s=[NOW_S - 1, NOW_S - 10], **columns)
    plan = decide(view(pending), SJF, Rules(powers=frozenset({"requeue"}), scope="queue"))
    assert [action for action in plan.actions if isinstance(action, Release)] == [Release(2)]


def test_keys_of_the_wrong_shape_are_a_mistake_of_the_ordering():
    wrong = Ordering("wrong", lambda seen: np.zeros(1), "")
    with pytest.raises(ValueError, match=r"'wrong' gave keys of shape \(1,\) for 3"):
        decide(view(jobs(3)), wrong, ORDER)
