"""The solver beside the cycles: more is promised with it, all of that is kept, and no cycle depends on its answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, view
from decide.views import jobs as waiting
from decide.views import nodes as room
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_leases import jobs
from simulator.worlds import decided

from examples import examples
from slurmsched.child_process import ChildFailed
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.promises import PromiseState
from slurmsched.db.store import Store
from slurmsched.decide.deadlines.solving import problem_after
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.deadlines.lease_plan import solve
from slurmsched.policies.deadlines.lease_solver import LeaseSolver
from slurmsched.policies.deadlines.milp_solver import highs
from slurmsched.policies.deadlines.plan_check import violations
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PuLP warns of its next version

MINUTE_S, HOUR_S = 60.0, 3_600.0
SJF = find_ordering("sjf")
TERMS = "leases foreseen=0 reserve=0"
NOBODY_STOPS = jobs((0, 30, 4, ""), (1, 60, 1, "1@305"), (1, 120, 2, "1@185"), (1, 120, 4, "1@305"), ckpt=False)
"""Three jobs that fit on four GPUs after a first one; as late as possible, the second takes a GPU of the last one."""


def leased(solver_s, **details):
    return Setup.of("chronus", f"{TERMS} solver_s={solver_s}", placement="pool", **details)


def rules(**changes):
    deadlines = replace(DeadlineRules(lead_s=60.0, reserve=0.0, solver_s=5.0), **changes)
    return Rules(powers=ALL_POWERS, scope="queue", deadlines=deadlines)


def crowd(gpus, hours, due_hours):
    """Jobs with exact forecasts on one node of four GPUs."""
    needs_s = np.array(hours, dtype=np.float64) * HOUR_S
    due_s = NOW_S + np.array(due_hours) * HOUR_S + 25 * MINUTE_S
    return view(waiting(len(gpus), gpus=gpus, deadline_s=due_s, time_limit_s=needs_s), needs_s, room=room((4,)))


def solved(what, plan):
    """The view of a cycle half a minute later, with the promises of *plan* and the solver's answer to it."""
    request = problem_after(what, plan, rules())
    assert request is not None
    answer = solve(request.problem, 30.0, highs, first=request.first)
    assert violations(request.problem, answer) == []
    return replace(what, now_s=what.now_s + 30.0, promises=plan.promises, solved=request.starts(answer))


def test_a_refused_job_is_promised_where_the_solver_finds_a_place_beside_all_promises():
    alone = decided(NOBODY_STOPS, ClusterSpec.of(1, 4), leased(0))
    beside = decided(NOBODY_STOPS, ClusterSpec.of(1, 4), leased(5))
    assert (alone.decisions.promised, beside.decisions.promised) == (2, 3)
    assert beside.decisions.broken == 0
    assert (beside.end_s <= NOBODY_STOPS.deadline_s).all()


def test_the_daemons_rules_promise_it_too_on_a_modelled_slurm():
    asked = replace(NOBODY_STOPS, time_limit_s=NOBODY_STOPS.runtime_s)
    promised = []
    for solver_s in (0.0, 5.0):
        policy = Policy(find_ordering("chronus"), rules(solver_s=solver_s))
        made = simulate(asked, ClusterSpec.of(1, 4), Setup.of_site(policy, 30.0, "site"))
        promised.append((made.decisions.promised, made.decisions.broken))
    assert promised == [(2, 0), (3, 0)]


def test_a_plan_of_the_solver_is_followed_only_while_others_lose_a_promise():
    what = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
    first = decide(what, SJF, rules())
    assert first.promises.open.tolist() == [True, True, False]
    later = solved(what, first)
    second = decide(later, SJF, rules())
    assert second.solved
    assert second.promises.open.tolist() == [True, True, False, True]
    words = " ".join(why(later, second, Rules(), 3).sentences)
    assert "it has a place by the solver's plan, from" in words
    easy = replace(later, promises=first.promises, pending=replace(later.pending, gpus=np.ones(3, dtype=np.int64)))
    assert not decide(easy, SJF, rules()).solved


def test_an_answer_that_no_longer_fits_is_dropped_and_earlier_promises_stay():
    what = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
    later = solved(what, decide(what, SJF, rules()))
    shrunk = replace(later, nodes=room((3,)))
    plan = decide(shrunk, SJF, rules())
    assert plan.promises.open.tolist() == [True, True, False]
    without = decide(replace(shrunk, solved=shrunk.solved.take(slice(0, 0))), SJF, rules())
    assert plan.promises.equals(without.promises)
    gone = replace(later, solved=replace(later.solved, job_id=later.solved.job_id + 100))
    assert decide(gone, SJF, rules()).promises.open.tolist() == [True, True, False]


@examples(15)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=5))
def test_with_an_answer_no_fewer_jobs_are_promised_and_all_of_them_fit_at_once(rows):
    gpus, hours, spare = zip(*rows, strict=True)
    what = crowd(gpus, hours, np.array(hours) + np.array(spare))
    first = decide(what, SJF, rules())
    if problem_after(what, first, rules()) is None:
        assert first.promises.open.all()
        return
    second = decide(solved(what, first), SJF, rules())
    assert set(first.promises.job_id[first.promises.open]) <= set(second.promises.job_id[second.promises.open])
    starts_s = second.promises.start_by_s[second.promises.open]
    assert (starts_s >= NOW_S).all()
    ends_s = starts_s + second.promises.needs_s[second.promises.open]
    held = second.promises.gpus[second.promises.open]
    for moment_s in starts_s.tolist():
        assert held[(starts_s <= moment_s) & (ends_s > moment_s + 1)].sum() <= 4


def test_without_a_refusal_or_a_job_at_a_loss_the_solver_has_nothing_to_do():
    what = crowd([1, 1], [1, 1], [2, 2])
    assert problem_after(what, decide(what, SJF, rules()), rules()) is None
    refused = crowd([4, 4], [2, 2], [2, 2])
    assert problem_after(refused, decide(refused, SJF, rules()), rules(solver_s=0.0)) is None


def test_steps_of_a_soft_deadline_in_any_order_make_a_problem():
    what = crowd([4, 4, 4], [2, 2, 2], [2, 2, 2])
    steps = "slurmsched:deadline=+2h,soft,80@+5h,90@+3h"
    odd = replace(what.pending, soft=np.ones(3, dtype=np.bool_), comment=Labels.of([steps] * 3))
    plan = decide(what, SJF, rules())
    assert PromiseState.REFUSED in plan.promises.state
    assert problem_after(replace(what, pending=odd), plan, rules()) is not None


def test_a_decision_with_an_answer_is_the_same_from_its_record(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/records.db")
    store.upgrade()
    decided(NOBODY_STOPS, ClusterSpec.of(1, 4), leased(5), store=store)
    records = [store.decision(number) for number in store.decision_numbers()]
    assert any(record.plan.solved for record in records)
    assert any("promises by the solver's plan" in record.sentence for record in records)
    for record in records:
        policy = Policy.from_json(record.settings_json)
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
    store.close()


def test_the_same_jobs_are_a_new_problem_after_ten_minutes_and_others_at_once():
    what = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
    request = problem_after(what, decide(what, SJF, rules()), rules())
    solver = LeaseSolver()
    assert solver.solve(request, 5.0) is not None
    assert solver.solve(replace(request, now_s=NOW_S + 599.0), 5.0) is None
    assert request.is_news_after(replace(request, job_id=request.job_id + 1))
    assert solver.solve(replace(request, now_s=NOW_S + 600.0), 5.0) is not None
    solver.close()


def test_a_solver_that_prints_leaves_the_output_to_the_command_that_started_it(capfd):
    what = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
    solver = LeaseSolver("tests.policies.talking_solver")
    assert solver.solve(problem_after(what, decide(what, SJF, rules()), rules()), 5.0) is not None
    solver.close()
    written = capfd.readouterr()
    assert written.out == ""
    assert "Running a solver" in written.err


@pytest.mark.parametrize(
    ("worker", "startup_s", "why"),
    [
        ("tests.policies.hanging_solver", 1.0, "longer than"),
        ("tests.policies.dying_solver", 60.0, "died"),
        ("tests.no_solver", 60.0, "died"),
    ],
)
def test_a_solver_that_hangs_or_dies_gives_no_answer_and_another_one_is_started(worker, startup_s, why):
    what = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
    request = problem_after(what, decide(what, SJF, rules()), rules())
    solver = LeaseSolver(worker, startup_s=startup_s)
    for _ in range(2):
        with pytest.raises(ChildFailed, match=why):
            solver.solve(request, 0.5)
    solver.close()
