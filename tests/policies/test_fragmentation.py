"""Fragments of free GPUs: what typical jobs cannot use, and nodes that are chosen so that little of that is added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, trace

from examples import examples
from slurmsched.policies.selection.fragmentation import (
    FGD,
    FILLED,
    GPU,
    WHOLE,
    JobKinds,
    NodeRoom,
    TypicalJobs,
    fragment,
    gradient,
    left_when_filled,
    most_frequent,
)
from slurmsched.policies.selection.struct_arrays import records
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.setup import Setup


def typical(*kinds, allowed=None):
    """Typical jobs of (cpus, gpus, share, weight); *allowed* says which may use the one group of nodes."""
    cpus, gpus, share, weight = (np.array(column) for column in zip(*kinds, strict=True))
    may = np.ones(len(kinds), dtype=np.bool_) if allowed is None else np.array(allowed)
    return TypicalJobs(records(JobKinds(cpus, gpus, share, weight / weight.sum())), may[:, None])


def measured(measure, jobs, free, cpus):
    return measure(jobs, np.array(free), len(free), cpus, 0)


KIND = st.one_of(
    st.tuples(st.integers(0, 9), st.just(1), st.integers(1, GPU), st.integers(1, 5)),
    st.tuples(st.integers(0, 9), st.integers(1, 4), st.just(GPU), st.integers(1, 5)),
    st.tuples(st.integers(0, 9), st.just(0), st.just(0), st.integers(1, 5)),
)
FREE = st.lists(st.one_of(st.just(GPU), st.integers(0, GPU)), min_size=1, max_size=4)


def test_one_more_job_cannot_use_what_is_too_little_on_a_gpu_or_all_where_it_does_not_fit():
    half = typical((4, 1, 500, 1.0))
    assert measured(fragment, half, [GPU, 400, 300], cpus=4) == 700
    assert measured(fragment, half, [400, 300], cpus=4) == 700
    assert measured(fragment, half, [GPU, 400, 300], cpus=3) == 1700
    assert measured(fragment, typical((4, 2, GPU, 1.0)), [GPU, GPU, 999], cpus=4) == 999
    assert measured(fragment, typical((4, 1, 500, 1.0), allowed=[False]), [GPU], cpus=4) == GPU
    assert measured(fragment, typical((1, 0, 0, 1.0), (1, 1, GPU, 3.0)), [GPU], cpus=4) == pytest.approx(GPU / 4)


@given(FREE, st.integers(0, 20), st.lists(KIND, min_size=1, max_size=4))
def test_the_fragment_is_what_no_job_of_a_kind_finds_usable_on_the_average_of_kinds(free, cpus, kinds):
    lost = 0.0
    for needed, gpus, share, weight in kinds:
        usable = [left for left in free if gpus and left >= share]
        fits = gpus and len(usable) >= gpus and cpus >= needed
        lost += weight / sum(kind[3] for kind in kinds) * (sum(free) - (sum(usable) if fits else 0))
    assert measured(fragment, typical(*kinds), free, cpus) == pytest.approx(lost)


@given(FREE, st.integers(0, 20), st.lists(KIND, min_size=1, max_size=4))
def test_what_is_left_is_what_jobs_of_a_kind_leave_that_fill_the_node(free, cpus, kinds):
    with_gpus = [kind for kind in kinds if kind[1]]
    lost = 0.0
    for needed, gpus, share, weight in with_gpus:
        held = sum(left // share for left in free) // gpus
        jobs = min(held, cpus / needed) if needed else held
        lost += weight / sum(kind[3] for kind in with_gpus) * (sum(free) - jobs * gpus * share)
    assert measured(left_when_filled, typical(*kinds), free, cpus) == pytest.approx(lost)


@pytest.mark.parametrize("measure", [FGD, FILLED])
@given(FREE, st.integers(1, GPU - 1))
def test_a_fraction_gets_the_gpu_with_the_best_score_and_nothing_is_changed(measure, free, share):
    jobs, room = typical((1, 1, 300, 1.0), (1, 1, 700, 1.0)), np.array(free)
    if max(free) < share:
        return
    here = NodeRoom(room, np.zeros(len(free), dtype=np.int64), len(free), 8, 0)
    score, gpu = gradient(measure, jobs, here, 1, 1, share)
    assert room.tolist() == free
    scores = {}
    for one, left in enumerate(free):
        if left >= share:
            alone = [left - share if other == one else free[other] for other in range(len(free))]
            by = fragment if measure == FGD else left_when_filled
            gained = measured(by, jobs, free, 8) - measured(by, jobs, alone, 7)
            scores[one] = np.trunc(100 / (1 + np.exp(-gained / GPU))) if measure == FGD else gained
    assert score == pytest.approx(max(scores.values()), abs=1e-6)
    assert scores[gpu] == pytest.approx(score, abs=1e-6)


def test_whole_gpus_are_idle_ones_and_no_gpu_is_named():
    jobs, room = typical((1, 1, GPU, 1.0)), np.array([500, GPU, GPU])
    score, gpu = gradient(FILLED, jobs, NodeRoom(room, np.zeros(3, dtype=np.int64), 3, 8, 0), 1, 2, GPU)
    assert (score, gpu) == (0, WHOLE), "the half GPU is lost before and afterwards"


def test_the_most_frequent_kinds_are_taken_until_they_are_enough():
    columns = np.array([[1, 1, 1, 2, 2, 3], [5, 5, 5, 6, 6, 7]])
    kinds, part = most_frequent(columns, 0.8)
    assert kinds.tolist() == [[1, 2], [5, 6]]
    assert part.tolist() == [0.6, 0.4]
    assert most_frequent(columns, 1.0)[0].shape == (2, 3)


@pytest.mark.parametrize(("placement", "node"), [("consolidate", 0), ("fgd", 1), ("fgd-filled", 1)])
def test_a_job_with_many_cpus_goes_where_the_gpus_beside_it_keep_enough_of_them(placement, node):
    fleet = replace(ClusterSpec.of(2, 2), nodes=nodes_of(2, 2, cpus=np.array([16, 64])))
    jobs = trace((0, 10, 1), *[(1, 10, 1)] * 4, cpus=[9, 8, 8, 8, 8])
    jobs = replace(jobs, submit_s=np.zeros(5))
    replay = decided(jobs, fleet, Setup.of("fifo", "backfill", placement=placement), segments=True)
    assert replay.segments.node[replay.segments.row.tolist().index(0)] == node


@pytest.mark.parametrize("placement", ["fgd", "fgd-filled"])
@examples(15)
@given(data=st.data())
def test_a_job_starts_under_a_gradient_whenever_it_starts_consolidated(placement, data):
    nodes, gpus = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    rows = st.tuples(st.just(0), st.integers(1, 20), st.integers(1, nodes * gpus))
    jobs = trace(*data.draw(st.lists(rows, min_size=1, max_size=1)))
    replay = decided(jobs, ClusterSpec.of(nodes, gpus), Setup.of("fifo", "strict", placement=placement))
    assert replay.start_s.tolist() == [0]
