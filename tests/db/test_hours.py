"""Sums of hours in both databases."""

from __future__ import annotations

from db_worlds import HOSTILE

from slurmsched.cluster.records.scope import Scope
from slurmsched.db.records.hours import Counted

NAMES = [text for text in HOSTILE if len(text) < 1000]


def table(store, since_s=0.0, until_s=1e9):
    hours = store.report_rows("c", since_s, until_s, Scope()).hours
    return list(zip(hours.from_s.tolist(), hours.what, hours.account, hours.user, hours.value.tolist(), strict=True))


def test_what_comes_later_of_an_hour_is_added_and_any_name_comes_back(store):
    news = {Counted(3600.0, "x", name, name): 1.5 for name in NAMES} | {Counted(7200.0, "x"): 1.0}
    store.add_hours("c", news)
    store.add_hours("c", dict.fromkeys(news, 2.0))
    store.add_hours("other", news)
    found = table(store)
    assert {row[2:4]: row[4] for row in found if row[0] == 3600.0} == {(name, name): 3.5 for name in NAMES}
    assert table(store, 7200.0) == [(7200.0, "x", "", "", 3.0)]
    assert table(store, 0.0, 3600.0) == []
    store.add_hours("c", {})


def test_old_sums_are_forgotten_with_the_runs_of_their_time(store):
    store.add_hours("c", {Counted(0.0, "x"): 1.0, Counted(86_400.0, "x"): 2.0})
    store.prune(86_400.0 * 3, 1.0, 86_400.0 * 2.5)
    assert [row[0] for row in table(store)] == [86_400.0]
