"""The direct executor on fleets that are more than one pool of GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import simulate, trace

from examples import examples
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SELECTIONS, Ordering
from slurmsched.policies.presets import PRESETS
from slurmsched.simulator.cluster_spec import ClusterSpec, Failures, nodes_of, partition_of
from slurmsched.simulator.machine.outages import outages
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload

ORDERINGS = sorted(set(PRESETS) - {"slurm"})
WITHOUT_TURNS = sorted(set(ORDERINGS) - {"las", "themis"})
"""Under ``las`` jobs take turns at each decision, and what happens in one partition is a decision in all; ``themis``
has fair shares of the whole cluster."""
WITHOUT_PARTS = sorted(set(SELECTIONS) - {"yarn-cs"})  # its parts are those of the whole cluster


def jobs_of(*rows: tuple[float, float, int], **columns: object) -> Workload:
    """Jobs as (submit, runtime, GPUs) in order of submission."""
    return trace(*rows, **({"time_limit_s": [row[1] for row in rows]} | columns))


def fleet_of(partitions: list[str], gpus: int = 4, **columns: object) -> ClusterSpec:
    """A node per entry, in the partitions it lists."""
    names = sorted({name for entry in partitions for name in entry.split(",")})
    lists = {name: [f"n{at}" for at, entry in enumerate(partitions, 1) if name in entry.split(",")] for name in names}
    table = partition_of(names[0], ",".join(lists[names[0]]))
    for name in names[1:]:
        table = table.joined(partition_of(name, ",".join(lists[name])))
    return ClusterSpec(
        nodes_of(len(partitions), gpus, partitions=partitions, **columns), table, ClusterSpec.of(1, 1).qos
    )


def starts(jobs: Workload, fleet: ClusterSpec, name: str, selection: str | None = None, **parts: object) -> list[float]:
    return simulate(jobs, fleet, Setup.of(name, selection, **parts)).start_s.tolist()


@st.composite
def some_jobs(draw, gpus: int, partitions: tuple[str, ...] = ("",)) -> Workload:
    one = st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, gpus))
    rows = sorted(draw(st.lists(one, min_size=1, max_size=25)), key=lambda row: row[0])
    names = draw(st.lists(st.sampled_from(partitions), min_size=len(rows), max_size=len(rows)))
    return jobs_of(*rows, partition=names)


@pytest.mark.parametrize("nodes", [nodes_of(1, 3), nodes_of(1, 3, cpus=np.array([500]))], ids=["pool", "nodes"])
def test_fair_shares_are_of_all_jobs_there_and_not_of_those_that_wait(nodes):
    jobs = jobs_of(*[(0, 1, 1)] * 9, (0, 2, 1), (0, 3, 3), (4, 1, 1))
    assert starts(jobs, replace(ClusterSpec.of(1, 3), nodes=nodes), "themis", "strict")[-3:] == [3.0, 5.0, 4.0]


@examples(30)
@given(data=st.data(), name=st.sampled_from(WITHOUT_TURNS), selection=st.sampled_from(WITHOUT_PARTS))
def test_partitions_with_nodes_of_their_own_are_clusters_of_their_own(data, name, selection):
    jobs = data.draw(some_jobs(4, ("a", "b")))
    setup = Setup.of(name, selection)
    together = simulate(jobs, fleet_of(["a", "b"]), setup)
    for part in ("a", "b"):
        rows = np.array([name == part for name in jobs.partition])
        if rows.any():
            alone = simulate(jobs.take(rows), ClusterSpec.of(1, 4), setup)
            assert together.end_s[rows] == pytest.approx(alone.end_s)


@examples(40)
@given(data=st.data(), name=st.sampled_from(ORDERINGS), selection=st.sampled_from(sorted(SELECTIONS)))
def test_on_shared_partitions_every_job_runs_whole_and_none_is_lost(data, name, selection):
    jobs = data.draw(some_jobs(4, ("a", "b", "a,b")))
    replay = simulate(jobs, fleet_of(["a", "a,b", "b"]), Setup.of(name, selection, restart_s=1.0))
    assert violations(replay) == []


@examples(40)
@given(
    data=st.data(), name=st.sampled_from(["fifo", "sjf", "srtf", "las"]), selection=st.sampled_from(sorted(SELECTIONS))
)
def test_an_ordering_that_is_asked_at_each_decision_gives_the_same(data, name, selection):
    jobs = data.draw(some_jobs(4, ("a", "b", "a,b")))
    setup = Setup.of(name, selection)
    asked = replace(setup, ordering=replace(setup.ordering, changes="with_time"))
    fleet = fleet_of(["a", "a,b", "b"])
    told, shown = simulate(jobs, fleet, setup), simulate(jobs, fleet, asked)
    assert shown.start_s.tolist() == told.start_s.tolist()
    assert shown.end_s == pytest.approx(told.end_s)


def test_a_waiting_job_takes_idle_nodes_before_those_of_a_job_that_comes_after_it():
    jobs = jobs_of((0, 100, 4), (1, 5, 4), (2, 200, 4), partition=["a,b", "a,b", "b"])
    replay = simulate(jobs, fleet_of(["a", "b"]), Setup.of("srtf"))
    assert replay.stops.tolist() == [0, 0, 0]
    assert replay.end_s.tolist() == [100, 6, 206]


def test_a_better_job_takes_the_nodes_it_needs_from_the_worst_that_runs():
    jobs = jobs_of((0, 100, 4), (0, 50, 4), (1, 5, 4), partition=["a", "b", "a"])
    replay = simulate(jobs, fleet_of(["a", "b"]), Setup.of("srtf"))
    assert replay.stops.tolist() == [1, 0, 0], "the other partition is left in peace"


def test_placement_is_as_asked_on_such_fleets_too():
    jobs = jobs_of((0, 10, 3), (0, 10, 2), cpus=[1, 1])
    fleet = replace(ClusterSpec.of(2, 4), nodes=nodes_of(2, 4, cpus=np.array([8, 8])))
    assert simulate(jobs, fleet, Setup.of("fifo", placement="first-free")).spread.tolist() == [1, 2]
    assert simulate(jobs, fleet, Setup.of("fifo", placement="consolidate")).spread.tolist() == [1, 1]


def test_a_sensitive_job_runs_slower_on_more_nodes_than_it_needs():
    fleet = replace(ClusterSpec.of(2, 4), speeds=(1.0, 0.5))
    jobs = jobs_of((0, 10, 3), (0, 10, 2), (0, 10, 2), sensitive=[False, True, False])
    setup = Setup.of("fifo", placement="first-free")
    assert simulate(jobs, fleet, setup).end_s.tolist() == [10, 20, 10]
    assert violations(simulate(jobs, fleet, setup)) == []
    on_slurm = simulate(jobs, fleet, Setup.of("slurm"))
    assert on_slurm.end_s.tolist() == [10, 10, 10], "slurmctld consolidates"


def test_a_failing_node_ends_its_jobs_which_start_again_from_nothing():
    fleet = replace(ClusterSpec.of(2, 4), failures=Failures(400.0, 50.0, seed=1))
    jobs = jobs_of(*[(0.0, 300.0, 4)] * 6)
    for setup in (Setup.of("fifo"), Setup.of("srtf"), Setup.of("slurm")):
        replay = simulate(jobs, fleet, setup)
        assert replay.stops.sum() > 0
        assert violations(replay) == []
        assert (replay.end_s - replay.start_s >= 300 - 1e-6).all()


def test_failures_are_the_same_for_one_seed_and_others_for_another():
    first, again, other = (outages(3, Failures(100.0, 10.0, seed), 0.0, 1000.0) for seed in (1, 1, 2))
    assert first.at_s.tolist() == again.at_s.tolist()
    assert first.at_s.tolist() != other.at_s.tolist()
    assert (np.diff(first.at_s) >= 0).all()
    for node in range(3):
        assert first.up[first.node == node].tolist()[:2] == [False, True], "a node fails before it is repaired"


def test_no_more_failures_are_made_than_can_be_borne():
    with pytest.raises(ConfigError, match="1000000 at most"):
        outages(1000, Failures(1.0, 1.0), 0.0, 1e6)


def test_a_job_that_no_node_can_hold_is_named():
    with pytest.raises(ConfigError, match="job 1 asks for 5 GPUs; no nodes of the cluster can hold it"):
        starts(jobs_of((0, 1, 5), partition=["a"]), fleet_of(["a", "b"]), "fifo")


def test_a_policy_of_its_own_sees_how_long_jobs_have_run():
    seen = []

    def key(view):
        seen.append(dict(zip(view.pending.job_id.tolist(), view.pending.ran_s.tolist(), strict=True)))
        return view.pending.ran_s

    watching = Setup(Ordering("watching", key, "", "with_time"), "preemptive")
    simulate(jobs_of((0, 10, 4), (4, 10, 4), partition=["a", "a"]), fleet_of(["a"]), watching)
    assert {1: 4.0, 2: 0.0} in seen
