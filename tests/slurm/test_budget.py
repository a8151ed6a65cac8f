"""The price slurmctld pays: never more than the bucket holds, less while it is slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.slurm.port import ControllerLoad
from slurmsched.slurm.write.budget import Budget


@given(
    st.floats(0.1, 100),
    st.integers(1, 200),
    st.lists(st.tuples(st.floats(0, 60), st.integers(0, 500), st.floats(1e-5, 1.0)), max_size=60),
)
def test_never_more_than_the_burst_and_the_rate_over_any_time(per_s, burst, steps):
    budget, now_s, calls, total_s = Budget(per_s, burst), 0.0, 0, 0.0
    granted: list[tuple[float, int]] = []
    for elapsed_s, wanted, mean_s in steps:
        now_s, calls, total_s = now_s + elapsed_s, calls + 100, total_s + 100 * mean_s
        budget.apply_load(ControllerLoad(mean_s, calls, total_s, 0), now_s)
        granted.append((now_s, budget.take(wanted, now_s)))
        assert 0 <= granted[-1][1] <= wanted
        assert 1 / 16 <= budget.pace <= 1
    for first, (began_s, _) in enumerate(granted):
        for last in range(first, len(granted)):
            sent = sum(number for _, number in granted[first : last + 1])
            assert sent <= burst + per_s * (granted[last][0] - began_s) + 1e-6


class Controller:
    """An sdiag whose mean service time is what the test says."""

    def __init__(self) -> None:
        self.calls, self.total_s, self.now_s = 0, 0.0, 0.0

    def load(self, mean_s: float, calls: int = 100, elapsed_s: float = 1.0) -> tuple[ControllerLoad, float]:
        """The counters after so many more calls, and when they are read."""
        self.now_s += elapsed_s
        self.calls += calls
        self.total_s += calls * mean_s
        return ControllerLoad(self.total_s / self.calls if self.calls else 0.0, self.calls, self.total_s, 0), self.now_s


def test_the_pace_halves_when_answers_take_twice_as_long_and_recovers():
    budget, slurmctld = Budget(20.0, 100), Controller()
    for _ in range(3):
        budget.apply_load(*slurmctld.load(0.001))
    assert budget.pace == 1
    budget.apply_load(*slurmctld.load(0.0021))
    assert budget.pace == 0.5
    budget.apply_load(*slurmctld.load(0.0021))
    assert budget.pace == 0.25
    for _ in range(10):
        budget.apply_load(*slurmctld.load(0.01))
    assert budget.pace == 1 / 16, "never wholly stopped"
    for _ in range(4):
        budget.apply_load(*slurmctld.load(0.001))
    assert budget.pace == 1


def test_a_controller_that_has_little_to_do_is_not_slow_though_each_answer_is_longer():
    """Thousands of submissions are fast, reading the queue that they made is not."""
    budget, slurmctld = Budget(20.0, 100), Controller()
    budget.apply_load(*slurmctld.load(0.001, 5000, 60.0))
    for _ in range(20):
        budget.apply_load(*slurmctld.load(0.03, 10, 5.0))
        assert budget.pace == 1
    budget.apply_load(*slurmctld.load(0.06, 20, 5.0))
    assert budget.pace == 0.5, "now it is busy too"


def test_what_stays_slow_becomes_the_usual_in_the_end():
    budget, slurmctld = Budget(20.0, 100), Controller()
    budget.apply_load(*slurmctld.load(0.001))
    readings = 0
    budget.apply_load(*slurmctld.load(0.003))
    while budget.pace < 1:
        budget.apply_load(*slurmctld.load(0.003))
        readings += 1
    assert 50 < readings < 500


def test_a_slow_controller_is_sent_half_as_much():
    budget = Budget(20.0, 100, pace=0.5)
    assert budget.take(1000, 0.0) == 50
    spent = [budget.take(1000, float(second)) for second in range(1, 200)]
    assert sum(spent[-100:]) == pytest.approx(1000, abs=2), "20/s at half the pace"


def test_counters_that_start_again_are_no_news():
    budget, slurmctld = Budget(20.0, 100), Controller()
    budget.apply_load(*slurmctld.load(0.001))
    budget.apply_load(ControllerLoad(0.5, 3, 1.5, 0), 2.0)
    assert budget.pace == 1
    budget.apply_load(ControllerLoad(0.5, 3, 1.5, 0), 2.0)
    assert budget.pace == 1, "no calls since: nothing is known"
