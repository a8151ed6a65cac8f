"""Jobs that train: their progress in rounds, at measured speeds."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cli import main
from slurmsched.cluster.training import Allocations, TrainingView
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SCALINGS, scaling
from slurmsched.research.training.applications import ApplicationJobs, read_applications
from slurmsched.research.training.feasibility import impossible_progress, wrong_amounts
from slurmsched.research.training.progress import no_progress
from slurmsched.research.training.reports import Reports
from slurmsched.research.training.rounds import train
from slurmsched.research.training.stored_times import StoredTimes
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.speeds.performance import Batch
from slurmsched.simulator.speeds.speed_files import SpeedFiles
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.traces.trace import TraceError
from slurmsched.simulator.worker_pool import RunFailed

DATA = Path(__file__).parent.parent / "data" / "pollux"
VECTORS = json.loads((DATA / "pollux_vectors.json").read_text())
FLEET = ClusterSpec.of(4, 4)
SPEEDS = SpeedFiles(str(DATA))
CASE = Case(Source.of(str(DATA / "pollux_small.csv"), 16), speeds=SPEEDS)


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def replayed(line, case=CASE, fleet=FLEET, **parts):
    ((_, result),) = sweep([Cell(case, Setup.training(line, **SPEEDS.defaults | parts))], fleet, check=True)
    return result


@pytest.fixture(scope="module")
def by_chance() -> Iterator[str]:
    """A scaling that divides the cluster anew at each decision, in a way that looks like chance."""

    @scaling("by-chance")
    def by_chance(view: TrainingView) -> Allocations:
        """Any GPUs for any job."""
        gpus, free = np.zeros_like(view.jobs.held), view.nodes.gpus.copy()
        for row, most in enumerate(view.jobs.most_gpus.tolist()):
            for node in range(len(free)):
                number = int(view.now_s) // 960 * 2654435761 + row * 40503 + node * 97
                many = min(number // 7 % 4, int(free[node]), most - int(gpus[row].sum()))
                gpus[row, node], free[node] = many, free[node] - many
        return Allocations(gpus)

    yield "by-chance"
    del SCALINGS._parts["by-chance"]


@pytest.mark.parametrize(("line", "jct_s"), [("tiresias", 4237.25), ("optimus", 3573.7916666666665)])
def test_mean_jcts_are_those_of_the_authors_simulator(line, jct_s):
    assert replayed(line).summary.jct_s.mean == pytest.approx(jct_s, rel=1e-9)


def test_step_times_are_those_of_the_authors():
    applications = read_applications(str(DATA))
    for vector in VECTORS["throughput"]:
        found = applications[vector["application"]].step_time(tuple(vector["placement"]), vector["local_bsz"])
        assert found == pytest.approx((vector["step_s"], vector["sync_s"]), rel=1e-6)


def test_gradient_statistics_and_gains_are_those_of_the_authors():
    applications = read_applications(str(DATA))
    for vector in VECTORS["statistics"]:
        application, epoch = applications[vector["application"]], vector["epoch"]
        found = [column[epoch] for column in application.statistics(vector["batch_size"])]
        found.append(application.gain(vector["batch_size"])[epoch])
        assert found == pytest.approx([vector[name] for name in ("grad_sqr", "grad_var", "gain")], rel=1e-9)


@examples(6)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 5000), st.sampled_from(["bert", "ncf", "deepspeech2"]), st.integers(1, 16), st.booleans()
        ),
        min_size=1,
        max_size=8,
    ),
    beat_s=st.sampled_from([60.0, 480.0]),
    interference=st.sampled_from([0.0, 0.5]),
)
@pytest.mark.parametrize(
    "line",
    ["fifo", "tiresias", "optimus", "optimus forecast=learnt", "pollux", "pollux avoidance=no", "sia", "by-chance"],
)
def test_every_job_does_all_its_work_and_ends(line, rows, beat_s, interference, by_chance, tmp_path_factory):
    limits = {name: application.limits for name, application in read_applications(str(DATA)).items()}
    path = tmp_path_factory.mktemp("jobs") / "jobs.csv"
    lines = []
    for at_s, name, gpus, large in rows:
        one = limits[name]
        lines.append(f"job,{at_s},{name},{gpus if one.scales else 1},{one.most if large else one.initial}")
    path.write_text("name,time,application,num_replicas,batch_size\n" + "\n".join(lines) + "\n")
    case = Case(Source.of(str(path), 16), speeds=SPEEDS)
    result = replayed(line, case, beat_s=beat_s, interference=interference)
    assert (result.replay.start_s % beat_s == 0).all()


def test_what_optimus_learns_serves_almost_as_well_as_what_it_could_know():
    assert replayed("optimus forecast=learnt").summary.jct_s.mean < 1.15 * replayed("optimus").summary.jct_s.mean


@pytest.mark.parametrize("line", ["optimus forecast=guessed", "pollux avoidance=maybe", "pollux spread=yes"])
def test_parameters_of_scalings_that_make_no_sense_are_refused(line):
    with pytest.raises(ConfigError, match="accepted is"):
        SCALINGS.find(line)


@pytest.mark.parametrize(
    ("name", "changed", "problem"),
    [
        ("pollux_step_times.csv", {"step_s": "-1"}, "pollux_step_times.csv: cifar10 has no steps, or one of no time"),
        ("pollux_step_times.csv", {"sync_s": "nan"}, "pollux_step_times.csv: cifar10 has no steps, or one of no time"),
        ("pollux_step_times.csv", {"application": "other"}, "pollux_step_times.csv: cifar10 has no rows"),
        (
            "pollux_step_times.csv",
            {"num_gpus": "two"},
            "pollux_step_times.csv:2, column num_gpus: 'two' is no count",
        ),
        ("pollux_validation.csv", {"epoch": "1"}, "cifar10 lacks epoch 2 of 100 with a batch of"),
        ("pollux_vectors.json", {"max_epochs": 0}, "are no bounds: all are at least 1"),
        ("pollux_vectors.json", {"min_local_bsz": 2048}, "no least is above its most"),
    ],
)
def test_files_of_applications_that_make_no_sense_are_refused(name, changed, problem, tmp_path):
    for file in ("pollux_step_times.csv", "pollux_validation.csv"):
        with gzip.open(DATA / f"{file}.gz", "rt", newline="") as text:
            rows = [row for row in csv.DictReader(text) if row["application"] == "cifar10"]
        with (tmp_path / file).open("w", newline="") as text:
            writer = csv.DictWriter(text, rows[0])
            writer.writeheader()
            writer.writerows(row | changed if file == name else row for row in rows)
    limits = VECTORS["applications"]["cifar10"] | (changed if name.endswith("json") else {})
    (tmp_path / "pollux_vectors.json").write_text(json.dumps({"applications": {"cifar10": limits}}))
    with pytest.raises((ConfigError, TraceError), match=re.escape(problem)):
        read_applications(str(tmp_path))


def test_interpolated_step_times_are_stored_for_other_processes(tmp_path):
    first, damaged = StoredTimes(b"measured", tmp_path), "7 28 100 0.25 0."
    first.add((6, 24, 134), (0.7453321425833334, 1e-17))
    with next(tmp_path.iterdir()).open("a") as file:
        file.write(damaged)
    first.add((8, 32, 100), (0.5, 0.25))
    first.add((8, 32, 101), (0.5, 0.25))
    again, of_others = StoredTimes(b"measured", tmp_path), StoredTimes(b"measured elsewhere", tmp_path)
    assert again.get((6, 24, 134)) == first.get((6, 24, 134)) == (0.7453321425833334, 1e-17)
    assert again.get((8, 32, 101)) == (0.5, 0.25)
    assert again.get((7, 28, 100)) is of_others.get((6, 24, 134)) is None


def test_a_directory_that_nobody_may_write_stores_no_step_times(tmp_path):
    times = StoredTimes(b"measured", tmp_path / "not there")
    times.add((1, 2, 3), (0.5, 0.25))
    assert (times.get((1, 2, 3)), list(tmp_path.iterdir())) == ((0.5, 0.25), [])


@pytest.mark.parametrize("batch", [0, 99_999_999])
def test_a_batch_that_an_application_cannot_have_is_refused(batch, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(f"name,time,application,num_replicas,batch_size\na,0,cifar10,1,{batch}\n")
    shown = run("simulate", str(path), "--set", f"applications={DATA}", "--nodes", "1", "--policy", "tiresias")
    assert (shown.exit_code, "job 1: cifar10 has a batch of 1 to 4096 samples" in shown.output) == (1, True)


def test_jobs_that_train_are_played_in_rounds():
    arguments = ("--set", f"applications={DATA}", "--nodes", "4x4", "--set", "beat_s=0")
    shown = run("simulate", str(DATA / "pollux_small.csv"), *arguments, "--policy", "tiresias")
    assert (shown.exit_code, "played in rounds" in shown.output) == (2, True)


def test_no_job_has_more_gpus_than_its_speed_is_known_on():
    small, large = (replayed("optimus", fleet=ClusterSpec.of(nodes, 4)).summary.jct_s.mean for nodes in (4, 40))
    assert large < small


def test_nodes_of_more_gpus_than_were_measured_are_refused():
    with pytest.raises(RunFailed, match=r"no step times for [5-8] GPUs on 1 node; measured were up to 4 per node"):
        replayed("tiresias", fleet=ClusterSpec.of(2, 8))


def test_interference_slows_jobs_that_spread_over_shared_nodes():
    alone, beside = (replayed("optimus", interference=part).summary.jct_s.mean for part in (0.0, 0.5))
    assert beside > 1.01 * alone


@pytest.mark.parametrize("line", ["sjf", "srtf", "srsf"])
def test_equal_jobs_do_not_take_turns_where_a_restart_outlasts_a_round(line, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("name,time,application,num_replicas,batch_size\na,0,cifar10,4,512\nb,0,cifar10,4,512\n")
    case = Case(Source.of(str(path), 4), speeds=SPEEDS)
    assert not replayed(line, case, ClusterSpec.of(1, 4), restart_s=90.0).replay.stops.any()


def test_a_longer_restart_delays_jobs_whose_gpus_change():
    assert replayed("optimus", restart_s=300.0).summary.jct_s.mean > replayed("optimus").summary.jct_s.mean


@pytest.mark.parametrize(
    ("gpus", "problem"),
    [
        (lambda held: held * 0, "gives no GPUs to the 1 jobs left"),
        (lambda held: held + 5, "gives more GPUs than n1 has"),
        (lambda held: held - 1, "GPUs of no amount per job and node"),
        (lambda held: held[:, :2], "GPUs of no amount per job and node"),
        (lambda held: held + 0.5, "GPUs of type float64, not whole numbers"),
    ],
)
def test_a_scaling_that_gives_what_is_not_there_is_refused(gpus, problem):
    @scaling("wrong")
    def wrong(view: TrainingView) -> Allocations:
        """Nothing that can be."""
        return Allocations(gpus(view.jobs.held))

    jobs = CASE.trace().workload.take(slice(1))
    performance = ApplicationJobs(jobs, read_applications(str(DATA)), 4)
    try:
        with pytest.raises(ConfigError, match=problem):
            train(jobs, FLEET, Setup.training("wrong", **SPEEDS.defaults), performance)
    finally:
        del SCALINGS._parts["wrong"]


ONE_GPU = np.array([[1, 0], [1, 0], [0, 1], [0, 0]])
ON_TWO = np.array([[2, 0], [2, 0], [0, 1], [0, 0]])
CPUS = np.array([[4.0, 0.0], [5.0, 0.0], [0.0, 8.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (Allocations(ON_TWO), "more GPUs than n1 has"),
        (Allocations(ON_TWO, beside=np.array([1, 0, -1, -1])), ""),
        (Allocations(ON_TWO, beside=np.array([1, -1, -1, -1])), "pairs that are not two jobs"),
        (Allocations(ON_TWO, beside=np.array([0, 1, -1, -1])), "pairs that are not two jobs"),
        (Allocations(ON_TWO, beside=np.array([2, -1, 0, -1])), "pairs that are not two jobs"),
        (Allocations(np.triu(ON_TWO), beside=np.array([1, 0, -1, -1])), "pairs that are not two jobs"),
        (Allocations(ON_TWO, beside=np.array([1, 0, 4, -1])), "pairs with rows that are none"),
        (Allocations(ON_TWO, beside=np.array([1, 0])), "pairs with rows that are none"),
        (Allocations(ONE_GPU, cpus=CPUS * 0.8), ""),
        (Allocations(ONE_GPU, cpus=CPUS), "more CPUs than n1 has"),
        (Allocations(ONE_GPU, cpus=CPUS * np.nan), "CPUs of no amount"),
        (Allocations(ONE_GPU, memory_mib=CPUS), "more memory than n1 has"),
        (Allocations(ONE_GPU, memory_mib=-CPUS), "memory of no amount"),
    ],
)
def test_amounts_that_nodes_do_not_have_are_named(new, problem):
    nodes = ClusterSpec.of(2, 2).nodes
    found = wrong_amounts(new, 4, replace(nodes, cpus=np.full(2, 8), memory_mib=np.full(2, 8.0)))
    assert found.startswith(problem) if problem else not found


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("end_s", np.inf, "a job never ended"),
        ("end_s", 50.0, "a job began before it came, or ended before it began"),
        ("done", 99.0, "a job ended before its work"),
        ("credit", 101.0, "a job did more or less than its rates and its time allow"),
    ],
)
def test_progress_that_cannot_have_been_is_named(column, value, problem):
    progress = no_progress(np.array([[40.0, 100.0]]), np.array([2]))
    progress = progress._replace(end_s=np.array([200.0]), done=np.array([100.0]), credit=np.array([100.0]))
    submit_s, start_s = np.array([0.0]), np.array([60.0])
    assert not impossible_progress(progress, submit_s, start_s)
    assert problem in impossible_progress(progress._replace(**{column: np.array([value])}), submit_s, start_s)
    assert impossible_progress(progress, np.array([61.0]), start_s)


def test_a_scaling_under_which_no_job_ever_computes_is_refused():
    @scaling("restless")
    def restless(view: TrainingView) -> Allocations:
        """One GPU, on another node in each round."""
        node = int(view.now_s / view.round_s) % len(view.nodes)
        return Allocations(np.eye(len(view.nodes), dtype=np.int64)[[node] * len(view.jobs)])

    jobs = CASE.trace().workload.take(slice(1))
    performance = ApplicationJobs(jobs, read_applications(str(DATA)), 4)
    try:
        with pytest.raises(ConfigError, match="or others in each round: none has computed for 6"):
            train(jobs, FLEET, Setup.training("restless", restart_s=60.0, beat_s=60.0), performance)
    finally:
        del SCALINGS._parts["restless"]


def test_jobs_that_train_need_to_know_what_they_train(tmp_path):
    out = run("simulate", str(DATA / "pollux_small.csv"), "--nodes", "4", "--policy", "fifo")
    assert out.exit_code != 0
    assert "say applications, throughputs or profiles" in out.output
    unknown = replace(CASE.trace().workload, work=CASE.trace().workload.name)
    with pytest.raises(ConfigError, match="'cifar10-0' is no application; there are: bert"):
        ApplicationJobs(unknown, read_applications(str(DATA)), 4)
    (tmp_path / "pollux_vectors.json").write_text("{}")
    with pytest.raises(Exception, match=r"pollux_step_times\.csv"):
        read_applications(str(tmp_path))


@pytest.fixture(scope="module")
def two_types(tmp_path_factory):
    """The applications, twice as fast on a v100 as measured."""
    folder = tmp_path_factory.mktemp("applications")
    for path in DATA.glob("pollux_*"):
        (folder / path.name).symlink_to(path)
    rows = [f"{name},t4,1\n{name},v100,2\n" for name in VECTORS["applications"]]
    (folder / "pollux_gpu_types.csv").write_text("application,gpu_type,speed\n" + "".join(rows))
    return str(folder)


def test_sia_learns_which_type_of_gpus_is_faster(two_types):
    def jct_s(line, *pools):
        case = replace(CASE, speeds=SpeedFiles(two_types))
        return replayed(line, case, ClusterSpec.of_types(dict(pools), 4)).summary.jct_s.mean

    slow, mixed, fast = (jct_s("sia", *pools) for pools in ([("t4", 16)], [("t4", 8), ("v100", 8)], [("v100", 16)]))
    assert fast < mixed < slow
    assert mixed < jct_s("tiresias", ("t4", 8), ("v100", 8))
    with pytest.raises(RunFailed, match="no speed on GPUs of type 'a100'; there are: t4, v100"):
        jct_s("sia", ("a100", 16))


def test_an_unknown_type_computes_as_fast_as_one_step_of_it_says(two_types):
    jobs, fleet = CASE.trace().workload.take(slice(1)), ClusterSpec.of_types({"t4": 4, "v100": 4}, 4)
    performance = SpeedFiles(two_types).performance(jobs, fleet)
    reports, batch = Reports(performance.limits, performance.node_type), Batch(32, 0)
    for gpus in ([1, 0], [0, 1], [2, 0]):
        reports.add(0, np.array(gpus), batch, performance.measured(0, np.array(gpus), batch, 0))
    known, scaled = reports.of(np.array([0])).speed[0]
    assert scaled[:2] == pytest.approx(known[:2] / 2)
    assert scaled[2:].tolist() == known[2:].tolist()


def test_simulate_compares_scalings():
    trace, where = str(DATA / "pollux_small.csv"), ["--nodes", "4x4", "--set", f"applications={DATA}"]
    out = run("simulate", trace, *where, "--policy", "tiresias", "--policy", "optimus", "--check", "--json")
    facts = json.loads(out.output)["policies"]
    assert [one["policy"] for one in facts] == ["tiresias", "optimus"]
    assert facts[0]["jct_s"]["mean"] == pytest.approx(4237.25)
    assert 0.5 < facts[1]["utilisation"] <= 1
    for wrong in (
        ["--set", "selection=strict"],
        ["--preset", "lucid"],
        ["--set", "until_measured=true", "--set", "measure=0:5"],
    ):
        assert "applications" in run("simulate", trace, *where, *wrong).output
    assert "interference goes with" in run("simulate", trace, "--nodes", "4", "--set", "interference=0.5").output
