"""The choice among compositions by their forecast outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmsched.decide.synthesis import (
    ActiveComposition,
    Candidate,
    Outlook,
    SynthesisDecision,
    SynthesisRules,
    choose,
    expected_arrivals,
    scores_of,
)
from slurmsched.errors import ConfigError

FIFO, LAS = Candidate("fifo", "accept-all"), Candidate("las", "load:1.2")
HOUR_S = 3600.0


def outlook(jct_s: float, response_s: float = 0.0) -> Outlook:
    """Two jobs that take so long."""
    submit_s = np.array([0.0, 100.0])
    return Outlook(submit_s, submit_s + response_s, submit_s + jct_s)


def chosen(fifo: Outlook, las: Outlook, *, since_s: float = -math.inf, rules: SynthesisRules) -> SynthesisDecision:
    scores = scores_of({FIFO: fifo, LAS: las}, outlook(500), rules)
    return choose(HOUR_S, scores, ActiveComposition(FIFO, since_s), rules)


def test_the_composition_with_the_least_mean_job_completion_time_is_taken():
    decision = chosen(outlook(1000), outlook(900), rules=SynthesisRules())
    assert decision.switched
    assert decision.active == (LAS, HOUR_S)
    assert decision.scores == ({FIFO: 1000, LAS: 900}, 500)
    assert decision.reason == "las, load:1.2 would take 900 s and save 20.0 % of the delay under fifo"


@pytest.mark.parametrize(("metric", "active"), [("jct", LAS), ("response", FIFO), ("both", FIFO)])
def test_responses_count_where_the_metric_says_so(metric, active):
    rules = SynthesisRules(metric=metric, weight=2.0)
    assert chosen(outlook(1000, 10), outlook(900, 500), rules=rules).active.candidate == active


def test_the_present_composition_stays_where_the_gain_is_small_or_comes_soon_after_a_switch():
    small = chosen(outlook(1000), outlook(995), rules=SynthesisRules(gain=0.011))
    assert (small.switched, small.active.candidate) == (False, FIFO)
    assert small.reason.endswith("too little for a switch")
    assert chosen(outlook(1000), outlook(995), rules=SynthesisRules(gain=0.009)).switched, "1 % of the delay"
    soon = chosen(outlook(1000), outlook(500), since_s=HOUR_S - 60, rules=SynthesisRules(dwell_s=120))
    assert (soon.switched, soon.reason[-30:]) == (False, "too soon after the last switch")
    assert chosen(outlook(1000), outlook(500), since_s=HOUR_S - 120, rules=SynthesisRules(dwell_s=120)).switched


def test_equal_forecasts_change_nothing_even_without_hysteresis():
    rules = SynthesisRules(gain=0.0, dwell_s=0.0)
    scores = scores_of({FIFO: outlook(500), LAS: outlook(500)}, outlook(9), rules)
    decision = choose(0.0, scores, ActiveComposition(LAS, -math.inf), rules)
    assert (decision.switched, decision.active.candidate) == (False, LAS)


def test_a_composition_under_which_a_job_never_ends_is_left():
    never = outlook(10)
    never.end_s[1] = np.nan
    assert chosen(never, outlook(1000), rules=SynthesisRules()).switched
    assert not chosen(outlook(1000), never, rules=SynthesisRules()).switched


def test_the_arrivals_of_the_last_span_are_expected_once_more():
    submit_s = np.array([0.0, 50.0, 120.0, 200.0])
    rows, comes_s = expected_arrivals(submit_s, 200.0, 100.0)
    assert (rows.tolist(), comes_s.tolist()) == ([2, 3], [220.0, 300.0])
    rows, comes_s = expected_arrivals(submit_s, 200.0, 1000.0)
    assert (rows.tolist(), comes_s.tolist()) == ([1, 2, 3], [250.0, 320.0, 400.0])
    assert expected_arrivals(submit_s, 200.0, 0.0)[0].tolist() == []


def test_parameters_are_read_from_the_line_of_a_policy():
    rules = SynthesisRules.of("auto orderings=las,fifo loads=all,1.5 metric=both weight=2 rounds=4 gain=0 arrivals=0")
    assert list(map(str, rules.candidates)) == ["las", "las, load:1.5", "fifo", "fifo, load:1.5"]
    assert (rules.metric, rules.weight, rules.rounds, rules.gain, rules.arrivals_s) == ("both", 2.0, 4, 0.0, 0.0)
    assert len(SynthesisRules.of("auto").candidates) == 9


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("beat=3", "accepted are orderings=, loads="),
        ("rounds=two", "accepted is a number"),
        ("rounds=0", "accepted are 1 and more"),
        ("gain=-1", "accepted are finite numbers from 0 on"),
        ("metric=makespan", "there are: jct, response, both"),
        ("orderings=mine", "'mine' is not known"),
        ("loads=none", "accepted is load:X"),
    ],
)
def test_wrong_parameters_are_refused_with_what_is_accepted(words, problem):
    with pytest.raises(ConfigError, match=problem):
        SynthesisRules.of(f"auto {words}")
