"""What a lease chart shows, and to whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.daemon.api.privacy import hide_other_users
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.explain.lease_chart import chart
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

RULES = Rules(powers=ALL_POWERS, deadlines=DeadlineRules(lead_s=30.0, reserve=0.0, yields=True))
HOUR_S = 3600.0


def planned(what):
    return decide(what, find_ordering("fifo"), RULES)


def crowded():
    """Two jobs of alice and bob that want to end in three hours, where carol and alice hold all GPUs for ten."""
    pending = jobs(
        2,
        user=["alice", "bob"],
        gpus=[4, 1],
        deadline_s=np.full(2, NOW_S + 3 * HOUR_S),
        time_limit_s=np.full(2, HOUR_S),
    )
    running = running_jobs(2, user=["carol", "alice"], gpus=[4, 4], node_list=["n1", "n2"], ckpt=[False, True])
    running = replace(running, time_limit_s=np.full(2, 10 * HOUR_S))
    what = view(pending, np.full(2, HOUR_S), running=running, room=nodes((4, 4), (4, 4)))
    long_s = np.full(2, 10 * HOUR_S)
    return replace(what, forecast_running=replace(what.forecast_running, runtime_s=long_s, high_s=long_s))


def test_bars_are_plans_that_can_happen_at_once():
    what = crowded()
    plan = planned(what)
    drawn = chart(what, plan, 1, RULES)
    kinds = {bar.job_id: bar.kind for bar in drawn.bars}
    assert kinds == {1: "this", 2: "promised", 901: "running", 902: "can make room"}
    times = {bar.job_id: (bar.from_s, bar.until_s) for bar in drawn.bars}
    assert times[1][1] <= NOW_S + 3 * HOUR_S
    assert times[2][1] <= times[1][0] or times[1][1] <= times[2][0], "on the four GPUs that come free"
    assert drawn.free[0].gpus == 0


def test_who_may_see_only_their_own_jobs_sees_neither_number_nor_name_of_others():
    what = crowded()
    plan = planned(what)
    seen = hide_other_users(what, "alice")
    drawn = chart(seen, plan, 1, RULES)
    others = [bar for bar in drawn.bars if bar.user != "alice"]
    assert [(bar.job_id, bar.user) for bar in others] == [(0, "(private)")] * 2
    refused = replace(what, pending=replace(what.pending, deadline_s=np.array([NOW_S + HOUR_S + 40, np.inf])))
    text = " ".join(chart(hide_other_users(refused, "alice"), planned(refused), 1, RULES).changes)
    assert "another user's job had the token slurmsched:ckpt" not in text, "none would be free in ten seconds"
    assert "carol" not in text


def test_a_job_that_does_not_wait_or_asks_for_nothing_has_no_chart():
    what = crowded()
    plan = planned(what)
    silent = replace(what, pending=replace(what.pending, deadline_s=np.full(2, np.inf), comment=Labels.of(["", ""])))
    for told in (
        chart(what, plan, 901, RULES),
        chart(silent, planned(silent), 1, RULES),
        chart(what, plan, 1, Rules()),
    ):
        assert not told.known
        assert told.sentences
