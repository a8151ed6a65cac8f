"""What other orders would do, played in a process of its own: the latest at once, and one play at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from web_worlds import observed

from slurmsched.clock import ManualClock
from slurmsched.daemon.order_effects_service import FRESH_S, NOBODY, ORDERS, PLAYING, OrderEffectsService
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.foresee.order_effects_worker import answer
from slurmsched.lab import wait_until
from slurmsched.policies.contract import find_ordering

WORKER = "slurmsched.foresee.order_effects_worker"
POLICY = Policy(find_ordering("fifo"), Rules(powers=frozenset({"order"}), scope="queue"))


def longest_first():
    """A queue whose first job is by far the longest; all runtimes are certain, so that an order is played once."""
    seen = observed(("daemon",) * 6)
    runtime_s = np.array([40.0, 1.0, 1.0, 1.0, 1.0]) * 3600.0
    waiting, running = seen.forecast, seen.forecast_running
    return replace(
        seen,
        forecast=replace(waiting, runtime_s=runtime_s, low_s=runtime_s, high_s=runtime_s),
        forecast_running=replace(running, low_s=running.runtime_s, high_s=running.runtime_s),
    )


def test_shortest_first_shortens_waits_at_the_cost_of_the_longest():
    error, effects = answer((longest_first(), POLICY.to_json(), {}, 60.0, True, ("fifo", "sjf")))
    assert error == ""
    now, fifo, sjf = effects.rows
    assert [now.order, fifo.order, sjf.order] == ["as now", "fifo", "sjf"]
    assert fifo.mean_wait_s == pytest.approx(now.mean_wait_s)
    assert sjf.mean_wait_s < 0.7 * now.mean_wait_s
    assert (sjf.sooner, sjf.later) == (4, 1)


def test_an_unknown_order_is_an_error_in_words():
    error, effects = answer((longest_first(), POLICY.to_json(), {}, 60.0, True, ("nonsense",)))
    assert effects is None
    assert "nonsense" in error


def test_whoever_asks_gets_the_latest_at_once_and_a_new_play_begins_when_it_is_old():
    clock = ManualClock()
    service = OrderEffectsService(WORKER, lambda: POLICY, dict, 60.0, clock)
    try:
        view = longest_first()
        assert service.of(view, "act") == replace(service.of(view, "act"), effects=None, note=PLAYING)
        wait_until(lambda: service.of(view, "act").note != PLAYING, 300, "the orders to be played")
        first = service.of(view, "act")
        assert (first.note, [row.order for row in first.effects.rows]) == ("", ["as now", *ORDERS])
        clock.now_s = FRESH_S - 1
        assert service.of(view, "act") is first
        clock.now_s = FRESH_S
        assert service.of(view, "act").effects is first.effects, "the last one, while a new one is made"
        assert service.of(view.take(np.zeros(0, dtype=np.int64)), "act").note == NOBODY
    finally:
        service.close()
