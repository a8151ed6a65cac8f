from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from daemon_worlds import plan, view

from slurmsched.cluster.actions import Rank, Refusal
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import DERIVED, job_table
from slurmsched.daemon.api.privacy import HIDDEN, hide_other_users, owns, restrict_to_user
from slurmsched.decide.rules import Rules
from slurmsched.explain import explain
from slurmsched.explain.why import why


def texts(shown) -> set[str]:
    tables = (shown.pending, shown.running, shown.forecast, shown.forecast_running)
    columns = (getattr(table, f.name) for table in tables for f in fields(table))
    return {text for column in columns if isinstance(column, Labels) for text in column}


def test_nothing_that_another_user_wrote_is_left_behind_a_veil():
    shown = hide_other_users(view(pending={7: "alice", 8: "bob", 9: "alice"}, runtime_s=60.0), "alice")
    assert list(shown.pending.user) == ["alice", HIDDEN, "alice"]
    assert list(shown.running.name) == [HIDDEN]
    assert list(shown.forecast.source) == [
        "median of 7 runs of user0/train_#",
        HIDDEN,
        "median of 7 runs of user2/train_#",
    ]
    assert not [text for text in texts(shown) if "bob" in text or "carol" in text]


def test_what_a_comment_says_is_left_of_own_jobs_alone():
    comments = ["slurmsched:nopack,pace=0.5", "slurmsched:nopack,amp,secret,pace=0.5,deadline=+6h,soft"]
    pending = job_table(2, job_id=[7, 8], user=["alice", "bob"], comment=comments)
    shown = hide_other_users(replace(view(pending={7: "alice", 8: "bob"}), pending=pending), "alice").pending
    assert "secret" in pending.comment_problem[1]
    for name in DERIVED:
        column, own, none = (getattr(table, name) for table in (shown, pending, job_table(2)))
        assert [repr(column[0]), repr(column[1])] == [repr(own[0]), repr(none[1])], name


def test_a_veil_keeps_what_is_needed_to_count_who_is_ahead():
    before = view(runtime_s=60.0)
    shown = hide_other_users(before, "alice")
    assert np.array_equal(shown.pending.job_id, before.pending.job_id)
    assert np.array_equal(shown.forecast.runtime_s, before.forecast.runtime_s)


def test_narrowing_keeps_own_jobs_and_what_was_decided_of_them():
    before = view(pending={7: "alice", 8: "bob"}, running={5: "carol", 6: "alice"})
    wanted = plan(
        2, actions=(Rank(7, 10), Rank(8, 20)), refusals=(Refusal(Rank(8, 1), "cap"), Refusal(Rank(6, 1), "cap"))
    )
    shown, kept = restrict_to_user(before, wanted, owns(before.pending, "alice"), "alice")
    assert shown.pending.job_id.tolist() == [7]
    assert shown.running.job_id.tolist() == [6]
    assert len(shown.forecast) == len(kept.jobs) == len(shown.forecast_running) == 1
    assert kept.actions == (Rank(7, 10),)
    assert [refusal.action.job_id for refusal in kept.refusals] == [6]


def test_a_user_without_jobs_sees_none():
    before = view()
    shown, kept = restrict_to_user(before, plan(2), owns(before.pending, "dave"), "dave")
    assert (len(shown.pending), len(shown.running), len(kept.jobs)) == (0, 0, 0)


def test_an_empty_queue_can_be_veiled():
    shown = hide_other_users(view(pending={}, running={}), "alice")
    assert len(shown.pending) == 0


def test_what_explains_jobs_names_no_stranger_behind_a_veil():
    before = view(pending={8: "bob", 7: "alice", 9: "bob"}, runtime_s=60.0)
    wanted = plan(3)
    told = [
        repr(why(hide_other_users(before, "alice"), wanted, Rules(), 7)),
        repr(explain.explain(hide_other_users(before, "alice"), wanted, Rules(), 7)),
    ]
    assert "bob" in repr(explain.queue(before, wanted))
    assert not [text for text in told if "bob" in text or "carol" in text or "user0" in text]
    rows = explain.queue(
        *restrict_to_user(hide_other_users(before, "alice"), wanted, owns(before.pending, "alice"), "alice")
    )
    assert [(row.job_id, row.rank, row.user) for row in rows] == [(7, 2, "alice")]
