"""Plans of leases: what is promised is kept, what is worth most is chosen, and nothing impossible is planned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from lease_worlds import best_of_all, problem, problems

from examples import examples
from slurmsched.policies.deadlines.greedy_plan import greedy
from slurmsched.policies.deadlines.lease_plan import solve
from slurmsched.policies.deadlines.lease_problem import plan_of
from slurmsched.policies.deadlines.milp_solver import Solution, highs
from slurmsched.policies.deadlines.plan_check import violations
from slurmsched.policies.deadlines.slot_prices import improved

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PuLP warns of its next version

EXACTLY = 1e-6


def lying(question):
    return Solution(np.ones(len(question.start)), 1e9)


@examples(30)
@given(problems())
def test_the_solver_finds_the_best_plan_of_all(asked):
    plan, best = solve(asked, 30.0, highs, gap=EXACTLY), best_of_all(asked)
    assert plan.rank == pytest.approx(best.rank)
    assert violations(asked, plan) == []


@examples(50)
@given(problems())
def test_a_bound_is_never_below_what_is_possible(asked):
    first = greedy(asked)
    plan, best = improved(asked, first, EXACTLY), best_of_all(asked)
    assert violations(asked, first) == violations(asked, plan) == []
    assert first.rank <= plan.rank <= best.rank
    if plan.kept == best.kept:
        assert plan.bound >= best.value - 1e-6


def test_a_promise_comes_before_any_reward():
    asked = problem((4, 2, [(2, 1)], "promised"), (4, 1, [(1, 10)]), (4, 1, [(2, 10)]))
    plan = solve(asked, 10.0, highs)
    assert (plan.kept, plan.value) == (1, 1.0)


def test_a_job_with_a_later_step_waits_for_it():
    asked = problem((4, 1, [(1, 10), (2, 8)]), (4, 1, [(1, 10)]))
    assert solve(asked, 10.0, highs).step.tolist() == [1, 0]


def test_a_contiguous_job_is_not_interrupted():
    asked = problem((4, 3, [(4, 9)], "contiguous"), (4, 1, [(2, 5)]), horizon=4)
    plan = solve(asked, 10.0, highs)
    assert plan.grants.tolist() == [[False, True, True, True], [True, False, False, False]]


def test_a_job_that_runs_on_lost_nodes_keeps_what_it_holds_and_others_wait():
    asked = problem((4, 2, [(3, 5)], "fixed"), (1, 1, [(3, 5)]), capacity=[[2, 2, 2]])
    assert solve(asked, 1.0).grants.tolist() == [[True, True, False], [False, False, True]]


def test_a_job_of_four_does_not_fit_where_only_pairs_are_free():
    asked = problem((4, 1, [(1, 5)]), (2, 1, [(1, 3)]), (2, 1, [(1, 3)]), capacity=[[4], [4], [0]])
    assert solve(asked, 10.0, highs).step.tolist() == [-1, 0, 0]


def test_a_hopeless_promise_does_not_cost_the_others_theirs():
    asked = problem((1, 3, [(2, 9)], "promised"), (4, 2, [(2, 5)], "promised"))
    assert solve(asked, 10.0, highs).step.tolist() == [-1, 0]


def test_an_impossible_answer_is_not_believed():
    asked = problem((3, 1, [(1, 5)]), (3, 1, [(1, 5)]))
    plan = solve(asked, 10.0, lying, gap=EXACTLY)
    assert (plan.origin, plan.value) == ("greedy", 5.0)


def test_without_a_solver_most_jobs_of_a_crowd_still_get_most_of_what_is_possible():
    random = np.random.default_rng(3)
    jobs = []
    for _ in range(200):
        leases = int(random.integers(1, 12))
        deadline = int(leases * random.uniform(1.2, 2)) + 1
        jobs.append((int(random.choice([1, 1, 1, 2, 4, 8])), leases, [(deadline, 10)], "contiguous"))
    plan = solve(problem(*jobs, gpus=150), 5.0)
    assert violations(problem(*jobs, gpus=150), plan) == []
    assert 0.5 * 2000 < plan.bound < 2000
    assert plan.gap < 0.04


@pytest.mark.parametrize(
    ("grants", "said"),
    [
        ([[True, False], [True, False]], "slot 0: 8 GPUs in blocks of 1 where 4 are"),
        ([[True, True], [False, False]], "job 0 holds 2 leases and needs 1"),
        ([[False, False], [True, False]], "job 0 does not meet step 0"),
    ],
)
def test_what_is_impossible_is_said(grants, said):
    asked = problem((4, 1, [(2, 5)]), (4, 1, [(2, 5)]))
    plan = plan_of(asked, np.array([[True, False], [False, True]]), "made up")
    wrong = type(plan)(np.array(grants), plan.step, plan.value, plan.kept, plan.bound, plan.origin)
    assert said in violations(asked, wrong)


@pytest.mark.parametrize(
    "jobs",
    [
        [(0, 1, [(1, 5)])],
        [(1, 0, [(1, 5)])],
        [(1, 1, [(2, 5), (1, 3)])],
        [(1, 1, [(1, 5), (2, 6)])],
    ],
)
def test_jobs_that_cannot_mean_anything_are_refused(jobs):
    with pytest.raises(ValueError, match=r"accepted|ask"):
        problem(*jobs)
