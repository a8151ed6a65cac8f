"""What is not known of the limits of waiting jobs: minutes that others may use up first, and what is not counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, running_jobs, view

from slurmsched.cluster.limits import limit_table
from slurmsched.cluster.records.predictions import PredictionKind, PredictionTable, prediction_table
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.explain.eta import doubts_by_job, eta_of
from slurmsched.explain.limits import UNSEEN_USE_S, doubts_of_limits
from slurmsched.explain.why import Circumstances, why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

BUDGET = {"whose": "qos", "name": "small", "counts": "group", "resource": "minutes:gpu", "flags": "Safe"}
OF_USER = BUDGET | {"counts": "user", "resource": "run-minutes:gpu", "flags": ""}
SMALL = "what other jobs leave of the 10 GPU minutes that its QOS (small) allows to all jobs together"


def waiting(minutes: list[int], *limits: dict[str, object], **columns: object) -> View:
    """Jobs of one GPU with time limits of so many *minutes*, in a QOS with *limits*, on eight free GPUs."""
    many = len(minutes)
    small = {"qos": ["small"] * many, "time_limit_s": np.array(minutes) * 60.0} | columns
    return replace(view(jobs(many, **small)), limits=limit_table(limits))


def predicted(seen: View) -> tuple[PredictionTable, dict[int, tuple[str, ...]]]:
    plan = decide(seen, find_ordering("fifo"), Rules())
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, {"PriorityType": "priority/multifactor"})
    return table, doubts_by_job(table)


@pytest.mark.parametrize(
    ("minutes", "used", "in_doubt"),
    [([4, 6], 0.0, []), ([4, 7], 0.0, [2]), ([4, 6], 1.0, [2]), ([4, 4, 4], 0.0, [3]), ([8, 4, 8], 2.0, [2, 3])],
)
def test_a_waiting_job_is_in_doubt_where_jobs_before_it_may_use_up_the_minutes_of_its_qos(minutes, used, in_doubt):
    priority = [1000 - row for row in range(len(minutes))]
    seen = waiting(minutes, BUDGET | {"most": 10.0, "used": used}, priority=priority)
    _, doubts = predicted(seen)
    assert doubts == dict.fromkeys(in_doubt, (SMALL,))


def test_eta_and_why_say_first_what_the_time_of_a_waiting_job_does_not_count():
    seen = waiting([8, 8], BUDGET | {"most": 10.0}, priority=[1000, 900])
    table, _ = predicted(seen)
    first, last = (eta_of(table, seen, job, NOW_S) for job in (1, 2))
    assert (first.not_understood, last.not_understood) == ((), (SMALL,))
    assert last.start_s is not None
    plan = decide(seen, find_ordering("fifo"), Rules())
    told = [why(seen, plan, Rules(), one.job_id, Circumstances(eta=one)).reason for one in (first, last)]
    assert "Its time does not count" not in told[0]
    assert told[1].startswith(f"Its time does not count {SMALL}. ")


def test_a_job_that_has_no_time_has_no_doubt_about_it():
    table = prediction_table(1, job_id=[1], kind=[int(PredictionKind.HELD)], doubts=[SMALL])
    assert doubts_by_job(table) == {}
    assert eta_of(table, view(jobs(1, first_submit_s=[0.0])), 1, NOW_S).doubts == ()


def test_jobs_that_are_held_or_have_no_minutes_left_themselves_use_nothing_up():
    budget = BUDGET | {"most": 10.0, "used": 2.0}
    for reason, priority in (("JobHeldUser", 0), ("QOSGrpGRESMinutes", 2000)):
        seen = waiting([9, 6], budget, reason=[reason, "Priority"], priority=[priority, 1000])
        assert predicted(seen)[1] == {}, reason
    seen = waiting([9, 6], budget, reason=["Dependency", "Priority"], dependency=["afterany:77", ""])
    assert list(predicted(seen)[1]) == [2], "it may start at any time"


def test_what_a_running_job_has_used_is_not_counted_twice():
    hours = 3600.0 * 10
    busy = running_jobs(1, qos=["small"], time_limit_s=[hours + 600.0], started_s=[NOW_S - hours], gpus=[1])
    unseen = (UNSEEN_USE_S + 600.0) / 60.0
    for spare, in_doubt in ((0.0, {}), (-1.0, {0})):
        limit = BUDGET | {"most": hours / 60 + unseen + 5.0 + spare, "used": hours / 60}
        seen = replace(view(jobs(1, qos=["small"], time_limit_s=[300.0]), running=busy), limits=limit_table([limit]))
        found = doubts_of_limits(seen, seen.pending, np.array([NOW_S]), np.array([0.0]))
        assert set(found) == set(in_doubt)


def test_a_running_job_without_a_time_limit_counts_only_for_its_own_budget():
    for qos, in_doubt in (("other", set()), ("small", {0})):
        busy = running_jobs(1, qos=[qos], time_limit_s=[np.inf], started_s=[NOW_S - 60.0], gpus=[1])
        waits = jobs(2, qos=["small", "other"], time_limit_s=[300.0, np.inf], tasks=np.array([1, 0]))
        seen = replace(view(waits, running=busy), limits=limit_table([BUDGET | {"most": 5.0}]))
        found = doubts_of_limits(seen, seen.pending, np.full(2, NOW_S), np.arange(2.0))
        assert set(found) == in_doubt


def test_what_is_not_counted_of_a_limit_at_all_is_said_of_waiting_jobs_as_of_new_ones():
    seen = waiting([4], BUDGET | {"resource": "billing", "most": 5.0})
    assert predicted(seen)[1] == {1: ("what its QOS (small) limits: billing",)}


def drawn(random: np.random.Generator) -> tuple[View, np.ndarray, np.ndarray]:
    """A queue of two QOS and three users with budgets of both kinds; its starts and places."""
    many, running = int(random.integers(1, 9)), int(random.integers(0, 4))

    def columns(size: int) -> dict[str, object]:
        return {
            "qos": random.choice(["small", "large"], size).tolist(),
            "user": random.choice(["alice", "bob", "carol"], size).tolist(),
            "gpus": random.integers(0, 4, size),
            "time_limit_s": random.integers(1, 30, size) * 60.0,
        }

    limits = [
        BUDGET | {"most": float(random.integers(20, 300)), "used": float(random.integers(0, 20))},
        OF_USER | {"most": float(random.integers(10, 120))},
    ]
    started_s = NOW_S - random.integers(0, 1700, running)
    busy = running_jobs(running, started_s=started_s, **columns(running))
    pending = jobs(many, tasks=random.integers(1, 3, many), **columns(many))
    start_s = np.where(random.random(many) < 0.2, np.nan, NOW_S + random.integers(0, 4, many))
    place = random.choice([-1.0, np.inf, *range(many)], many)
    return replace(view(pending, running=busy), limits=limit_table(limits)), start_s, place


def by_hand(seen: View, start_s: np.ndarray, place: np.ndarray) -> set[int]:
    """Count job by job what may be gone before each one starts."""
    found = set()
    wait, run = seen.pending, seen.running
    for row in range(len(wait)):
        if np.isnan(start_s[row]) or wait.qos[row] != "small" or not wait.gpus[row]:
            continue
        for at in range(2):
            users = {wait.user[row]} if at else {"alice", "bob", "carol"}
            lacking_s = 0.0 if at else UNSEEN_USE_S
            minutes = float(seen.limits.used[at])
            for one in range(len(run)):
                if run.qos[one] == "small" and run.user[one] in users:
                    ran_s = max(seen.now_s - run.started_s[one] - lacking_s, 0.0)
                    minutes += run.gpus[one] * max(run.time_limit_s[one] - ran_s, 0.0) / 60
            for one in range(len(wait)):
                mine = wait.qos[one] == "small" and wait.user[one] in users
                before = place[one] < np.inf and (start_s[one] < start_s[row] or place[one] < place[row])
                if mine and (one == row or before):
                    minutes += wait.gpus[one] * wait.tasks[one] * wait.time_limit_s[one] / 60
            if minutes > seen.limits.most[at] + 1e-9:
                found.add(row)
    return found


def test_in_drawn_queues_those_are_in_doubt_whose_minutes_others_may_take_first():
    random, in_doubt, jobs_in_all = np.random.default_rng(7), 0, 0
    for _ in range(400):
        seen, start_s, place = drawn(random)
        found = doubts_of_limits(seen, seen.pending, start_s, place)
        assert set(found) == by_hand(seen, start_s, place)
        in_doubt, jobs_in_all = in_doubt + len(found), jobs_in_all + len(seen.pending)
    assert 0.05 < in_doubt / jobs_in_all < 0.5, "both answers come up"


def test_limits_of_nodes_are_doubted_only_where_slurm_may_take_more_of_them():
    limit = {"whose": "qos", "name": "small", "counts": "node", "resource": "gpu", "most": 1.0}
    seen = waiting([4, 4], limit, gpus=[2, 2], per_job=[True, True], nodes=[1, 1], most_nodes=[4, 1])
    found = doubts_of_limits(seen, seen.pending, np.full(2, NOW_S), np.arange(2.0))
    assert found == {0: ("how many nodes it takes (its QOS (small) allows 1 GPU on one node)",)}
