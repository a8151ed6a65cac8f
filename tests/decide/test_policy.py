"""A policy's text form and the site's natural cap."""

from __future__ import annotations

import numpy as np
import pytest
from decide.views import qos

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.nodes import QosTable
from slurmsched.cluster.records.node_loans import LentNodes
from slurmsched.decide.points_cap import NO_LIMIT_POINTS
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules, Rules, SharingRules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import find_ordering

NO_QOS = QosTable(Labels.of([]), np.zeros(0, dtype=np.int64))


def test_a_policy_reads_back_as_it_was_written():
    rules = Rules(frozenset({"order", "hold"}), "qos", 7, 9, frozenset({"gpu"}), 60.0)
    policy = Policy(find_ordering("sjf"), rules)
    assert Policy.from_json(policy.to_json()) == policy


def test_the_inputs_of_a_move_of_nodes_read_back_as_they_were_written():
    loans = (LentNodes("gpu", ("n1", "n10", "n2"), ("n1",)), LentNodes("profile", ("m4",), ("m4", "n10")))
    rules = Rules(profiling=ProfilingRules("profile", home="gpu").under(0.5))
    for lent in (None, (), loans):
        policy = Policy(find_ordering("sjf"), rules).lending(lent)
        assert Policy.from_json(policy.to_json()) == policy


@pytest.mark.parametrize("text", ["", "[]", '{"ordering": "sjf"}', '{"ordering": "sjf", "rules": {"depth": 3}}'])
def test_another_versions_policy_is_refused(text):
    with pytest.raises(ConfigError, match="no policy of this version"):
        Policy.from_json(text)


def test_equal_policies_have_the_same_line():
    one, other = (Policy(find_ordering("fifo"), Rules(frozenset(p))) for p in (["order", "hold"], ["hold", "order"]))
    assert one.to_json() == other.to_json()


def test_a_policy_of_which_a_part_is_gone_says_so():
    line = Policy(find_ordering("sjf"), Rules()).to_json().replace("sjf", "gone")
    with pytest.raises(ConfigError, match="gone"):
        Policy.from_json(line)
    line = Policy(find_ordering("sjf"), Rules(sharing=SharingRules())).to_json().replace("indolent", "gone")
    with pytest.raises(ConfigError, match=r"policy.sharing = 'gone' is not known"):
        Policy.from_json(line)


@pytest.mark.parametrize(
    ("table", "config", "cap"),
    [
        (qos(), {"PriorityWeightQOS": "1000"}, 399),  # 100, 500, 1000: the smallest step less one
        (qos(), {"PriorityWeightQOS": "0", "PriorityWeightFairShare": "5000"}, 500),
        (qos(), {}, NO_LIMIT_POINTS),
        (NO_QOS, {"PriorityWeightQOS": "1000"}, NO_LIMIT_POINTS),
        (NO_QOS, {"PriorityWeightQOS": "1000", "PriorityWeightFairShare": "3"}, 1),
        (qos(), {"PriorityWeightQOS": "1"}, 1),
    ],
)
def test_the_cap_leaves_qos_and_fair_share_their_say(table, config, cap):
    assert Policy(find_ordering("sjf"), Rules(max_points=0)).at_site(config).rules.cap(table) == cap


def test_the_admins_own_cap_stands():
    policy = Policy(find_ordering("sjf"), Rules(max_points=5)).at_site({"PriorityWeightQOS": "1000"})
    assert policy.rules.cap(qos()) == 5


def test_the_sites_own_cap_reads_back():
    policy = Policy(find_ordering("sjf"), Rules(max_points=0)).at_site({"PriorityWeightQOS": "1000"})
    assert Policy.from_json(policy.to_json()) == policy
