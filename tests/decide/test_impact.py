"""Who would gain and who would lose."""

from __future__ import annotations

import math

from decide.views import jobs, nodes, view

from slurmsched.decide.rules import Rules
from slurmsched.explain.impact import advice
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide


def shares(seen, ordering="sjf"):
    return advice(seen, decide(seen, find_ordering(ordering), Rules(scope="queue")))


def test_the_account_with_short_jobs_gains_what_the_other_loses():
    pending = jobs(2, account=["long", "short"], priority=[2000, 1000])
    told = {share.name: share for share in shares(view(pending, [900.0, 60.0])) if share.kind == "account"}
    assert (told["short"].sooner, told["short"].later) == (1, 0)
    assert told["short"].change_s == -900.0 / 8
    assert (told["long"].sooner, told["long"].later) == (0, 1)
    assert told["long"].change_s == 60.0 / 8


def test_a_cap_on_points_that_lifts_nobody_over_fair_share_changes_nothing_for_anybody():
    pending = jobs(2, account=["long", "short"], priority=[20_000, 1000])
    seen = view(pending, [900.0, 60.0])
    for cap, change_s in ((999, 0.0), (20_000, -900.0 / 8)):
        plan = decide(seen, find_ordering("sjf"), Rules(scope="points", max_points=cap))
        told = {share.name: share for share in advice(seen, plan) if share.kind == "account"}
        assert told["short"].change_s == change_s
        assert told["short"].sooner == (change_s < 0)


def test_those_who_gain_most_come_first_in_each_kind():
    pending = jobs(3, account=["b", "a", "c"], qos=["low", "high", "low"], priority=[3, 2, 1])
    told = shares(view(pending, [900.0, 60.0, 5.0]))
    for kind in ("account", "qos"):
        changes = [share.change_s for share in told if share.kind == kind]
        assert changes == sorted(changes)
    assert sum(share.jobs for share in told if share.kind == "account") == 3


def test_slurms_own_order_changes_nothing_for_anybody():
    pending = jobs(3, account=["a", "b", "c"], priority=[1, 2, 3], site_points=[0, 0, 0])
    assert all(share.change_s == 0 for share in shares(view(pending, [900.0, 60.0, 5.0]), "fifo"))


def test_no_ranked_job_no_advice():
    assert shares(view(jobs(0))) == ()
    assert shares(view(jobs(1, reason=["JobHeldUser"]))) == ()


def test_without_an_account_it_is_none_and_without_nodes_nothing_breaks():
    told = shares(view(jobs(1, account=[""]), room=nodes(())))
    assert told[0].name == "(none)"


def test_a_forecast_that_knows_nothing_spoils_no_other_jobs_figure():
    pending = jobs(3, account=["a", "b", "c"], priority=[1, 2, 3])
    told = shares(view(pending, [60.0, math.nan, math.inf]))
    assert all(math.isfinite(share.change_s) for share in told)
