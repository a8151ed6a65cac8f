"""Who would run now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from decide.views import jobs, nodes
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.decide.ordering.greedy_fit import fill, free_gpus

PARTITIONS = ("gpu", "profile", "gpu,profile")
placed = st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 4)), min_size=1, max_size=6)
asking = st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 9)), max_size=30)


def started(asked, have):
    """Which of some jobs run, by partition and GPUs, on nodes by partition and free GPUs."""
    table = jobs(len(asked), gpus=[gpus for _, gpus in asked], partition=[name for name, _ in asked])
    made = replace(nodes([gpus for _, gpus in have]), partitions=Labels.of([name for name, _ in have]))
    return fill(table, np.arange(len(asked)), made).tolist()


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(0, 40))
@examples(100)
def test_each_that_still_fits_runs_in_order_and_whole(gpus, free):
    runs, left = [], free
    for wanted in gpus:
        runs.append(0 < wanted <= left)
        left -= wanted if runs[-1] else 0
    assert started([("gpu", wanted) for wanted in gpus], [("gpu", free)]) == runs


@given(asking, placed)
@examples(200)
def test_jobs_run_within_the_free_gpus_of_their_partitions_and_the_first_that_fits_does(asked, have):
    runs = started(asked, have)

    def free(*names):
        return sum(gpus for partitions, gpus in have if set(names) & set(partitions.split(",")))

    taken = {name: sum(g for (p, g), run in zip(asked, runs, strict=True) if run and p == name) for name in PARTITIONS}
    assert taken["gpu"] <= free("gpu")
    assert taken["profile"] <= free("profile")
    assert sum(taken.values()) <= free("gpu", "profile")
    fits = [0 < gpus <= free(*partitions.split(",")) for partitions, gpus in asked]
    assert True not in fits or runs[fits.index(True)]


def test_free_gpus_of_another_partition_start_no_job():
    assert started([("gpu", 1), ("profile", 1)], [("gpu", 0), ("profile", 4)]) == [False, True]


def test_nodes_that_others_may_use_too_are_taken_last():
    assert started([("gpu", 2), ("profile", 2)], [("gpu", 2), ("gpu,profile", 2)]) == [True, True]


def test_a_job_that_wants_a_type_of_gpu_runs_on_no_other():
    have = replace(nodes((4, 4), (4, 0)), gpu_type=Labels.of(["a100", "v100"]))
    table = jobs(2, gpus=[1, 1], gpu_type=["a100", "v100"])
    assert fill(table, np.arange(2), have).tolist() == [False, True]


def test_gpus_of_nodes_that_take_no_jobs_are_not_free():
    assert free_gpus(nodes((4, 4), (1, 4))) == 3
    assert free_gpus(nodes((4, 4), usable=False)) == 0
    assert free_gpus(nodes((4,), (6,))) == 0, "more in use than there is: nothing is free, and nothing is owed"
    assert free_gpus(nodes(())) == 0
    assert free_gpus(nodes((4, 2)), np.array([False, True])) == 2
