"""The speed of kinds of jobs by type of GPU, from what ran and what runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, running_jobs

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.job_tracker import JobTracker
from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.kind_speeds import MOST, KindSpeeds
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.run_types import run_types
from slurmsched.cluster.speed_texts import read_speeds
from slurmsched.cluster.state import ClusterState
from slurmsched.slurm.read.sacct import _one_type

ROOM = replace(nodes((4, 4)), gpu_type=Labels.of(["a100", "v100"]))


def state(pending: JobTable | None = None, running: JobTable | None = None, ended: JobTable | None = None):
    none = jobs(0)
    empty = {"partitions": None, "qos": None}
    return ClusterState(pending or none, running or none, ended or none, ROOM, **empty)


def runs(*rows, **columns) -> OutcomeTable:
    """Runs of train of alice, each a type and a runtime."""
    count = len(rows)
    same = {name: Labels.of([value] * count) for name, value in
            (("account", "a"), ("qos", "q"), ("partition", "p"), ("user", "alice"), ("name", "train"))}  # fmt: skip
    ones, took_s = np.ones(count, dtype=np.int64), np.array([seconds for _, seconds in rows], dtype=np.float64)
    made = dict.fromkeys(("time_limit_s", "first_submit_s", "eligible_s", "started_s", "ended_s"), took_s)
    made |= {"job_id": np.arange(count), "restart": 0 * ones, "gpus": ones, "nodes": ones, "cpus": ones}
    made |= {"state": np.full(count, JobState.COMPLETED), "runtime_s": took_s} | same
    return OutcomeTable(**(made | {"gpu_type": Labels.of([name for name, _ in rows])} | columns))


BOTH = (("a100", 100.0), ("a100", 120.0), ("v100", 200.0), ("v100", 240.0))


def known(*tables: OutcomeTable, running=()) -> str:
    speeds = KindSpeeds()
    for table in tables:
        speeds.learn(table)
    for one in running:
        speeds.observe(one)
    return speeds.filled(state(jobs(1))).pending.type_speeds[0]


def test_speeds_are_those_of_median_runtimes_over_the_fastest():
    assert known(runs(*BOTH)) == "a100=1 v100=0.5"
    assert read_speeds("a100=1 v100=0.5") == {"a100": 1.0, "v100": 0.5}
    assert read_speeds("") == {}


@pytest.mark.parametrize(
    "table",
    [
        runs(*BOTH[:3]),
        runs(("a100", 100.0), ("a100", 120.0), ("", 200.0), ("", 240.0)),
        runs(*BOTH, state=np.full(4, JobState.FAILED)),
        runs(*BOTH, restart=np.ones(4, dtype=np.int64)),
        runs(*BOTH, gpus=np.full(4, 2)),
        runs(*BOTH, name=Labels.of(["other"] * 4)),
        runs(*BOTH, user=Labels.of(["bob"] * 4)),
        runs(("a100", 1.0), ("a100", 1.0), ("v100", 30.0), ("v100", 40.0)),
    ],
    ids=["one type", "unknown type", "failed", "continued", "other size", "other name", "other user", "short"],
)
def test_nothing_is_known_of_a_kind_without_whole_runs_of_its_own_on_two_types(table):
    assert known(table) == ""


def test_iteration_times_that_jobs_show_count_before_runtimes():
    paces = [
        state(running=running_jobs(
            2, job_id=[10 + 2 * number, 11 + 2 * number], node_list=["n1", "n2"],
            comment=["slurmsched:pace=4", "slurmsched:pace=1"],
        ))
        for number in range(2)
    ]  # fmt: skip
    assert known(running=paces) == "a100=0.25 v100=1"
    assert known(runs(*BOTH), running=paces) == "a100=0.25 v100=1"
    assert known(runs(*BOTH), running=paces[:1]) == "a100=1 v100=0.5", "one run on a type says nothing"


def test_jobs_that_share_gpus_show_no_iteration_time_of_a_type():
    shared = running_jobs(2, node_list=["n1", "n2"], comment=["slurmsched:pace=4"] * 2, beside=[1, 1])
    assert known(running=[state(running=shared)] * 3) == ""


def test_what_is_known_is_listed_and_bounded():
    speeds = KindSpeeds()
    speeds.learn(runs(*BOTH))
    speeds.filled(state())
    assert [(one.gpu_type, one.runs, one.seconds, one.speed) for one in speeds.by_type()] == [
        ("a100", 2, 110.0, 1.0),
        ("v100", 2, 220.0, 0.5),
    ]
    count = MOST + 10
    names = ["".join(chr(103 + int(digit)) for digit in str(number)) for number in range(count)]
    speeds.learn(runs(*[("a100", 100.0)] * count, name=Labels.of(names)))
    assert len(speeds._kinds) <= MOST


def test_a_run_has_the_type_of_its_nodes_and_keeps_it_to_its_end():
    running = running_jobs(3, node_list=["n1", "n[1-2]", "n9"], submitted_s=[1.0] * 3)
    assert run_types(running, ROOM) == ["a100", "", ""]
    tracker = JobTracker()
    tracker.update(state(running=running), 1_000_000.0)
    ended = replace(running, state=np.full(3, JobState.COMPLETED), ended_s=np.full(3, 1_000_100.0))
    ended = replace(ended, node_list=Labels.of([""] * 3))
    outcome = tracker.update(state(ended=ended), 1_000_100.0).ended
    assert dict(zip(outcome.job_id.tolist(), outcome.gpu_type, strict=True)) == {901: "a100", 902: "", 903: ""}


def test_accounting_tells_the_type_where_the_site_counts_types():
    assert _one_type("billing=1,cpu=1,gres/gpu:a100=2,gres/gpu=2,node=1") == "a100"
    assert _one_type("cpu=1,gres/gpu=2") == ""
    assert _one_type("gres/gpu:a100=1,gres/gpu:v100=1,gres/gpu=2") == ""
