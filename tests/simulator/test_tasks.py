"""Gangs of tasks on servers with GPUs, CPUs and network."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import trace

from examples import examples
from slurmsched.cli import main
from slurmsched.cluster.columns import Labels
from slurmsched.errors import ConfigError
from slurmsched.research.tasks.gangs import LINK_B, play_gangs
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.training_figures import TrainingFigures
from slurmsched.simulator.setup import LOAD_CONTROLS, TASK_PLACEMENTS, Setup
from slurmsched.simulator.traces.mlfs import graph_of
from slurmsched.simulator.traces.registry import read

FLEET = ClusterSpec.of(2, 4)
HEADER = (
    "job_id,submit_s,runtime_s,gpus,vc,model,iteration_s,cpus_per_gpu,edge_mb,ps_mb,urgency,deadline_s,told_s,site_s,"
    "converges_at,loss_rate,accuracy_final,accuracy_required"
)


def gangs(*rows, **columns):
    """Jobs as (submit, runtime, graph); they learn as fast as those of the workloads of MLFS."""
    many = [int(np.prod([int(part) for part in graph.partition(":")[2].split("x")])) for _, _, graph in rows]
    jobs = trace(*((submit, runtime, gpus) for (submit, runtime, _), gpus in zip(rows, many, strict=True)))
    count = len(rows)
    ordinary = {
        "graph": Labels.of([graph for _, _, graph in rows]),
        "iterations": jobs.runtime_s / 2,
        "gpu_cpus": np.full(count, 4.0),
        "edge_b": np.full(count, 60e6),
        "average_b": np.full(count, 80e6),
        "estimate_s": jobs.runtime_s,
        "history_s": 2 * jobs.runtime_s,
        "urgency": np.full(count, 5.0),
        "deadline_s": jobs.submit_s + 2 * jobs.runtime_s,
        "converges_at": np.full(count, 0.5),
        "loss_rate": np.full(count, 12.0),
        "accuracy": np.full(count, 0.9),
    }
    named = {name: getattr(jobs, name) for name in jobs.__dataclass_fields__} | ordinary
    named |= {name: value if isinstance(value, Labels) else np.array(value, float) for name, value in columns.items()}
    part = named["converges_at"]
    named["accuracy_required"] = (
        named["accuracy"] * np.expm1(-named["loss_rate"] * part) / np.expm1(-named["loss_rate"])
    )
    return type(jobs)(**named)


def played(jobs, line="fifo", fleet=FLEET, **parts):
    return play_gangs(jobs, fleet, Setup.of(line, executor="tasks", **parts), check=True)


def test_a_job_alone_takes_its_runtime_even_if_its_own_tasks_are_in_each_others_way():
    replay = played(gangs((0, 1000, "chain:8"), gpu_cpus=[12.0]))
    assert replay.end_s[0] == pytest.approx(1000)
    assert replay.tasks.overloads == 17 * 2


def test_jobs_start_at_the_next_round_and_free_their_gpus_at_the_round_after_their_end():
    replay = played(gangs((10, 100, "chain:8"), (20, 100, "chain:8")))
    assert replay.start_s.tolist() == [60, 180]


def test_jobs_on_a_server_without_cpus_for_all_of_them_are_slowed_down_by_what_is_missing():
    replay = played(
        gangs((0, 1200, "chain:2"), (0, 1200, "chain:2"), gpu_cpus=[12.0, 12.0]), fleet=ClusterSpec.of(1, 4)
    )
    assert replay.end_s.tolist() == pytest.approx([1800, 1800])


def test_a_job_whose_tasks_send_more_than_a_link_takes_is_as_slow_as_the_link_unless_it_always_is():
    cut = gangs((0, 1200, "chain:8"), edge_b=[4 * LINK_B])
    assert played(cut).end_s[0] == pytest.approx(1200)
    jobs = gangs((0, 6000, "chain:2"), (0, 6000, "chain:2"), (0, 1200, "chain:4"), edge_b=[0, 0, 4 * LINK_B])
    packed, spread = played(jobs), played(jobs, placement="ideal")
    assert (packed.end_s[2], packed.tasks.sent_b[2]) == (pytest.approx(1200), 0)
    assert (spread.end_s[2], spread.tasks.sent_b[2]) == (pytest.approx(2400), pytest.approx(4 * LINK_B * 600))


def test_what_flows_between_servers_is_counted_once_for_each_iteration():
    jobs = gangs((0, 1000, "chain:8"))
    assert played(jobs).tasks.sent_b[0] == pytest.approx(60e6 * 500)
    layers = gangs((0, 1000, "layers:2x4"))
    assert played(layers).tasks.sent_b[0] == pytest.approx(16 * 60e6 * 500)
    replicas = gangs((0, 1000, "replicas:8"))
    assert played(replicas).tasks.sent_b[0] == pytest.approx(4 * 80e6 * 500)
    assert played(replicas, averaging="ring").tasks.sent_b[0] == pytest.approx(2 * 2 * 7 / 8 * 80e6 * 500)


def test_a_preempted_job_computes_nothing_for_the_time_of_a_restart_and_loses_no_work():
    replay = played(gangs((0, 3000, "chain:8"), (100, 600, "chain:8")), "srtf")
    assert replay.start_s.tolist() == [0, 300]
    assert replay.stops.tolist() == [1, 0]
    assert replay.end_s[0] == pytest.approx(3000 + 600 + 62)


def test_the_ideal_placement_keeps_servers_below_the_threshold_and_the_tasks_of_a_job_together():
    jobs = gangs((0, 600, "chain:2"), (0, 600, "chain:2"), (0, 600, "chain:2"), gpu_cpus=[12.0, 3.0, 3.0])
    assert played(jobs, placement="quasi-consolidate").tasks.overloads == 10
    replay = played(jobs, placement="ideal")
    assert (replay.tasks.overloads, replay.spread.tolist()) == (0, [1, 1, 1])
    assert played(jobs, placement="calm").tasks.overloads == 0


def test_a_task_leaves_an_overloaded_server_for_one_with_room_and_its_state_is_sent():
    jobs = gangs((0, 1200, "chain:4"), (0, 6000, "chain:2"), (0, 6000, "chain:2"), gpu_cpus=[1.0, 10.0, 10.0])
    stays = played(jobs)
    moves = played(jobs, migrate=True)
    assert moves.tasks.migrations >= 1
    assert moves.tasks.overloads < stays.tasks.overloads
    assert moves.tasks.sent_b.sum() >= moves.tasks.migrations * 80e6


def test_tasks_of_a_job_that_move_at_the_same_time_cost_it_one_restart():
    replay = played(gangs((0, 1000, "chain:8"), gpu_cpus=[12.0]), fleet=ClusterSpec.of(8, 4), migrate=True)
    assert (replay.tasks.migrations, replay.tasks.overloads) == (4, 2)
    assert replay.end_s[0] == pytest.approx(1062)


def test_accuracies_and_deadlines_are_read_where_they_were_passed():
    jobs = gangs((0, 1000, "chain:8"), (0, 1000, "chain:8"), urgency=[9, 9], deadline_s=[800, 1300])
    figures = TrainingFigures.of(played(jobs))
    assert figures is not None
    assert figures.to_accuracy_s == {"mean": 1010, "p99": pytest.approx(500 + 0.99 * 1020), "never": 0}
    assert figures.accuracy_met == 0.5
    shares = [np.expm1(-12 * part) / np.expm1(-12) for part in (0.8, 0.28)]
    assert figures.accuracy_by_deadline == pytest.approx(np.mean(shares))
    assert figures.urgent_deadline_miss_rate == 1


@pytest.mark.parametrize("load_control", LOAD_CONTROLS)
def test_load_control_ends_jobs_that_have_their_accuracy_and_mlfs_none_below_it(load_control):
    jobs = gangs(*((60 * at, 36_000, "chain:8") for at in range(4)), loss_rate=[20, 20, 20, 4])
    figures = TrainingFigures.of(played(jobs, load_control=load_control))
    assert figures is not None
    assert (figures.stopped["jobs"] > 0) is (load_control != "none")
    assert (figures.stopped["gpu_hours_saved"] > 40) is (load_control != "none")
    if load_control in ("acc", "mlfs"):
        assert (figures.stopped["below_required"], figures.to_accuracy_s["never"]) == (0, 0)


def test_the_required_accuracy_ends_a_job_at_the_round_that_shows_it():
    replay = played(gangs((0, 36_000, "chain:8")), load_control="acc")
    assert replay.end_s[0] == 18_000


GRAPHS = ("chain:1", "chain:2", "chain:5", "layers:2x2", "layers:2x4", "replicas:3", "replicas:8")
ROWS = st.tuples(st.integers(0, 3000), st.integers(30, 9000), st.sampled_from(GRAPHS))


@given(
    rows=st.lists(ROWS, min_size=1, max_size=12),
    line=st.sampled_from(["fifo", "tiresias", "mlfs-h", "mlfs-h form=printed dag=sum", "slaq", "hypersched", "fair"]),
    placement=st.sampled_from(sorted(TASK_PLACEMENTS)),
    load_control=st.sampled_from(sorted(LOAD_CONTROLS)),
    migrate=st.booleans(),
    averaging=st.sampled_from(["server", "ring"]),
)
@examples(20)
def test_nothing_impossible_happens_to_any_jobs(rows, line, placement, load_control, migrate, averaging):
    jobs = gangs(*sorted(rows), gpu_cpus=[2.0 + 2.5 * (at % 5) for at in range(len(rows))])
    parts = {"placement": placement, "load_control": load_control, "averaging": averaging, "migrate": migrate}
    replay = played(jobs, line, **parts)
    assert (replay.end_s >= replay.start_s).all()
    assert (replay.tasks.reached_s >= replay.start_s)[~np.isnan(replay.tasks.reached_s)].all()


def test_jobs_without_tasks_are_refused_with_what_is_accepted():
    with pytest.raises(ConfigError, match="format mlfs"):
        played(trace((0, 100, 2)), forecast="exact")
    with pytest.raises(ConfigError, match="ideal"):
        Setup.of("fifo", executor="tasks", placement="pool")
    with pytest.raises(ConfigError, match="executor tasks"):
        Setup.of("fifo", load_control="opt")


def test_models_have_the_graphs_of_their_kind():
    names = [str(graph_of(model, 8)) for model in ("mlp", "alexnet", "resnet", "lstm", "svm")]
    assert names == ["chain:8", "chain:8", "layers:3x3", "layers:3x3", "replicas:8"]


@pytest.fixture
def workload_file(tmp_path):
    lines = [HEADER]
    for at in range(30):
        model = ("mlp", "resnet", "svm")[at % 3]
        runtime_s = 300 + 337 * at % 5000
        lines.append(
            f"{at},{60 * at},{runtime_s},{2 ** (at % 4)},vc1,{model},3,{2 + at % 9},60,70,{1 + at % 10},"
            f"{60 * at + 4000},{1.1 * runtime_s},{2 * runtime_s},0.4,12,0.9,0.89"
        )
    path = tmp_path / "mlfs.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_workload_is_read_with_its_units(workload_file):
    jobs = read(workload_file).workload
    assert (jobs.edge_b[0], jobs.average_b[0], jobs.gpu_cpus[1]) == (60e6, 70e6, 3)
    assert (jobs.iterations[1], jobs.estimate_s[1], jobs.history_s[1]) == (pytest.approx(637 / 3), 700.7, 1274)
    assert (jobs.urgency[3], jobs.deadline_s[3], jobs.accuracy[3]) == (4, 4180, 0.9)
    assert not jobs.best_effort.any()


def test_simulate_shows_the_figures_about_training(workload_file):
    policies = [
        word for line in ("fifo", "tiresias", "mlfs-h", "mlfs-h form=printed unit=h") for word in ("--policy", line)
    ]
    arguments = ["simulate", workload_file, "--executor", "tasks", "--nodes", "3x4", *policies]
    result = CliRunner().invoke(main, [*arguments, "--no-baseline", "--set", "load_control=mlfs", "--check", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["policies"]
    assert [row["selection"] for row in found] == ["backfill", "preemptive", "preemptive", "backfill"]
    assert {row["load_control"] for row in found} == {"mlfs"}
    assert set(found[0]["training"]) == {
        *("accuracy_by_deadline", "accuracy_met", "to_accuracy_s", "urgent_deadline_miss_rate", "server_mib"),
        *("overloads", "migrations", "stopped", "decision_ms"),
    }
    for forecast in ("site", "exact"):
        again = CliRunner().invoke(main, [*arguments, "--no-baseline", "--forecast", forecast, "--json"])
        assert json.loads(again.output)["policies"][0]["forecast"] == forecast


def test_other_executors_have_no_figures_about_training(workload_file):
    result = CliRunner().invoke(main, ["simulate", workload_file, "--nodes", "3", "--no-baseline", "--json"])
    assert {row["training"] for row in json.loads(result.output)["policies"]} == {None}


def test_beside_slurmctld_mlfs_has_the_backfill_of_slurm_and_no_tasks():
    assert Setup.of("mlfs-h", executor="slurm").selection == "easy"
    assert Setup.of("mlfs-h").selection == "preemptive"
