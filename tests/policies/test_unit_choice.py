"""The choice of blocks and switches, against all choices that there are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.topology import NONE, Topology, TopologyRequest, Unit, UnitRule, rule_of
from slurmsched.policies.selection.unit_choice import BASE, CHOSEN, ROOM, choose_units, scratch_of
from slurmsched.policies.selection.unit_rules import job_rule, most_together

NODES = [f"n{number}" for number in range(12)]
BLOCKS = tuple(Unit(f"b{at}", tuple(NODES[2 * at : 2 * at + 2]), 2) for at in range(6))
PAIRS = tuple(Unit(f"p{at}", tuple(NODES[4 * at : 4 * at + 4]), 4) for at in range(3))
HALVES = tuple(Unit(f"h{at}", tuple(NODES[8 * at : 8 * at + 8]), 8) for at in range(2))
TOPOLOGY = Topology("block", (BLOCKS, PAIRS, HALVES))
SWITCHES = Topology("tree", (PAIRS, (Unit("top", tuple(NODES), 12),)))

free = st.lists(st.booleans(), min_size=12, max_size=12).map(np.array)


def best(topology: Topology, rule: UnitRule, open_: np.ndarray) -> int:
    """Return the most nodes that any allowed choice of units gives."""
    base, large = topology.levels[rule.base], topology.levels[rule.level] if rule.level != NONE else ()
    room = []
    for unit in base:
        its = [bool(open_[NODES.index(name)]) for name in unit.nodes]
        here = 0 if rule.whole and not all(its) else sum(its)
        room.append(here - here % rule.segment)
    inside = [next((at for at, big in enumerate(large) if unit.nodes[0] in big.nodes), 0) for unit in base]
    most = 0
    for chosen in combinations(range(max(len(large), 1)), min(rule.larger, max(len(large), 1))):
        within = sorted((room[at] for at in range(len(base)) if inside[at] in chosen), reverse=True)
        most = max(most, sum(within[: rule.units] if rule.units else within))
    return most


requests = st.one_of(
    st.just(TopologyRequest()), st.sampled_from([1, 2, 4]).map(lambda size: TopologyRequest(segment=size))
)


@given(free, st.integers(2, 12), requests, st.booleans())
def test_nodes_are_found_together_where_any_choice_of_blocks_has_them(open_, nodes, request, whole):
    rule = rule_of(TOPOLOGY, request._replace(whole=whole), nodes)
    assert rule is not None
    found, most = most_together(TOPOLOGY, rule, NODES, open_, nodes), best(TOPOLOGY, rule, open_)
    if rule.larger == 1:
        assert (found >= nodes) == (most >= nodes)
        assert found >= nodes or found == most
    else:  # the larger units are those with the most room, without a look at the smaller ones
        assert found < nodes or most >= nodes


@given(free, st.integers(2, 12), st.integers(1, 4))
def test_a_job_with_switches_has_nodes_of_so_many_at_most(open_, nodes, switches):
    rule = rule_of(SWITCHES, TopologyRequest(switches=switches), nodes)
    assert rule is not None
    found, most = most_together(SWITCHES, rule, NODES, open_, nodes), best(SWITCHES, rule, open_)
    assert (found >= nodes) == (most >= nodes)


def test_switches_bind_a_job_as_long_as_it_waits_for_them():
    assert job_rule(SWITCHES, "switches=1@300", 2, waited_s=300.0) == rule_of(SWITCHES, TopologyRequest(switches=1), 2)
    assert job_rule(SWITCHES, "switches=1@300", 2, waited_s=301.0) is None
    assert job_rule(SWITCHES, "switches=1@300", 2) is None, "one that takes any so soon is not bound for good"


@given(free, st.integers(2, 4))
def test_a_block_is_chosen_that_leaves_the_least(open_, nodes):
    rule = rule_of(Topology("block", (PAIRS,)), TopologyRequest(), nodes)
    assert rule is not None
    units = Topology("block", (PAIRS,)).numbers(NODES)
    scratch = scratch_of(units)
    found = choose_units(units, np.array([int(part) for part in rule]), open_.astype(np.int64), nodes, scratch)
    rooms = [sum(bool(open_[NODES.index(name)]) for name in unit.nodes) for unit in PAIRS]
    fitting = [room for room in rooms if room >= nodes]
    if fitting:
        assert found == min(fitting)
        assert scratch[ROOM][scratch[CHOSEN] > 0].tolist() == [min(fitting)]
    assert rule[BASE] == 0


@pytest.mark.parametrize(("nodes", "request_"), [(1, TopologyRequest()), (1, TopologyRequest(switches=1))])
def test_a_job_on_one_node_may_have_any(nodes, request_):
    assert rule_of(TOPOLOGY, request_, nodes) is None
    assert rule_of(SWITCHES, request_, nodes) is None


def test_a_job_without_a_wish_may_have_any_switches_and_a_flat_network_binds_nobody():
    assert rule_of(SWITCHES, TopologyRequest(), 12) is None
    assert rule_of(Topology(), TopologyRequest(1, 300.0, 4, True), 12) is None
