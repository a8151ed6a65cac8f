"""Powers of plug-ins: what they want is judged, and one that lies, raises or hangs costs a cycle only its wishes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from decide.views import NOW_S, jobs, view

from slurmsched.cluster.actions import Hold, Rank
from slurmsched.config import Settings
from slurmsched.daemon.plugin_decider import PluginDecider
from slurmsched.daemon.policy_settings import guest_lines
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import GUESTS, Guest, find_ordering

SOURCE = """
import time
from slurmsched.cluster.actions import Hold, Rank
from slurmsched.policies.contract import power

@power("odd", powers=("hold",))
def odd(view):
    "Delays the first job; what it does instead depends on the number of jobs."
    count, first = len(view.pending), int(view.pending.job_id[0])
    if count == 3:
        raise KeyError("a name that is nobody else's business")
    while count == 4:
        time.sleep(0.1)
    if count == 5:
        return [Rank(first, 9)]
    if count == 6:
        return [Hold(first, view.now_s + 1e9), Hold(99, view.now_s + 60.0)]
    return [Hold(first, view.now_s + 60.0)]
"""
POWERS = frozenset({"order", "hold"})


@pytest.fixture(scope="module")
def here():
    """The plug-in's name as the daemon's process knows it, which never runs its code."""

    def unknown_here(seen):
        raise AssertionError("the plug-in runs in the process of the daemon")

    GUESTS._parts["odd"] = Guest("odd", unknown_here, "Odd.", powers=frozenset({"hold"}), built_in=False)
    yield
    del GUESTS._parts["odd"]


@pytest.fixture(scope="module")
def decider(tmp_path_factory, here):
    """A decider whose process finds the plug-in."""
    place = tmp_path_factory.mktemp("guest")
    (place / "odd.py").write_text(SOURCE)
    metadata = place / "odd-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[slurmsched.policies]\nodd = odd\n")
    with pytest.MonkeyPatch.context() as patch, closing(PluginDecider(limit_s=5.0, startup_s=120.0)) as made:
        patch.setenv("PYTHONPATH", str(place))
        yield made


def decided(decider: PluginDecider, count: int, powers: frozenset[str] = POWERS):
    policy = Policy(find_ordering("sjf"), Rules(powers=powers, scope="queue", guests=("odd",)))
    return decider(view(jobs(count), [60.0] * count), policy)


def holds(decision) -> list[Hold]:
    return [action for action in decision.plan.actions if isinstance(action, Hold)]


def test_what_it_wants_is_written(decider):
    decision = decided(decider, 2)
    assert decision.trouble == ""
    assert holds(decision) == [Hold(int(jobs(2).job_id[0]), NOW_S + 60.0)]


def test_without_the_power_whose_actions_it_wants_the_referee_refuses_them(decider):
    decision = decided(decider, 2, frozenset({"order"}))
    assert holds(decision) == []
    assert [refusal.rule for refusal in decision.plan.refusals if isinstance(refusal.action, Hold)] == ["power_is_on"]


def test_a_delay_ends_within_an_hour_whatever_it_wants_and_unknown_jobs_get_none(decider):
    assert holds(decided(decider, 6)) == [Hold(int(jobs(6).job_id[0]), NOW_S + 3600.0)]


@pytest.mark.parametrize(
    ("count", "words"),
    [(3, "it raised KeyError"), (4, "took longer than 5 s"), (5, "it raised ValueError")],
    ids=["raises", "hangs", "wants points"],
)
def test_one_that_fails_costs_a_cycle_its_wishes_alone(decider, count, words):
    decision = decided(decider, count)
    assert decision.failed == ("power 'odd'",)
    assert words in decision.trouble
    assert "business" not in decision.trouble
    assert holds(decision) == []
    plain = Policy(find_ordering("sjf"), Rules(powers=POWERS, scope="queue"))
    without = PluginDecider()(view(jobs(count), [60.0] * count), plain)
    assert decision.plan.actions == without.plan.actions
    assert any(isinstance(action, Rank) for action in decision.plan.actions), "the order goes on"


def test_settings_name_the_power_that_it_needs(here):
    plain = Settings()
    wanted = replace(plain, policy=replace(plain.policy, powers=("odd",)))
    with pytest.raises(ConfigError, match=r"policy.powers has 'odd', which needs power.hold = true"):
        guest_lines(wanted)
    assert guest_lines(replace(wanted, power=replace(plain.power, hold=True))) == ("odd",)
    with pytest.raises(ConfigError, match=r"policy.powers = 'none-such' is not known"):
        guest_lines(replace(wanted, policy=replace(plain.policy, powers=("none-such",))))


def test_the_policy_says_which_parts_are_plug_ins(here):
    policy = Policy(find_ordering("sjf"), Rules(powers=POWERS, guests=("odd",)))
    assert policy.plugins == ("power 'odd'",)
    assert policy.without_plugins().rules.guests == ()
