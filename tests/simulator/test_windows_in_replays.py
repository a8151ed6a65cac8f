"""Reservations in replays: no executor starts a job that would run into one, and decide() is equal to the loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, simulate, trace

from examples import examples
from slurmsched.cluster.columns import table_of
from slurmsched.cluster.reservations import MAGNETIC, MAINT, ReservationTable
from slurmsched.cluster.text.hostlist import expand
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.workload.workload import Workload

NODES, GPUS = 2, 2
PLACES = ("n1", "n2", "n[1-2]")


def windows(*rows: tuple[float, float, str, str]) -> ReservationTable:
    """Windows as (begin, end, nodes, user who may run in it)."""
    columns = dict(zip(("start_s", "end_s", "nodes", "users"), map(list, zip(*rows, strict=True)), strict=True))
    flags = [MAGNETIC if user else MAINT for user in columns["users"]]
    names = [f"r{at}" for at in range(len(rows))]
    return table_of(ReservationTable, len(rows), {"whole": True}, {"name": names, "flags": flags, **columns})


def site(table: ReservationTable) -> ClusterSpec:
    return replace(
        ClusterSpec.of(NODES, GPUS), nodes=nodes_of(NODES, GPUS, cpus=np.full(NODES, 64)), reservations=table
    )


@st.composite
def sites(draw: st.DrawFn) -> ClusterSpec:
    begin, lasts = st.integers(0, 40), st.integers(1, 20)
    one = st.tuples(begin, lasts, st.sampled_from(PLACES), st.sampled_from(["", "alice"]))
    rows = draw(st.lists(one, min_size=1, max_size=3))
    return site(windows(*((float(begin), float(begin + lasts), on, user) for begin, lasts, on, user in rows)))


@st.composite
def queues(draw: st.DrawFn) -> Workload:
    one = st.tuples(st.integers(0, 30), st.integers(1, 15), st.integers(1, NODES * GPUS))
    rows = draw(st.lists(one, min_size=1, max_size=12))
    more = draw(st.lists(st.integers(0, 10), min_size=len(rows), max_size=len(rows)))
    users = draw(st.lists(st.sampled_from(["alice", "bob"]), min_size=len(rows), max_size=len(rows)))
    jobs = trace(*rows, user=users)
    return replace(jobs, time_limit_s=jobs.runtime_s + np.array(more, dtype=np.float64))


def demand_free_windows(jobs: Workload, fleet: ClusterSpec, replay: Replay, nodes_of_run: list[set[str]]) -> None:
    """Demand that no job has a node of a window that its limit reaches into, unless it may run in it."""
    table = fleet.reservations
    for row, on in enumerate(nodes_of_run):
        start_s, until_s = replay.start_s[row], replay.start_s[row] + jobs.time_limit_s[row]
        for at in range(len(table)):
            if not on & set(expand(table.nodes[at])):
                continue
            begin_s, end_s = float(table.start_s[at]), float(table.end_s[at])
            inside = (
                bool(table.users[at]) and table.users[at] == jobs.user[row] and start_s >= begin_s and until_s <= end_s
            )
            assert inside or until_s <= begin_s or start_s >= end_s, (row, on, start_s, until_s, begin_s, end_s)


def nodes_by_run(replay: Replay, jobs: int) -> list[set[str]]:
    runs: list[set[str]] = [set() for _ in range(jobs)]
    assert replay.segments is not None
    first = [*replay.segments.first.tolist(), len(replay.segments.node)]
    for at, row in enumerate(replay.segments.row.tolist()):
        runs[row] |= {f"n{node + 1}" for node in replay.segments.node[first[at] : first[at + 1]].tolist()}
    return runs


@pytest.mark.parametrize("selection", ["strict", "backfill", "easy", "conservative", "preemptive"])
@examples(25)
@given(fleet=sites(), jobs=queues(), name=st.sampled_from(["fifo", "sjf"]))
def test_decisions_and_the_loops_leave_out_the_same_windows(selection, fleet, jobs, name):
    setup = Setup.of(name, selection)
    fast, slow = simulate(jobs, fleet, setup, segments=True), decided(jobs, fleet, setup)
    assert fast.start_s.tolist() == slow.start_s.tolist()
    assert fast.end_s == pytest.approx(slow.end_s)
    if selection != "preemptive":
        demand_free_windows(jobs, fleet, fast, nodes_by_run(fast, len(jobs)))


def test_a_job_starts_after_a_window_that_its_limit_reaches_into_and_a_shorter_one_before():
    fleet = site(windows((30.0, 50.0, "n[1-2]", "")))
    jobs = replace(trace((0, 10, 4), (1, 5, 1), (2, 5, 1)), time_limit_s=np.array([20.0, 25.0, 15.0]))
    for selection in ("backfill", "easy", "conservative"):
        assert simulate(jobs, fleet, Setup.of("fifo", selection)).start_s.tolist() == [0.0, 50.0, 10.0], selection


def test_the_reservations_of_a_cluster_file_count_from_the_first_submission(tmp_path):
    file = tmp_path / "cluster.toml"
    window = "[[reservations]]\nname = 'repair'\nstart = '00:01:00'\nduration = '00:10:00'\n"
    file.write_text(f"[[nodes]]\ngpus = 4\n{window}")
    jobs = replace(trace((1000, 10, 1), (1001, 10, 1)), time_limit_s=np.array([120.0, 30.0]))
    for setup in (Setup.of("fifo", "backfill"), Setup.of("fifo", "easy"), Setup.of("slurm")):
        replay = simulate(jobs, read_cluster(file), setup)
        assert 1660.0 <= replay.start_s[0] < 1700.0, setup.name
        assert replay.start_s[1] < 1010.0, setup.name


def test_the_main_loop_passes_over_a_job_only_if_reservations_leave_it_too_few_nodes():
    config = {"SchedulerParameters": "bf_interval=900,batch_sched_delay=0,sched_interval=1"}
    setup = replace(Setup.of("slurm", "conservative"), slurm_config=config)
    jobs = replace(trace((0, 30, 2), (1, 30, 1), (2, 30, 1)), time_limit_s=np.array([600.0, 600.0, 60.0]))
    for on, starts_s in (("n1", 30.0), ("n[1-2]", 2.0)):  # in the first case the second job waits for room on n2
        fleet = site(windows((120.0, 240.0, on, "")))
        assert simulate(jobs, fleet, setup).start_s[2] == pytest.approx(starts_s, abs=3.0), on


@examples(25)
@given(fleet=sites(), jobs=queues())
def test_the_modelled_slurm_starts_no_job_into_a_window(fleet, jobs):
    config = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0,sched_interval=1"}
    setup = replace(Setup.of("slurm", "conservative"), executor="slurm", slurm_config=config)
    replay = simulate(jobs, fleet, setup)
    assert np.isfinite(replay.end_s).all()
    assert SlurmConf.of(config).rules.bf_interval_s == 1.0
    everywhere = [window for window in range(len(fleet.reservations)) if fleet.reservations.nodes[window] == PLACES[-1]]
    some = replace(fleet, reservations=fleet.reservations.take(np.array(everywhere, dtype=np.int64)))
    demand_free_windows(jobs, some, replay, [{"n1", "n2"}] * len(jobs))
