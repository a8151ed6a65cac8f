"""The preemptive loop: who runs is chosen by number, and nobody is stopped for a job that does not start."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_direct import fleet_of, jobs_of, some_jobs
from simulator.worlds import decided, simulate

from examples import examples
from slurmsched.policies.selection.preemption import GpuCounts, count_gpus
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.setup import Setup

RUNS = (simulate, decided)


@pytest.mark.parametrize("run", RUNS)
def test_nobody_is_stopped_for_a_job_that_does_not_fit_on_any_node(run):
    # At second 5 four GPUs are left by number, two on each node: the job of four needs a whole node, and gets none.
    jobs = jobs_of((0, 100, 2), (0, 100, 2), (1, 1000, 2), (1, 1000, 2), (5, 500, 4))
    replay = run(jobs, ClusterSpec.of(2, 4), Setup.of("srtf", "preemptive", placement="first-free"))
    assert replay.stops.sum() == 2
    apart = replace(ClusterSpec.of(2, 4), nodes=nodes_of(2, 4, cpus=np.array([500, 500])))
    packed = run(jobs, apart, Setup.of("srtf", "preemptive", placement="consolidate"))
    assert packed.stops.tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("run", RUNS)
def test_a_chosen_job_keeps_its_node_although_a_better_one_needs_all_of_it(run):
    jobs = jobs_of((0, 300, 3), (0, 310, 3), (10, 50, 2))
    replay = run(jobs, ClusterSpec.of(2, 4), Setup.of("srtf", "preemptive", placement="consolidate"))
    # Two GPUs are free, one on each node: by number all three jobs run, and none of them is stopped.
    assert replay.stops.sum() == 0
    assert replay.start_s.tolist() == [0.0, 0.0, 300.0]


@examples(40)
@given(data=st.data(), name=st.sampled_from(["srtf", "las", "fifo"]), nodes=st.integers(1, 3), gpus=st.integers(1, 4))
def test_each_stop_makes_room_for_a_job_that_starts_there_at_that_moment(data, name, nodes, gpus):
    jobs = data.draw(some_jobs(nodes * gpus))
    replay = decided(jobs, ClusterSpec.of(nodes, gpus), Setup.of(name, "preemptive"), segments=True)
    log = replay.segments
    assert log is not None
    first = np.append(log.first, len(log.node))
    hosts = [set(log.node[first[at] : first[at + 1]].tolist()) for at in range(len(log.row))]
    for at, row in enumerate(log.row.tolist()):
        if log.end_s[at] < replay.end_s[row]:
            starts = [other for other in range(len(log.row)) if log.start_s[other] == log.end_s[at]]
            assert any(hosts[other] & hosts[at] for other in starts), f"job {row} was stopped for nobody"


@examples(40)
@given(data=st.data(), name=st.sampled_from(["fifo", "sjf", "srtf", "las"]))
def test_partitions_that_share_nodes_leave_no_better_job_without_gpus(data, name):
    """At each moment the jobs that run are those of the greatest worth by number, unless nodes keep some out."""
    jobs = data.draw(some_jobs(1, ("a", "b", "a,b")))
    replay = simulate(jobs, fleet_of(["a", "a,b", "b"], gpus=1), Setup.of(name, "preemptive"))
    assert np.isfinite(replay.end_s).all()
    assert replay.idle_gpu_s >= replay.fragmented_gpu_s


@examples(300)
@given(data=st.data())
def test_a_job_is_counted_exactly_where_some_division_of_the_segments_has_its_gpus(data):
    kinds, segments = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    may = np.array([[data.draw(st.booleans()) for _ in range(segments)] for _ in range(kinds)])
    has = np.array([data.draw(st.integers(0, 4)) for _ in range(segments)], dtype=np.int64)
    nobody = np.zeros((kinds, segments), dtype=np.int64)
    counts = GpuCounts(np.zeros(0, dtype=np.int64), may, has.copy(), nobody)
    wanted = np.zeros(kinds, dtype=np.int64)
    for _ in range(data.draw(st.integers(1, 8))):
        kind, gpus = data.draw(st.integers(0, kinds - 1)), data.draw(st.integers(1, 4))
        more = wanted.copy()
        more[kind] += gpus
        fits = _by_hall(may, has, more)
        assert count_gpus(counts, may[kind], counts.taken[kind], gpus) == fits
        wanted = more if fits else wanted
        if segments > 1:
            assert counts.taken.sum(axis=1).tolist() == wanted.tolist()
            assert (counts.taken[~may] == 0).all()
        assert counts.left.sum() == has.sum() - wanted.sum()
        assert (counts.left >= 0).all()


def _by_hall(may: np.ndarray, has: np.ndarray, wanted: np.ndarray) -> bool:
    """Each set of kinds wants no more than the segments have that any of them may use."""
    kinds = range(len(wanted))
    sets = chain.from_iterable(combinations(kinds, size) for size in range(1, len(wanted) + 1))
    return all(wanted[list(some)].sum() <= has[may[list(some)].any(axis=0)].sum() for some in sets)
