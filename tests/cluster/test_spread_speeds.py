"""What spreading costs a kind of job: measured from the iteration times of running jobs, and shown in views."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.kind_speeds import LAST, MOST, KindSpeeds
from slurmsched.cluster.kind_speeds import LEAST_SPREAD as LEAST
from slurmsched.cluster.nodes import PartitionTable, QosTable
from slurmsched.cluster.state import ClusterState
from slurmsched.simulator.cluster_spec import nodes_of

PACKED, SPREAD = "n1", "n[1-2]"


def running(first: int, *runs: tuple[str, int, str, float], **columns: object) -> JobTable:
    """Running jobs, numbered from *first* on, as (name, GPUs, nodes, seconds per iteration)."""
    names, gpus, nodes, paces_s = zip(*runs, strict=True)
    known = {"job_id": first + np.arange(len(runs)), "name": names, "gpus": gpus, "node_list": nodes, "pace_s": paces_s}
    known |= {"state": JobState.RUNNING} | columns
    return job_table(len(runs), **{n: [v] * len(runs) if isinstance(v, int) else v for n, v in known.items()})


def state(jobs: JobTable, pending: JobTable | None = None, **columns: object) -> ClusterState:
    none = job_table(0)
    tables = table_of(PartitionTable, 0, {}, {}), table_of(QosTable, 0, {}, {})
    return ClusterState(none if pending is None else pending, jobs, none, nodes_of(4, 4, **columns), *tables)


def measured(*states: ClusterState) -> KindSpeeds:
    speeds = KindSpeeds()
    for one in states:
        speeds.observe(one)
    speeds.filled(states[-1])
    return speeds


def observed(speeds: KindSpeeds, jobs: JobTable) -> ClusterState:
    speeds.observe(one := state(jobs))
    return one


def both_ways(packed_s: float, spread_s: float, name: str = "vgg_1") -> list[tuple[str, int, str, float]]:
    return [(name, 4, PACKED, packed_s)] * LEAST + [(name, 4, SPREAD, spread_s)] * LEAST


def test_the_speed_of_a_kind_is_that_of_spread_runs_over_that_of_runs_on_as_few_nodes_as_needed():
    speeds = measured(state(running(1, *both_ways(0.3, 0.5))))
    (row,) = speeds.by_spread()
    assert (row.kind, row.gpus, row.runs, row.spread_runs) == ("/vgg_#", 4, LEAST, LEAST)
    assert row.speed == pytest.approx(0.6)
    waiting = job_table(2, job_id=[90, 91], name=["vgg_7", "bert"], gpus=[4, 4])
    filled = speeds.filled(state(running(1, *both_ways(0.3, 0.5)), waiting))
    assert filled.pending.spread_speed.tolist() == pytest.approx([0.6, np.nan], nan_ok=True)
    assert filled.running.spread_speed.tolist() == pytest.approx([0.6] * 2 * LEAST)


def test_nothing_is_concluded_from_fewer_runs_on_one_side():
    jobs = both_ways(0.3, 0.5)
    assert measured(state(running(1, *jobs[1:]))).by_spread() == ()
    assert measured(state(running(1, *jobs[:-1]))).by_spread() == ()


def test_runs_of_other_kinds_gpus_and_types_of_gpus_are_apart():
    slow, fast = both_ways(0.3, 0.6), [(name, 2, nodes, pace_s) for name, _, nodes, pace_s in both_ways(0.3, 0.3)]
    speeds = measured(state(running(1, *slow, *fast)))
    assert [(row.gpus, row.speed) for row in speeds.by_spread()] == [(4, 0.5), (2, 1.0)]
    filled = speeds.filled(state(running(1, *slow)))
    assert filled.running.spread_speed[0] == pytest.approx(0.75), "the mean over both numbers of GPUs"
    types = ["a100", "a100", "v100", "v100"]
    elsewhere = [(name, 4, "n[3-4]" if nodes == SPREAD else nodes, pace_s) for name, _, nodes, pace_s in slow]
    assert measured(state(running(1, *elsewhere), gpu_type=types)).by_spread() == ()
    mixed = [(name, 4, "n[2-3]" if nodes == SPREAD else nodes, pace_s) for name, _, nodes, pace_s in slow]
    assert measured(state(running(1, *mixed), gpu_type=types)).by_spread() == (), "on two types at once"


def test_a_later_iteration_time_of_a_run_replaces_the_earlier_one_and_a_restart_is_another_run():
    slow, now = running(1, *both_ways(0.3, 0.6)), running(1, *both_ways(0.3, 0.4))
    assert measured(state(slow), state(now)).by_spread()[0].speed == pytest.approx(0.75)
    again = replace(now, restarts=now.restarts + 1, pace_s=now.pace_s + 0.01)
    assert measured(state(slow), state(again)).by_spread()[0].runs == 2 * LEAST
    stale = replace(now, restarts=now.restarts + 1)
    assert measured(state(now), state(stale)).by_spread()[0].runs == LEAST, (
        "the comment still has the time of the run before"
    )


def test_only_the_last_runs_count():
    old = [state(running(1 + 2 * LEAST * at, *both_ways(0.3, 0.6))) for at in range(LAST)]
    new = [state(running(10_000 + 2 * LEAST * at, *both_ways(0.3, 0.3))) for at in range(LAST)]
    assert measured(*old, *new).by_spread()[0].speed == 1.0


def test_jobs_beside_others_on_their_gpus_tell_nothing_nor_do_suspended_ones_nor_those_on_unknown_nodes():
    jobs = both_ways(0.3, 0.6)
    for columns in ({"guest_gpus": 1}, {"beside": 7}, {"shares": True}, {"state": JobState.SUSPENDED}):
        assert measured(state(running(1, *jobs, **columns))).by_spread() == (), columns
    gone = [(name, gpus, "gone", pace_s) for name, gpus, _, pace_s in jobs]
    assert measured(state(running(1, *gone))).by_spread() == ()


def test_names_without_end_take_no_memory_without_end():
    packed, spread = both_ways(0.3, 0.5)[:LEAST], both_ways(0.3, 0.5)[LEAST:]
    letters = str.maketrans("0123456789", "abcdefghij")  # numbers would be the same kind
    others = [(f"job-{str(number).translate(letters)}", 4, PACKED, 1.0) for number in range(MOST)]
    speeds = measured(state(running(1, *packed)), state(running(100, *others)))
    speeds.filled(observed(speeds, running(10 * MOST, *spread)))
    assert speeds.by_spread() == ()
    speeds.filled(observed(speeds, running(20 * MOST, *packed)))
    assert len(speeds.by_spread()) == 1
