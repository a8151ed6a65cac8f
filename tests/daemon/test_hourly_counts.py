"""What a daemon counts by the hour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from daemon_worlds import seen
from db.db_worlds import nodes
from new_store import new_store

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.hours import HourTable
from slurmsched.cluster.records.scope import Scope
from slurmsched.cluster.stranded_gpus import StrandedBy
from slurmsched.daemon.hourly_counts import CallCounter, HourlyCounts
from slurmsched.db.store import Store
from slurmsched.errors import MemoryUnavailable
from slurmsched.explain.impact import advice
from slurmsched.report.counted import HourSums, cluster, ledger, orders
from slurmsched.report.hour_names import REPLAY_JOBS, REPLAY_LONGER_S, REPLAY_SHORTER_S, named
from slurmsched.report.redraws import interval
from slurmsched.report.replayed import replayed_waits
from slurmsched.report.sheets import order_words
from slurmsched.slurm.port import ControllerLoad

AT_S = 1_700_000_000.0 // 3600 * 3600 + 3590.0  # ten seconds before an hour ends


@pytest.fixture
def store(tmp_path):
    store = new_store(tmp_path / "slurmsched.db")
    yield store
    store.close()


def counts_of(store, clock, stranded=tuple, calls=None):
    return HourlyCounts(store, "c", clock, calls or CallCounter(), stranded)


def cycle(at_s, mode="observe", **columns):
    report = seen(pending={7: "a", 8: "b"}, running={5: "c"})
    view = replace(report.view, nodes=replace(nodes(), gpus_used=np.array([1])))
    return replace(report, view=view, now_s=at_s, mode=mode, **columns)


def hours(store):
    return store.report_rows("c", 0.0, 2e9, Scope()).hours


def run(counts, clock, *cycles):
    for report in cycles:
        clock.now_s = report.now_s
        counts.observe(report)
    counts._work()


def test_time_gpus_writes_and_calls_are_summed_in_their_hours(store):
    clock, calls = ManualClock(AT_S), CallCounter()
    counts = counts_of(store, clock, calls=calls)
    calls.called("squeue")
    first = cycle(AT_S)
    run(counts, clock, first, cycle(AT_S + 5), cycle(AT_S + 20, "act", actions={"Rank": 3}, refused=2))
    calls.called("scontrol")
    run(counts, clock, cycle(AT_S + 30, "act"))
    table = hours(store)
    assert sorted(set(table.from_s.tolist())) == [AT_S - 3590.0, AT_S + 10.0]
    sums = HourSums(table)
    assert sums.counted_s == 30.0
    machine, book = cluster(sums), ledger(sums)
    assert (machine["capacity"], machine["free"]) == pytest.approx((4 * 30 / 3600, 3 * 30 / 3600))
    assert (book["writes"], book["refused"], book["calls"]) == ({"Rank": 3}, 2, {"squeue": 1, "scontrol": 1})
    modes = {load["mode"]: round(load["hours"] * 3600, 6) for load in book["load"]}
    assert modes == {"observe": 5.0, "act": 25.0}


def test_a_gap_between_two_cycles_counts_five_minutes_at_most(store):
    clock = ManualClock(AT_S)
    run(counts_of(store, clock), clock, cycle(AT_S), cycle(AT_S + 50_000), cycle(AT_S + 40_000))
    assert HourSums(hours(store)).counted_s == 300.0


def test_sdiag_is_compared_by_mode_and_not_over_a_reset_of_its_counters(store):
    clock = ManualClock(AT_S)
    counts = counts_of(store, clock)
    readings = [(100, 1.0), (160, 1.6), (10, 0.1), (40, 1.0)]
    for number, (count, total_s) in enumerate(readings):
        counts.observe_load(ControllerLoad(total_s / count, count, total_s, 0, AT_S + 60.0 * number))
    run(counts, clock, cycle(AT_S), cycle(AT_S + 60))
    (load,) = ledger(HourSums(hours(store)))["load"]
    assert load["rpcs_per_min"] == pytest.approx((60 + 30) / 2)
    assert load["rpc_mean_s"] == pytest.approx((0.6 + 0.9) / 90)


def test_stranded_gpus_are_those_since_the_last_time_also_after_the_count_began_anew(store):
    clock, table = ManualClock(AT_S), [StrandedBy("lab", "zoe", 2.0, 1.0)]
    counts = counts_of(store, clock, stranded=lambda: table)
    run(counts, clock, cycle(AT_S), cycle(AT_S + 1))
    table[:] = [StrandedBy("lab", "zoe", 2.5, 1.0), StrandedBy("", "bob", 0.0, 4.0)]
    run(counts, clock, cycle(AT_S + 2))
    table[:] = [StrandedBy("lab", "zoe", 0.25, 0.0)]
    run(counts, clock, cycle(AT_S + 3))
    stranded = {(one["account"], one["user"]): (one["cpus"], one["memory"])
                for one in cluster(HourSums(hours(store)))["stranded_by"]}  # fmt: skip
    assert stranded == {("lab", "zoe"): pytest.approx((2.75, 1.0)), ("", "bob"): pytest.approx((0.0, 4.0))}


def test_nothing_is_lost_while_the_database_is_away(tmp_path):
    clock, store = ManualClock(AT_S), Store(f"sqlite:///{tmp_path}/later.db")
    counts = counts_of(store, clock)
    with pytest.raises(MemoryUnavailable):
        run(counts, clock, cycle(AT_S), cycle(AT_S + 7))
    store.upgrade()
    run(counts, clock, cycle(AT_S + 8))
    assert HourSums(hours(store)).counted_s == 8.0
    store.close()


def test_an_ordered_stop_writes_what_is_left_and_a_database_that_is_away_does_not_keep_it_from_stopping(store, caplog):
    clock = ManualClock(AT_S)
    counts = counts_of(store, clock)
    counts.start()
    for second in range(4):
        clock.now_s = AT_S + second
        counts.observe(cycle(AT_S + second))
    counts.close()
    assert HourSums(hours(store)).counted_s == 3.0
    away = counts_of(Store("sqlite:////nowhere/at/all.db"), clock)
    away.observe(cycle(AT_S))
    away.close()
    assert "not saved yet" in caplog.text


def test_the_effect_of_the_order_is_told_by_account_with_an_interval():
    random = np.random.default_rng(1)
    totals, jobs = random.normal(-600, 300, 400) * 5, np.full(400, 5.0)
    low, high = interval(totals, jobs)
    assert low < totals.sum() / jobs.sum() < high
    assert high - low == pytest.approx(2 * 1.645 * 300 / 20, rel=0.35)
    assert interval(totals, jobs) == (low, high)
    assert np.isnan(interval(totals[:11], jobs[:11])).all()


def test_waits_by_replay_are_told_by_account_with_an_interval_and_the_sum_of_all():
    news = {}
    for hour in range(24):
        for account, jobs, longer_s, shorter_s in (("harmed", 4, 4000.0 + hour, 0.0), ("helped", 6, 0.0, 1200.0)):
            for what, value in ((REPLAY_JOBS, jobs), (REPLAY_LONGER_S, longer_s), (REPLAY_SHORTER_S, shorter_s)):
                news[hour * 3600.0, named(what, "act"), account] = value
    columns = zip(*((*key, "", value) for key, value in news.items()), strict=True)
    from_s, what, account, user, value = map(list, columns)
    table = HourTable(np.array(from_s), Labels.of(what), Labels.of(account), Labels.of(user), np.array(value, float))
    every, harmed, helped = replayed_waits(table, "act")
    assert (every["account"], every["jobs"], every["hours"]) == ("", 240.0, 24)
    assert every["change_s"] == pytest.approx((24 * 4000 + sum(range(24)) - 24 * 1200) / 240)
    assert (harmed["account"], helped["account"]) == ("harmed", "helped")
    assert harmed["low_s"] <= harmed["change_s"] <= harmed["high_s"]
    assert (harmed["low_s"] > 0, helped["high_s"] < 0) == (True, True)
    assert harmed["longer"] == pytest.approx((24 * 4000 + sum(range(24))) / 3600)
    assert list(replayed_waits(table, "observe")) == []
    words = order_words({"mode": "act", "hours": 24.0, "accounts": [], "replayed": [every, harmed, helped]})
    assert "Longer, for sure: harmed by" in words
    assert "helped" not in words


def test_the_order_of_a_sample_is_that_of_advice(store):
    clock, report = ManualClock(AT_S), cycle(AT_S, "act")
    run(counts_of(store, clock), clock, report, cycle(AT_S + 1, "act"))
    told = {share.name: (share.jobs, share.change_s) for share in advice(report.view, report.plan)
            if share.kind == "account"}  # fmt: skip
    (order,) = orders(hours(store))
    assert order["mode"] == "act"
    assert {one["account"]: (one["jobs"], one["change_s"]) for one in order["accounts"]} == told
