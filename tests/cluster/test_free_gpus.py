"""When the GPUs of each node come free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.outlook.free_gpus import FreeGpus
from slurmsched.cluster.outlook.remaining import UNKNOWN_S
from slurmsched.research.conformance.random_views import nodes, running_jobs

INF = np.inf


def free(total: Any, used: Any, ends_s: list[float], **columns: Any) -> list[list[float]]:
    """When each GPU of nodes with *total* GPUs, of which *used* are in use, is free."""
    jobs = running_jobs(len(ends_s), **columns)
    return FreeGpus(jobs, room := nodes(total, used), room.ready_s).by_node(np.array(ends_s, dtype=np.float64)).tolist()


def test_a_job_frees_its_part_of_each_of_its_nodes():
    assert free((4, 4), (3, 2), [50.0], gpus=[5], node_list=["n[1-2]"]) == [
        [0.0, 50.0, 50.0, 50.0],
        [0.0, 0.0, 50.0, 50.0],
    ]


def test_its_parts_are_those_that_are_said_where_they_are():
    assert free((4, 4), (4, 1), [50.0], gpus=[5], node_list=["n[1-2]"], node_gpus=["4,1"]) == [
        [50.0] * 4,
        [0.0, 0.0, 0.0, 50.0],
    ]


def test_what_nobody_that_is_shown_holds_comes_free_with_the_last_of_those_that_are():
    assert free((2, 2), (2, 1), [50.0, 70.0], gpus=[1, 1], node_list=["n1", "n1"]) == [[50.0, 70.0], [0.0, 70.0]]
    assert free((2,), (1,), []) == [[0.0, UNKNOWN_S]]


def test_the_gpus_of_two_jobs_come_free_with_the_later_one():
    for first_s, second_s in ((30.0, 90.0), (90.0, 30.0)):
        shared = {"gpus": [1, 1], "node_list": ["n1", "n1"]}
        assert free((1,), (1,), [first_s, second_s], **shared) == [[90.0]]
        beside = {"beside": np.array([0, 901]), "guest_gpus": np.array([1, 0])}
        assert free((1,), (1,), [first_s, second_s], **shared, **beside) == [[90.0]]


def test_a_guest_holds_no_more_than_the_gpus_that_it_shares():
    columns = {"gpus": [2, 1, 2], "node_list": ["n1"] * 3, "beside": [0, 901, 0], "guest_gpus": [1, 0, 0]}
    assert free((4,), (4,), [100.0, 50.0, 10.0], **columns) == [[10.0, 10.0, 100.0, 100.0]]


def test_a_node_that_takes_no_jobs_gives_none_and_hosts_that_are_gone_are_none():
    room = replace(nodes((2, 2), (1, 1)), usable=np.array([False, True]))
    jobs = running_jobs(2, gpus=[1, 1], node_list=["n1", "n[2,9]"])
    assert FreeGpus(jobs, room, room.ready_s).by_node(np.array([5.0, 6.0])).tolist() == [[INF, INF], [0.0, 6.0]]
    assert FreeGpus(jobs, room, room.ready_s).held.node.tolist() == [0, 1]


@given(st.data())
def test_no_gpu_is_lost_or_found(data):
    many = data.draw(st.integers(1, 4))
    total = data.draw(st.lists(st.integers(0, 4), min_size=many, max_size=many))
    count = data.draw(st.integers(0, 6))
    hosts = [
        data.draw(st.sampled_from([f"n{at + 1}" for at in range(many)] + ["", "gone", "n["])) for _ in range(count)
    ]
    gpus = [data.draw(st.integers(0, 5)) for _ in range(count)]
    ends_s = np.array([data.draw(st.sampled_from([1.0, 60.0, 61.0, INF])) for _ in range(count)])
    used = np.array([data.draw(st.integers(0, gpus)) for gpus in total], dtype=np.int64)
    room = nodes(total, used)
    found = FreeGpus(running_jobs(count, gpus=gpus, node_list=Labels.of(hosts)), room, room.ready_s)
    free_s = found.by_node(ends_s, now_s=0.5)
    assert (np.diff(np.nan_to_num(free_s, posinf=1e18), axis=1) >= 0).all(), "rising"
    assert ((free_s == 0.5).sum(axis=1) == found.now).all()
    for node, row in enumerate(free_s):
        assert np.isinf(row[total[node] :]).all()
        taken = row[found.now[node] : total[node]]
        mine = [end_s for end_s, host in zip(ends_s, hosts, strict=True) if host == f"n{node + 1}"]
        last_s = max(ends_s[np.array(gpus, dtype=np.int64) > 0], default=0.5 + UNKNOWN_S)
        assert set(taken.tolist()) <= {*mine, last_s}
