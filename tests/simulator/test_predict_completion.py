"""When jobs start and finish, if no others come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.limits import limit_table
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.predictions import PredictionKind, PredictionTable
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.state import View
from slurmsched.explain.eta import etas
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of

NOW_S = 1_000_000.0
SLURM = {"SchedulerParameters": "bf_interval=1,bf_resolution=1,batch_sched_delay=0"}
LATER_S = 3.0
"""What Slurm's loops take to notice."""


def view(*jobs: tuple[float, int], running: tuple[tuple[float, int], ...] = (), **columns: object) -> View:
    """Pending jobs as (runtime, GPUs), by priority, before one node; *running* likewise, with what is left to do."""
    count, busy = len(jobs), len(running)
    waiting: dict[str, object] = {
        "job_id": np.arange(1, count + 1),
        "partition": ["gpu"] * count,
        "reason": ["Priority"] * count,
        "gpus": [job[1] for job in jobs],
        "priority": 1000 - np.arange(count),
        "time_limit_s": [10 * job[0] for job in jobs],
        "first_submit_s": np.full(count, NOW_S),
        "submitted_s": np.full(count, NOW_S),
        "eligible_s": np.full(count, NOW_S),
    }
    started = job_table(
        busy,
        job_id=np.arange(901, 901 + busy),
        partition=["gpu"] * busy,
        state=np.full(busy, int(JobState.RUNNING)),
        gpus=[job[1] for job in running],
        started_s=np.full(busy, NOW_S - 100.0),
        time_limit_s=np.full(busy, 1e5),
        node_list=["n1"] * busy,
    )
    used = np.array([sum(job[1] for job in running)])
    fleet = ClusterSpec(
        nodes_of(1, 4, partitions=["gpu"], cpus=np.array([64]), gpus_used=used), partition_of("gpu", "n1"),
        ClusterSpec.of(1, 1).qos,
    )  # fmt: skip
    return View(
        NOW_S,
        job_table(count, **(waiting | columns)),
        started,
        fleet.nodes,
        fleet.partitions,
        fleet.qos,
        said([job[0] for job in jobs]),
        said([100.0 + job[0] for job in running]),
    )


def said(runtimes_s: list[float]) -> Forecast:
    runtime_s = np.array(runtimes_s, dtype=np.float64)
    return Forecast(runtime_s, runtime_s / 2, 2 * runtime_s, Labels.of(["median of 7 runs"] * len(runtimes_s)))


def told(seen: View, rank: list[int] | None = None, standing: list[int] | None = None) -> PredictionTable:
    count = len(seen.pending)
    return predict_completion(
        seen,
        np.array([-1] * count if rank is None else rank, dtype=np.int64),
        np.array([0] * count if standing is None else standing, dtype=np.int64),
        SLURM,
    )


def waits_s(table: PredictionTable) -> list[float]:
    return (table.start_s[table.kind != PredictionKind.RUNNING] - NOW_S).tolist()


def test_jobs_that_take_the_whole_cluster_start_one_after_the_other():
    table = told(view((100.0, 4), (50.0, 4), (10.0, 4), running=((30.0, 4),)))
    assert waits_s(table) == pytest.approx([30.0, 130.0, 180.0], abs=4 * LATER_S)
    assert (table.finish_s - table.start_s)[:3].tolist() == pytest.approx([100.0, 50.0, 10.0])
    assert table.finish_s[3] == NOW_S + 30.0
    assert table.kind.tolist() == [PredictionKind.PREDICTED] * 3 + [PredictionKind.RUNNING]


def test_our_rank_decides_in_place_of_the_priority():
    table = told(view((100.0, 4), (50.0, 4), (10.0, 4)), rank=[2, 1, 0])
    assert waits_s(table) == pytest.approx([60.0, 10.0, 0.0], abs=4 * LATER_S)
    assert table.rank[:3].tolist() == [2, 1, 0]


def test_a_job_without_a_rank_keeps_the_place_that_slurm_gives_it():
    table = told(view((100.0, 4), (50.0, 4), (10.0, 4)), rank=[-1, 1, 0])
    assert np.argsort(table.start_s[:3]).tolist() == [0, 2, 1]


def test_a_job_that_we_delay_starts_after_the_promise_that_it_would_endanger():
    seen = view((1000.0, 2), (100.0, 4), running=((30.0, 2),))
    promises = promise_table(1, job_id=[2], state=[int(PromiseState.OPEN)], promised_s=[NOW_S + 500.0])
    seen = replace(seen, promises=promises)
    rank = np.array([1, 0], dtype=np.int64)

    def waits_with(until_s: float) -> list[float]:
        return waits_s(predict_completion(seen, rank, np.zeros(2, dtype=np.int64), SLURM, np.array([until_s, np.nan])))

    assert waits_with(np.nan) == pytest.approx([0.0, 1000.0], abs=4 * LATER_S), "nobody is delayed"
    assert waits_with(NOW_S + 3600.0) == pytest.approx([130.0, 30.0], abs=4 * LATER_S)
    assert waits_with(NOW_S + 10.0) == pytest.approx([10.0, 1010.0], abs=4 * LATER_S), "the delay is used up first"


def test_a_small_job_fills_the_gap_before_a_large_one():
    table = told(view((100.0, 4), (5.0, 1), running=((1000.0, 2),)))
    first, second = waits_s(table)
    assert first == pytest.approx(1000.0, abs=2 * LATER_S)
    assert second <= LATER_S


def test_derivation_counts_what_stands_before_a_job():
    table = told(view((100.0, 4), (50.0, 2), (10.0, 4), running=((30.0, 4),)))
    assert table.ahead[:3].tolist() == [0, 1, 2]
    assert table.ahead_gpu_s[:3].tolist() == [0.0, 400.0, 500.0]
    assert table.running_gpu_s[0] == 120.0


def test_derivation_of_a_job_without_gpus_counts_cores():
    seen = view((100.0, 4), (50.0, 0), (10.0, 0), running=((30.0, 4),), cpus=[1, 8, 16])
    seen = replace(seen, running=replace(seen.running, cpus=np.array([2])))
    table = told(seen)
    assert table.ahead_gpu_s[:3].tolist() == [0.0, 100.0, 500.0]
    assert table.running_gpu_s[:3].tolist() == [120.0, 60.0, 60.0]
    answer = etas(table, NOW_S, [2])[0]
    assert "8 core-minutes" in answer.derivation
    assert "GPU" not in answer.derivation


def test_an_array_is_told_by_the_first_of_its_tasks():
    table = told(view((100.0, 4), (10.0, 4), tasks=[3, 1]))
    assert table.kind[0] == PredictionKind.ARRAY
    assert table.start_s[0] - NOW_S <= LATER_S
    assert waits_s(table)[1] == pytest.approx(300.0, abs=4 * LATER_S)


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"reason": ["JobHeldUser"]}, PredictionKind.HELD),
        ({"reason": ["Dependency"], "dependency": ["afterok:7"]}, PredictionKind.DEPENDENT),
        ({"reservation": ["maint"]}, PredictionKind.RESERVED),
        ({"reason": ["AssocGrpGRES"]}, PredictionKind.LIMITED),
        ({"reason": ["PartitionDown"]}, PredictionKind.PARTITION_DOWN),
        ({"gpus": [5]}, PredictionKind.CANNOT_RUN),
    ],
)
def test_a_job_of_which_nothing_can_be_said_gets_the_reason_and_no_number(columns, kind):
    table = told(view((100.0, 4), **columns))
    assert table.kind.tolist() == [kind]
    assert np.isnan([table.start_s[0], table.finish_s[0], table.finish_by_s[0]]).all()


def test_the_next_task_of_a_throttled_array_goes_before_a_later_job_at_each_end():
    columns = {"tasks": [3, 1], "array_job_id": [1, 0], "array_limit": [1, 0]}
    reason = ["JobArrayTaskLimit", "Resources"]
    seen = view((40.0, 4), (20.0, 4), running=((40.0, 4),), reason=reason, **columns)
    seen = replace(seen, running=replace(seen.running, array_job_id=np.array([1]), task_id=np.array([0])))
    table = told(seen)
    assert table.kind.tolist()[:2] == [PredictionKind.ARRAY, PredictionKind.PREDICTED]
    assert waits_s(table) == pytest.approx([40.0, 160.0], abs=6 * LATER_S)
    assert table.ahead[1] == 3


def test_a_throttled_array_runs_no_more_tasks_at_once_than_it_may():
    free = view((100.0, 1), (50.0, 4), tasks=[4, 1], array_job_id=[1, 0])
    throttled = replace(free, pending=replace(free.pending, array_limit=np.array([2, 0])))
    assert waits_s(told(free))[1] == pytest.approx(100.0, abs=6 * LATER_S)
    assert waits_s(told(throttled))[1] == pytest.approx(200.0, abs=6 * LATER_S)


LIMITS = {
    "whose": "qos", "name": "small", "counts": "user", "resource": "jobs", "most": 1.0,
}  # fmt: skip


def limited(seen: View, **limit: object) -> View:
    """The same, with one limit."""
    return replace(seen, limits=limit_table([LIMITS | limit]))


@pytest.mark.parametrize(
    ("reason", "limit", "columns", "starts_s"),
    [
        ("QOSMaxJobsPerUserLimit", {}, {}, [60.0, 160.0, 0.0]),
        ("QOSMaxGRESPerUser", {"resource": "gpu", "most": 2.0}, {}, [0.0, 60.0, 0.0]),
        ("QOSGrpCpuLimit", {"counts": "group", "resource": "cpu"}, {}, [60.0, 160.0, 260.0]),
        ("AssocGrpJobsLimit", {"whose": "account", "name": "bio", "members": "bio", "counts": "group"}, {},
         [60.0, 160.0, 260.0]),
        ("Licenses", {"whose": "licence", "name": "m", "counts": "group", "resource": "licence"},
         {"licences": ["m:1"] * 3}, [60.0, 160.0, 260.0]),
    ],
)  # fmt: skip
def test_a_job_that_a_limit_blocks_starts_when_the_jobs_that_hold_it_have_ended(reason, limit, columns, starts_s):
    same = {"qos": ["small"] * 3, "account": ["bio"] * 3, "user": ["alice", "alice", "bob"]}
    seen = view((100.0, 1), (100.0, 1), (100.0, 1), running=((60.0, 1),), reason=[reason] * 3, **same | columns)
    runs = {"qos": ["small"], "account": ["bio"], "user": ["alice"], "licences": ["m"]}
    running = replace(seen.running, **{name: Labels.of(texts) for name, texts in runs.items()})
    table = told(limited(replace(seen, running=running), **limit))
    assert waits_s(table) == pytest.approx(starts_s, abs=8 * LATER_S)


def test_a_limit_that_is_not_known_leaves_its_jobs_without_a_time():
    table = told(view((100.0, 1), reason=["QOSMaxJobsPerUserLimit"], qos=["small"]))
    assert table.kind.tolist() == [PredictionKind.LIMITED]


@pytest.mark.parametrize(
    ("dependency", "start_s"),
    [
        ("afterok:1(unfulfilled)", 130.0),
        ("afterany:901(unfulfilled)", 30.0),
        ("afterany:901(unfulfilled),afterok:1(unfulfilled)", 130.0),
        ("afterany:901(unfulfilled)?afterok:1(unfulfilled)", 30.0),
        ("after:1(unfulfilled)", 30.0),
        ("after:1+1(unfulfilled)", 90.0),
        ("after:901+3(unfulfilled)", 80.0),
        ("singleton(unfulfilled)", 130.0),
    ],
)
def test_a_job_that_waits_for_others_starts_after_what_it_waits_for(dependency, start_s):
    columns = {"dependency": ["", dependency], "reason": ["Resources", "Dependency"], "name": ["a", "a"]}
    table = told(view((100.0, 3), (10.0, 1), running=((30.0, 3),), **columns))
    assert waits_s(table)[1] == pytest.approx(start_s, abs=8 * LATER_S)
    assert table.kind[1] == PredictionKind.PREDICTED


@pytest.mark.parametrize(
    "dependency", ["afternotok:1(unfulfilled)", "afterok:7(failed)", "afterok:77(unfulfilled)", "expand:1", "strange"]
)
def test_a_dependency_that_cannot_be_played_forward_leaves_a_job_without_a_time(dependency):
    columns = {"dependency": ["", dependency], "reason": ["Resources", "Dependency"]}
    assert told(view((100.0, 4), (10.0, 1), **columns)).kind[1] == PredictionKind.DEPENDENT


def test_a_chain_behind_a_held_job_has_no_time():
    columns = {"dependency": ["", "afterok:1(unfulfilled)", "afterok:2(unfulfilled)"], "priority": [0, 5, 4]}
    columns["reason"] = ["JobHeldUser", "Dependency", "Dependency"]
    kinds = told(view((100.0, 4), (10.0, 1), (10.0, 1), **columns)).kind.tolist()
    assert kinds == [PredictionKind.HELD, PredictionKind.DEPENDENT, PredictionKind.DEPENDENT]


def on_two_nodes(seen: View) -> View:
    """The same jobs before two nodes of four GPUs, of which those that run have the first."""
    used = np.array([int(seen.nodes.gpus_used[0]), 0])
    two = nodes_of(2, 4, partitions=["gpu"] * 2, cpus=np.array([64, 64]), gpus_used=used)
    return replace(seen, nodes=two, partitions=partition_of("gpu", "n1,n2"))


def test_the_components_of_a_heterogeneous_job_start_when_all_have_room():
    seen = on_two_nodes(view((100.0, 4), (50.0, 4), running=((30.0, 3),), het_job_id=[1, 1]))
    table = told(seen)
    assert waits_s(table)[0] == waits_s(table)[1] == pytest.approx(30.0, abs=LATER_S)
    assert (table.finish_s - table.start_s)[:2].tolist() == pytest.approx([100.0, 50.0])
    assert etas(table, NOW_S, [0])[0].not_understood == (
        "that the components of a heterogeneous job get different nodes",
    )
    held = told(on_two_nodes(view((100.0, 4), (50.0, 1), het_job_id=[1, 1], reason=["JobHeldUser", "JobHeldUser"])))
    assert held.kind.tolist() == [PredictionKind.HELD] * 2


def test_components_that_have_room_only_one_after_the_other_or_too_few_nodes_have_no_time():
    after = on_two_nodes(view((100.0, 8), (50.0, 4), het_job_id=[1, 1], nodes=[2, 1]))
    one_node = view((100.0, 1), (50.0, 1), het_job_id=[1, 1])
    for seen, (asked, there) in ((after, (3, "2 nodes")), (one_node, (2, "1 node"))):
        answer = etas(told(seen), NOW_S, [1])[0]
        assert (answer.kind, answer.start_s) == ("cannot_run", None)
        assert f"together ask for {asked} different nodes, and {there} could hold them" in answer.notes[0]
    behind = on_two_nodes(view((100.0, 4), (300.0, 8), (200.0, 4), het_job_id=[1, 0, 1], nodes=[1, 2, 1]))
    kinds = told(behind).kind.tolist()
    assert kinds == [PredictionKind.HETEROGENEOUS, PredictionKind.PREDICTED, PredictionKind.HETEROGENEOUS]


def test_a_job_that_is_not_ours_or_not_known_is_told_with_the_reason_beside():
    seen = view((100.0, 1), (100.0, 1))
    strange = replace(seen, forecast=replace(seen.forecast, source=Labels.of(["no history: the time limit", "x"])))
    kinds = told(strange, standing=[0, int(Standing.OWNER_SAID_OFF)]).kind.tolist()
    assert kinds == [PredictionKind.NO_HISTORY, PredictionKind.LEFT_ALONE]


def test_a_suspended_job_has_no_finish():
    seen = view(running=((30.0, 2),))
    stopped = replace(seen, running=replace(seen.running, state=np.array([int(JobState.SUSPENDED)])))
    table = told(stopped)
    assert table.kind.tolist() == [PredictionKind.SUSPENDED]
    assert np.isnan(table.finish_s[0])


QUEUES = st.lists(st.tuples(st.integers(1, 500).map(float), st.integers(1, 4)), min_size=1, max_size=12)


@examples(40)
@given(QUEUES)
def test_never_more_runs_than_there_is_and_every_job_is_told_its_runtime(jobs):
    table = told(view(*jobs, running=((50.0, 3),)))
    gpus = table.gpus
    assert table.has_value.all()
    for at_s in table.start_s[:-1].tolist():
        assert gpus[(table.start_s <= at_s) & (at_s < table.finish_s)].sum() <= 4
    assert np.allclose((table.finish_s - table.start_s)[:-1], [job[0] for job in jobs])


@examples(30)
@given(QUEUES, QUEUES)
def test_a_job_behind_that_takes_the_whole_cluster_changes_nothing_for_those_before(jobs, others):
    whole = [(took_s, 4) for took_s, _ in jobs]
    alone = told(view(*whole))
    behind = told(view(*whole, *[(took_s, 4) for took_s, _ in others]))
    assert behind.start_s[: len(jobs)].tolist() == alone.start_s.tolist()


@examples(30)
@given(QUEUES)
def test_with_exact_forecasts_first_come_first_served_is_foretold_exactly(jobs):
    """Jobs as wide as the cluster: each starts when the one before has ended, but for Slurm's loops."""
    table = told(view(*[(took_s, 4) for took_s, _ in jobs]))
    ends_s = np.concatenate([[NOW_S], table.finish_s[:-1]])
    late_s = table.start_s - ends_s
    assert (late_s >= 0).all()
    assert (late_s <= LATER_S + 0.1 * (table.start_s - NOW_S)).all()


def test_slurms_estimate_is_kept_beside_ours_and_the_end_of_a_hold_is_none():
    """Squeue shows the begin time of a job, which a hold of ours is too, as its start."""
    seen = view((60.0, 1), (60.0, 1), started_s=[NOW_S + 50, NOW_S + 40], eligible_s=[NOW_S - 9, NOW_S + 40])
    assert told(seen).slurm_start_s.tolist()[0] == NOW_S + 50
    assert np.isnan(told(seen).slurm_start_s[1])


def test_a_job_that_waits_for_the_end_of_a_maintenance_has_no_time_and_those_behind_it_have():
    waits = ["ReqNodeNotAvail, Reserved for maintenance", "Priority"]
    table = told(view((60.0, 4), (60.0, 4), reason=waits))
    assert table.kind.tolist() == [PredictionKind.LIMITED, PredictionKind.PREDICTED]
    assert waits_s(table)[1] == 0.0
    several = told(view((60.0, 4), (60.0, 4), reason=waits, partition=["gpu,fast", "gpu"]))
    assert several.kind[0] != PredictionKind.LIMITED, "its reason is about one of them"


def test_before_a_begin_time_and_the_end_of_a_window_no_start_is_possible():
    begins = told(view((60.0, 1), (60.0, 1), eligible_s=[NOW_S - 9, NOW_S + 7200.0]))
    assert begins.begins_s.tolist() == [0.0, NOW_S + 7200.0]
    texts = {name: Labels.of([text]) for name, text in (("name", "maint"), ("nodes", "n1"), ("flags", "MAINT"))}
    moments = {"start_s": [NOW_S + 300.0], "end_s": [NOW_S + 7200.0], "whole": [True]}
    window = table_of(ReservationTable, 1, {}, texts | moments)
    seen = replace(view((600.0, 4), (20.0, 4)), reservations=window)
    table = told(seen)
    assert table.start_s.tolist() == pytest.approx([NOW_S + 7200.0, NOW_S], abs=LATER_S)
    assert table.begins_s.tolist() == [NOW_S + 7200.0, 0.0]
