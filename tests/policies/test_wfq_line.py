"""Weighted fair queueing as a line of text: what is read is what was meant, and what is wrong is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from decide.views import NOW_S, jobs, view
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.ordering.fair_queueing import DEFAULT
from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.policies.ordering.wfq_line import line_of, rules_from
from slurmsched.research.pareto.space import SearchSpace, setting_line

THREE = "wfq thresholds=60,600,inf weights=2,1,1"


def said(line: str) -> dict[str, str]:
    return dict(word.split("=") for word in line.split())


@given(
    st.lists(st.floats(0.001, 1e12), min_size=1, max_size=60),
    arrays(float, 8, elements=st.floats(0, 1)),
    st.floats(0.01, 0.9),
)
def test_every_setting_that_a_search_can_print_is_accepted_and_means_the_same(sizes, point, delta):
    space = SearchSpace.of(np.array(sizes), delta)
    assert space.dimensions == len(point)
    setting = space.setting(point)
    words = setting_line(setting).split()
    assert words[:4] == ["slurmsched", "policy", "set", "wfq"]
    read = find_ordering(" ".join(words[3:])).function.rules
    assert read.thresholds == setting.thresholds
    assert read.weights == pytest.approx(setting.weights, rel=1e-5)
    caps = (setting.zeta, setting.delta, setting.overtake)
    assert (read.zeta, read.delta, read.overtake) == pytest.approx(caps, rel=1e-5)


@given(st.lists(st.floats(0.001, 1e6), min_size=4, max_size=4))
def test_only_how_weights_compare_counts(weights):
    read = rules_from({"weights": ",".join(map(str, weights))}, DEFAULT).weights
    assert math.isclose(sum(read), 1)
    assert np.array(read) / read[0] == pytest.approx(np.array(weights) / weights[0])
    again = rules_from({"weights": ",".join(map(repr, read))}, DEFAULT).weights
    assert again == read, "what adds up is left as it is"


def test_what_is_left_out_is_as_it_was():
    assert rules_from({}, DEFAULT) == DEFAULT
    assert rules_from({"zeta": "0.5"}, DEFAULT) == Wfq(DEFAULT.thresholds, DEFAULT.weights, 0.5)
    assert rules_from(said(line_of(DEFAULT)), DEFAULT).thresholds == DEFAULT.thresholds


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("wfq thresholds=600,60,inf weights=1,1,1", "rising sizes of which the last is inf"),
        ("wfq thresholds=60,600 weights=1,1", "rising sizes of which the last is inf"),
        ("wfq thresholds=60,inf", "2 thresholds make 2 classes, and there are 4 weights"),
        ("wfq thresholds=60,inf weights=1,2,3", "one weight per threshold"),
        ("wfq weights=1,0,1,1", "one number above 0 per threshold"),
        ("wfq weights=1,-1,1,1", "one number above 0 per threshold"),
        ("wfq weights=1,inf,1,1", "one number above 0 per threshold"),
        ("wfq weights=1,two,1,1", "'two', which is no number"),
        ("wfq weights=1,,1,1", "'', which is no number"),
        ("wfq zeta=nan", "'nan', which is no number"),
        ("wfq zeta=2", "accepted is 0 to 1"),
        ("wfq delta=0", "accepted is 0.001 to 1"),
        ("wfq speed=2", "'speed' is no parameter; accepted are thresholds, weights, zeta, delta, overtake"),
        ("wfq overtake=-1", "accepted is 0 to 1000"),
        ("wfq zeta=0 zeta=1", "each parameter once"),
        ("wfq fast", "accepted is each parameter once, as name=value"),
        ("sjf zeta=0", "'sjf' takes no parameters"),
        ("sfj", "is not known; there are: "),
        ("", "is not known; there are: "),
        (" ", "is not known; there are: "),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_accepted(line, answer):
    with pytest.raises(ConfigError) as refused:
        find_ordering(line)
    assert answer in str(refused.value)


def test_parameters_order_jobs_and_not_only_their_name():
    runtimes_s = [500.0, 500.0, 50.0, 50.0]
    seen = view(jobs(4, first_submit_s=NOW_S - 60 + np.arange(4)), runtimes_s)
    assert np.argsort(find_ordering("wfq thresholds=60,inf weights=1,9")(seen), kind="stable").tolist() == [0, 1, 2, 3]
    assert np.argsort(find_ordering("wfq thresholds=60,inf weights=9,1")(seen), kind="stable").tolist() == [2, 3, 0, 1]


def test_a_record_of_the_policy_brings_its_parameters_back():
    policy = Policy(find_ordering(THREE), Rules())
    assert Policy.from_json(policy.to_json()) == policy
    assert policy.ordering.line == THREE
    assert policy != Policy(find_ordering("wfq"), Rules())


def test_every_parameter_is_shown_with_its_value():
    assert find_ordering("wfq zeta=0.5").settings == {**said(line_of(DEFAULT)), "zeta": "0.5"}
    assert find_ordering("sjf").settings == {}
