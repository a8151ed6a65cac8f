"""What an address may have refused before nothing of it is examined."""

from __future__ import annotations

from slurmsched.clock import ManualClock
from slurmsched.daemon.api.refusal_budget import BURST, MOST, PER_S, RefusalBudget


def test_a_budget_fills_again_and_never_beyond_its_burst():
    clock = ManualClock()
    budget = RefusalBudget(clock.monotonic)
    assert not budget.spent("a")
    for _ in range(int(BURST)):
        budget.charge("a")
    assert budget.spent("a")
    clock.now_s += 2.0 / PER_S
    budget.charge("a")
    assert not budget.spent("a")
    budget.charge("a")
    assert budget.spent("a")
    clock.now_s += 1e9
    for _ in range(int(BURST)):
        assert not budget.spent("a")
        budget.charge("a")
    assert budget.spent("a")


def test_any_number_of_addresses_takes_a_bounded_amount_of_memory_and_the_busiest_are_remembered():
    budget = RefusalBudget(ManualClock().monotonic)
    for number in range(3 * MOST):
        budget.charge(number)
        budget.charge("loud")
    assert budget.spent("loud")
    assert len(budget._accounts) == MOST
