"""Who asked for deadlines, and how much of it counts."""

from __future__ import annotations

from dataclasses import replace

from views import NOW_S, forecast, jobs, view

from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.promises import PromiseState, PromiseTable, promise_table
from slurmsched.decide.deadlines.deadline_usage import DeadlineUsage, claims
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

HOUR_S, DAY_S = 3600.0, 86_400.0
RULES = DeadlineRules(window_s=10 * DAY_S, interval_s=DAY_S, user_gpu_hours=50.0, user_gpus=8, exempt=("root",))


def claimed(table: PromiseTable, rules: DeadlineRules | None = RULES) -> tuple[DeadlineUsage, ...]:
    what = view(jobs(0), forecast([]).runtime_s)
    plan: Plan = decide(what, find_ordering("fifo"), Rules())
    return claims(what, replace(plan, promises=table), rules)


def test_each_user_and_account_is_told_with_what_counts_and_those_with_most_come_first():
    states = (PromiseState.OPEN, PromiseState.REFUSED, PromiseState.BROKEN, PromiseState.WITHDRAWN, PromiseState.OPEN)
    table = promise_table(
        6,
        job_id=[1, 2, 3, 4, 5, 6],
        user=["alice", "bob", "bob", "bob", "bob", "root"],
        account=["a", "a", "b", "b", "b", ""],
        state=[*states, PromiseState.MET],
        gpus=[1, 2, 4, 2, 1, 1],
        needs_s=[HOUR_S] * 6,
        asked_s=[NOW_S - 60.0, NOW_S - 60.0, NOW_S - 2 * DAY_S, NOW_S - 60.0, NOW_S - 60.0, NOW_S - 11 * DAY_S],
    )
    said = [(one.who, one.asked, one.promised, one.gpu_hours, one.gpus) for one in claimed(table)]
    assert said == [("bob", 4, 3, 5.0, 5), ("alice", 1, 1, 1.0, 1), ("b", 3, 3, 5.0, 3), ("a", 2, 1, 1.0, 3)]
    bob, alice, b, _ = claimed(table)
    assert (bob.refused, bob.broken, bob.withdrawn, bob.most_gpu_hours, bob.most_gpus) == (1, 1, 1, 50.0, 8)
    assert (alice.account, b.account, b.most_gpu_hours, b.most_gpus) == (False, True, None, None)


def test_nobody_asked_where_nobody_asked_or_there_are_no_deadlines():
    assert claimed(promise_table(0)) == ()
    assert claimed(promise_table(1, user=["alice"], asked_s=[NOW_S]), None) == ()
