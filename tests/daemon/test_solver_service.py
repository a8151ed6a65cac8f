"""The solver beside the daemon's cycles."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from simulator.test_solver import SJF, crowd, rules

from slurmsched.daemon.solver_service import SolverService
from slurmsched.decide.policy import Policy
from slurmsched.policies.deadlines.lease_solver import LeaseSolver
from slurmsched.powers import decide

REFUSED = crowd([1, 2, 4], [1, 2, 2], [4, 2, 4])
"""A view whose last job is refused by the plan of latest starts."""


def report(mode="act"):
    return SimpleNamespace(mode=mode, view=REFUSED, plan=decide(REFUSED, SJF, rules()))


@pytest.fixture
def service():
    made = []

    def make(solver_s=5.0, no_answer=lambda: None, **details):
        policy = Policy(SJF, rules(solver_s=solver_s))
        made.append(SolverService(lambda: policy, LeaseSolver(**details), no_answer))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def until(reached):
    for _ in range(1200):
        if reached():
            return True
        time.sleep(0.05)
    return False


def test_the_answer_to_a_cycle_is_there_for_a_later_one(service):
    solver = service()
    assert len(solver.latest()) == 0
    solver.observe(report())
    assert until(lambda: len(solver.latest()))
    assert sorted(solver.latest().job_id.tolist()) == [1, 2, 3]


@pytest.mark.parametrize("worker", ["tests.policies.hanging_solver", "tests.policies.dying_solver"])
def test_a_solver_that_fails_is_logged_and_counted_and_costs_no_cycle_anything(service, worker, caplog):
    missing = []
    solver = service(0.5, lambda: missing.append(worker), worker=worker, startup_s=0.5)
    for count in (1, 2):
        began_s = time.monotonic()
        solver.observe(report())
        assert time.monotonic() - began_s < 30.0, "a hanging one never answers"
        assert until(lambda expected=count: len(missing) == expected)
    assert caplog.text.count("the solver gave no answer") == 2
    assert len(solver.latest()) == 0


def test_a_daemon_that_stops_ends_a_solver_that_hangs(service):
    solver = service(solver_s=3_000.0, worker="tests.policies.hanging_solver")
    solver.observe(report())
    assert until(lambda: solver._solver._process._child is not None)
    solver.close()
    assert not solver._thread.is_alive()


def test_nothing_is_solved_while_the_daemon_observes_or_without_seconds_for_it(service):
    observing, off = service(worker="tests.policies.dying_solver"), service(solver_s=0.0)
    observing.observe(report("observe"))
    off.observe(report())
    assert observing._report is None
    assert off._report is None
