"""What ``why`` and ``explain`` say of a job that is sent to a type of GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from decide.views import NOW_S, jobs, nodes, view

from slurmsched.cluster.columns import Labels
from slurmsched.decide.rules import Rules, SteeringRules
from slurmsched.explain.explain import explain
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

RULES = Rules(powers=frozenset({"steer"}), steering=SteeringRules(patience_s=900.0, again_s=7200.0))
KNOWN = {"type_speeds": ["a100=1 v100=0.25"]}
SENT = KNOWN | {"steered": ["a100"], "excluded_nodes": ["n2"], "steered_s": [NOW_S - 60.0]}


def words(columns, rules=RULES, used=(0, 0), ask=why) -> str:
    room = replace(nodes((4, 4), used), gpu_type=Labels.of(["a100", "v100"]))
    seen = view(jobs(1, **columns), room=room)
    return " ".join(ask(seen, decide(seen, find_ordering("fifo"), rules), rules, 1).sentences)


@pytest.mark.parametrize("ask", [why, explain])
def test_a_job_that_is_being_sent_and_one_that_was_are_told_where_why_and_for_how_long(ask):
    sent = "We send it to GPUs of type a100, by excluding n2. Jobs of its kind are 4 times as fast as on v100."
    assert sent in words(KNOWN, ask=ask)
    was = "We sent it to GPUs of type a100, by excluding n2. Jobs of its kind are 4 times as fast as on v100. "
    assert was + "If these stay full for another 14 min, it is let go." in words(SENT, ask=ask)


def test_only_the_gpus_of_its_type_count_as_free_for_a_job_that_was_sent_there():
    assert "0 GPUs of 4 on them are free" in words(SENT, used=(4, 0))
    assert "Slurm should start it at its next pass" in words(SENT, used=(0, 4))


def test_a_job_that_keeps_to_what_its_owner_accepts_is_never_let_go_of_that():
    only = {"comment": ["slurmsched:types=a100"], "steered": ["a100"], "excluded_nodes": ["n2"], "steered_s": [1.0]}
    told = words(only)
    assert "We sent it to GPUs of type a100, by excluding n2." in told
    assert "let go" not in told


def test_a_job_that_is_let_go_or_was_is_told_so():
    assert "We sent it to GPUs of type a100, and let it go to GPUs of any type again." in words(SENT, Rules())
    rested = KNOWN | {"steered_s": [NOW_S - 3600.0]}
    assert "We let it go to GPUs of any type, and send it to no type again for 60 min." in words(rested)


def test_a_job_with_excluded_nodes_of_its_owner_is_told_that_it_is_left_alone():
    assert "It excludes nodes, and not by us: we send it to no type of GPU." in words(
        KNOWN | {"excluded_nodes": ["n1"]}
    )


def test_nothing_is_said_without_the_power_or_where_nothing_is_known():
    assert words(KNOWN, Rules()) == words({}, Rules())
    assert "type" not in words({})
