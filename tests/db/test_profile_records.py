"""Profiles in the database, SQLite and PostgreSQL alike."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.db.records import profiles

NAN = math.nan
PROFILE = NodeProfile(
    job_id=7,
    restart=0,
    node="n1",
    start_s=1000,
    end_s=1100,
    gpus=2,
    measured_s=100.0,
    process_share=0.9,
    gpu_util=0.4,
    gpu_util_sd=0.1,
    memory_util=0.2,
    memory_mib=8192.0,
    power_w=500.0,
    unstable=0.0,
    link_gbps=25.0,
    best_link_gbps=50.0,
)


@pytest.fixture
def add(store):
    def write(*news, cluster="c"):
        with store.database.transaction("adding", write=True) as connection:
            profiles.add_profiles(connection, cluster, news)

    return write


@pytest.fixture
def load(store):
    def read(cluster="c", since_s=None, until_s=None):
        with store.database.transaction("loading") as connection:
            return profiles.load_profiles(connection, cluster, since_s, until_s)

    return read


def only(table):
    """The one row of a table, by column."""
    assert len(table) == 1
    return {name: column[0] for name, column in vars(table).items()}


def test_a_profile_comes_back_as_it_was_given(add, load):
    add(PROFILE)
    row = only(load())
    assert row.pop("nodes") == 1
    assert row == {
        name: value
        for name, value in vars(PROFILE).items()
        if name not in ("node", "idle_gpus", "idle_since_s", "source")
    }


def test_there_are_none_where_none_were_written(add, load):
    add()
    assert len(load()) == 0


def test_a_record_that_comes_twice_is_kept_once_and_as_it_was(add, load):
    add(PROFILE)
    add(PROFILE, replace(PROFILE, gpu_util=0.9))
    assert only(load())["gpu_util"] == 0.4


def test_of_the_records_of_a_run_the_one_of_most_time_stays_in_whatever_order_they_come(add, load):
    early, later, whole = (replace(PROFILE, end_s=1000 + s, gpu_util=s / 1000) for s in (20, 40, 900))
    for order in ((early, later, whole), (whole, early, later), (later, whole, early, whole)):
        cluster = f"c{len(order)}{order[0].end_s}"
        for record in order:
            add(record, cluster=cluster)
        row = only(load(cluster))
        assert (row["end_s"], row["gpu_util"]) == (1900, 0.9)


def test_zero_no_process_and_not_measured_stay_three_values(add, load):
    add(
        replace(PROFILE, job_id=1, gpu_util=0.0),
        replace(PROFILE, job_id=2, gpu_util=0.0, process_share=0.0),
        replace(PROFILE, job_id=3, gpu_util=NAN),
    )
    table = load()
    assert table.process_share.tolist() == [0.9, 0.0, 0.9]
    assert table.gpu_util[:2].tolist() == [0.0, 0.0]
    assert math.isnan(table.gpu_util[2])


def test_the_nodes_of_a_run_become_one_row(add, load):
    add(
        PROFILE,
        replace(PROFILE, node="n2", start_s=1003, end_s=1103, gpus=6, gpu_util=0.8, measured_s=50.0, unstable=1.0),
    )
    row = only(load())
    assert (row["start_s"], row["end_s"], row["nodes"], row["gpus"]) == (1000, 1103, 2, 8)
    assert row["gpu_util"] == pytest.approx((0.4 * 200 + 0.8 * 300) / 500)
    assert (row["memory_mib"], row["power_w"], row["measured_s"], row["unstable"]) == (16384, 1000, 100, 1)


def test_a_node_that_measured_nothing_does_not_blur_the_others(add, load):
    blind = {"gpu_util": NAN, "power_w": NAN, "unstable": NAN}
    add(PROFILE, replace(PROFILE, node="n2", **blind), replace(PROFILE, job_id=8, **blind))
    table = load()
    assert (table.gpu_util[0], table.power_w[0], table.unstable[0]) == (0.4, 500.0, 0.0)
    assert all(math.isnan(column[1]) for column in (table.gpu_util, table.power_w, table.unstable))


def test_each_run_of_a_requeued_job_is_a_row(add, load):
    add(PROFILE, replace(PROFILE, restart=1, start_s=1200, end_s=1300))
    assert load().restart.tolist() == [0, 1]


def test_a_job_id_that_was_given_out_again_is_another_run(add, load):
    add(PROFILE, replace(PROFILE, start_s=90_000, end_s=90_100))
    assert load().start_s.tolist() == [1000, 90_000]


def test_profiles_go_with_the_outcomes_of_their_time(store):
    store.add_profiles("c", [PROFILE, replace(PROFILE, job_id=8, end_s=5000)])
    assert store.prune(6000.0, 10.0, 2000.0).profiles == 1
    assert store.profiles("c").job_id.tolist() == [8]


def test_profiles_are_cut_by_their_end_and_by_cluster(add, load):
    add(*(replace(PROFILE, job_id=job_id, end_s=1100 + job_id) for job_id in range(5)))
    add(PROFILE, cluster="other")
    assert load(since_s=1101, until_s=1103).job_id.tolist() == [1, 2]
    assert load("other").job_id.tolist() == [7]


def test_the_use_of_links_is_weighted_by_gpu_seconds_and_leaves_out_runs_without_any(add, store):
    pair = {"link_gbps": 25.0, "best_link_gbps": 50.0}
    add(
        replace(PROFILE, link_gbps=NAN, best_link_gbps=NAN),
        replace(PROFILE, job_id=8, **pair),
        replace(PROFILE, job_id=9, measured_s=300.0, **pair | {"link_gbps": 50.0}),
        replace(PROFILE, job_id=10, gpus=4, link_gbps=37.5, best_link_gbps=37.5),
        replace(PROFILE, job_id=11, end_s=1001, **pair),
        replace(PROFILE, job_id=12, measured_s=0.0, **pair),
    )
    two, four = store.link_use("c", 1050.5)
    assert (two.gpus, two.runs, two.gbps, two.best_gbps) == (2, 2, 43.75, 50.0)
    assert two.lost == pytest.approx(0.125)
    assert (four.gpus, four.runs, four.lost) == (4, 1, 0.0)
    assert store.link_use("c", 2000.0) == store.link_use("other", 0.0) == []
