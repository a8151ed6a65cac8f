"""A power whose decisions take long waits its turn; the order and the other powers decide in every cycle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, view
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import Rank, Steer
from slurmsched.cluster.columns import Labels
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import RightsizingRules, Rules, SteeringRules
from slurmsched.decide.turns import LONGEST_WAIT, Turns
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import CAN_WAIT, decide
from slurmsched.powers.decision import decide_here

RULES = Rules(
    powers=frozenset({"order", "steer", "rightsize"}),
    scope="queue",
    steering=SteeringRules(),
    rightsizing=RightsizingRules(accounts=("",)),
)
POLICY = Policy(find_ordering("sjf"), RULES)


@pytest.fixture
def two_types():
    """Two waiting jobs that run faster on one of two types, which change their order too."""
    pending = jobs(2, type_speeds=["a100=1 v100=0.25"] * 2)
    return view(pending, [9_000.0, 60.0], room=replace(nodes((4, 4)), gpu_type=Labels.of(["a100", "v100"])))


def kinds(plan):
    return {type(action) for action in plan.actions}


def test_a_power_that_waits_wishes_nothing_and_the_others_wish_what_they_wished(two_types):
    all_of_them = decide(two_types, POLICY.ordering, RULES)
    assert {Rank, Steer} <= kinds(all_of_them)
    waiting = POLICY.without_turn(frozenset({"steer"}))
    rest = decide(two_types, waiting.ordering, waiting.rules)
    assert rest.actions == tuple(action for action in all_of_them.actions if not isinstance(action, Steer))


def test_the_record_of_a_decision_says_which_powers_sat_it_out():
    waiting = POLICY.without_turn(frozenset({"steer", "resize"}))
    assert Policy.from_json(waiting.to_json()) == waiting
    assert Policy.from_json(POLICY.to_json()).rules.waiting == frozenset()


def test_a_decision_says_the_processor_time_of_each_of_its_parts(two_types):
    took_s = decide_here(two_types, POLICY).took_s
    assert {"order", "steer", "rightsize", "referee"} <= set(took_s)
    assert all(seconds >= 0 for seconds in took_s.values())


def test_a_power_that_takes_four_times_its_part_decides_in_every_fourth_cycle():
    turns, decided = Turns(0.25, CAN_WAIT), []
    for cycle in range(40):
        if runs := "steer" not in turns.waiting:
            decided.append(cycle)
        turns.decided({"steer": 1.0 * runs, "order": 5.0})
        assert turns.waiting <= {"steer"}
    assert decided == list(range(0, 40, 4))


def test_no_decision_costs_a_power_more_than_the_longest_wait():
    turns = Turns(0.25, CAN_WAIT)
    turns.decided({"resize": 3_600.0})
    waited = 0
    while turns.waiting:
        waited += 1
        turns.decided({})
    assert waited == LONGEST_WAIT


def test_nothing_waits_where_time_does_not_count():
    turns = Turns(math.inf, CAN_WAIT)
    turns.decided(dict.fromkeys(CAN_WAIT, 3_600.0))
    assert not turns.waiting


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60))
def test_over_the_cycles_a_power_takes_its_part_and_one_decision_more(costs_s):
    turns, spent_s = Turns(0.25, CAN_WAIT), 0.0
    for number, cost_s in enumerate(costs_s, 1):
        took_s = 0.0 if "lease" in turns.waiting else cost_s
        turns.decided({"lease": took_s})
        spent_s += took_s
        assert spent_s <= 0.25 * number + max(costs_s) + 1e-9
    assert np.isfinite(spent_s)
