"""A block without the policy begins no change and keeps those that are there; held-out jobs keep Slurm's own place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import ALL_POWERS, NOW_S, forecast, jobs, running_jobs, view, views

from slurmsched.cluster.actions import AskToStop, Rank, Requeue, Steer, Unsteer
from slurmsched.cluster.plan import Standing
from slurmsched.decide.draft import Lane
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import AdmissionRules, DeadlineRules, Rules, SteeringRules, TrialRules
from slurmsched.decide.trial import held_out, still_wanted, with_holdout, without_policy
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

SJF = find_ordering("sjf")
OFF = TrialRules(off=True)
POLICY = Policy(SJF, Rules(powers=ALL_POWERS, deadlines=DeadlineRules(), admission=AdmissionRules("load:1.2")))


def decided(seen, policy):
    return decide(seen, policy.ordering, policy.rules)


@given(views())
def test_in_a_block_without_the_policy_only_points_go_back_and_nothing_is_begun(seen):
    plan = decided(seen, without_policy(POLICY, OFF))
    for action in plan.actions:
        assert not isinstance(action, Rank) or action.points == 0
    assert not (plan.jobs.standing == Standing.OUTSIDE).any(), "no line of load control"


def test_a_promise_is_kept_and_a_new_request_waits_for_its_answer():
    off = without_policy(POLICY, OFF)
    asking = view(jobs(1, deadline_s=[NOW_S + 36_000.0]))
    promised = decided(asking, POLICY).promises
    assert promised.open.all()
    assert len(decided(asking, off).promises) == 0
    assert "answered after this block of a trial" in " ".join(why(asking, decided(asking, off), off.rules, 1).sentences)
    late = replace(asking, now_s=float(promised.start_by_s[0]) - 1.0, promises=promised)
    others = jobs(3, job_id=[1, 2, 3], priority=[10, 2000, 3000], deadline_s=[NOW_S + 36_000.0, np.inf, np.inf])
    late = replace(late, pending=others, forecast=forecast([600.0] * 3))
    plan = decided(late, off)
    assert plan.jobs.rank.tolist()[0] == 0, "it is due"
    assert plan.jobs.points[0] > 0
    assert plan.jobs.points[1:].tolist() == [0, 0]


STEER, LET_GO, ASK, REQUEUE = Steer(1, "v100", "n[3-4]"), Unsteer(1, "n[3-4]"), AskToStop(901, "URG"), Requeue(901)


def wanted(*wishes, trial=OFF, power="steer", **columns):
    pending = jobs(1, **{name: value for name, value in columns.items() if name != "stop_requested_s"})
    seen = view(pending, running=running_jobs(1, stop_requested_s=columns.get("stop_requested_s", [np.nan])))
    left = still_wanted(power, {Lane.EXCLUDE: wishes}, seen, replace(POLICY.rules, trial=trial))
    return list(left[Lane.EXCLUDE])


def test_a_change_that_has_begun_goes_on_and_ends_and_none_begins():
    assert wanted(STEER, LET_GO, ASK, REQUEUE) == [LET_GO]
    assert wanted(STEER, LET_GO, ASK, REQUEUE, trial=None) == [STEER, LET_GO, ASK, REQUEUE]
    assert wanted(STEER, steered=["v100"], excluded_nodes=["n[3-4]"]) == [STEER]
    assert wanted(ASK, REQUEUE, stop_requested_s=[NOW_S - 30.0]) == [REQUEUE], (
        "it was asked, and its time to save is over"
    )
    assert wanted(ASK, REQUEUE, power="deadlines") == [ASK, REQUEUE], "a promise is kept"


def test_held_out_jobs_are_not_changed_and_others_are():
    everybody, nobody = TrialRules(holdout=1.0), TrialRules(holdout=0.0)
    assert wanted(STEER, LET_GO, trial=everybody) == [LET_GO]
    assert wanted(STEER, LET_GO, trial=nobody) == [STEER, LET_GO]


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_the_share_of_jobs_is_held_out_and_other_seeds_hold_out_other_jobs(share):
    many = jobs(20_000)
    first, second = (held_out(many, TrialRules(holdout=share, seed=seed)) for seed in (1, 2))
    assert first.mean() == pytest.approx(share, rel=0.15)
    assert (first & second).mean() == pytest.approx(share**2, abs=0.003)
    array = jobs(3, job_id=[5, 6, 7], array_job_id=[5, 5, 5])
    assert len(set(held_out(array, TrialRules(holdout=0.5, seed=1)).tolist())) == 1


@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(0, 1), st.data())
def test_a_held_out_job_stands_where_slurms_own_order_has_it(seed, many, share, data):
    random = np.random.default_rng(seed)
    pending = jobs(many, priority=random.integers(1, 20, many))
    ranked, classes = random.permutation(many), np.zeros(many, dtype=np.int64)
    trial = TrialRules(holdout=share, seed=seed)
    placed = with_holdout(ranked, pending, trial, classes, np.zeros(many, dtype=np.bool_))
    own = np.lexsort((pending.job_id, pending.came_s, -pending.priority))
    out = held_out(pending, trial)
    assert sorted(placed.tolist()) == list(range(many))
    assert [row for row, mine in zip(placed.tolist(), own.tolist(), strict=True) if out[mine] and row != mine] == []
    assert placed[~out[placed]].tolist() == ranked[~out[ranked]].tolist(), "the others keep their order"


@given(views())
def test_slurm_follows_the_order_with_held_out_jobs_too(seen):
    policy = replace(POLICY, rules=replace(POLICY.rules, admission=None, trial=TrialRules(holdout=0.3, seed=1)))
    plan = decided(seen, policy)
    assert sorted(plan.jobs.rank[plan.jobs.rank >= 0].tolist()) == list(range(int((plan.jobs.rank >= 0).sum())))


def test_steering_goes_on_with_its_rules_only_for_what_is_steered():
    rules = replace(POLICY.rules, steering=SteeringRules())
    off = without_policy(replace(POLICY, rules=rules), OFF)
    assert off.rules.steering == SteeringRules(), "patience with full types counts as before"
