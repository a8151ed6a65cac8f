"""Jobs that train on several types of GPUs, or with the CPUs and memory they gain by: figures of other simulators."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurmsched.cli import main
from slurmsched.cluster.columns import Labels
from slurmsched.errors import ConfigError
from slurmsched.research.training.cpu_profiles import ProfiledJobs, read_profiles
from slurmsched.research.training.rounds import train
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.speeds.performance import JobResources
from slurmsched.simulator.speeds.speed_files import SpeedFiles
from slurmsched.simulator.speeds.type_speeds import TypedJobs, read_throughputs
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.registry import read
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.traces.trace import TraceError
from slurmsched.simulator.worker_pool import Workers

DATA = Path(__file__).parents[1] / "data"
THROUGHPUTS = str(DATA / "gavel_throughputs.json")
PROFILES = str(DATA / "synergy_profiles.csv")


def two_servers():
    fleet = ClusterSpec.of(2, 8)
    return replace(fleet, nodes=replace(fleet.nodes, cpus=np.full(2, 24), memory_mib=np.full(2, 500 * 1024.0)))


def mean_jct_s(jobs, fleet, line, performance, beat_s):
    setup = Setup.training(line, beat_s=beat_s, restart_s=0.0)
    return float((train(jobs, fleet, setup, performance, check=True).end_s - jobs.submit_s).mean())


@pytest.fixture(scope="module")
def gavel():
    jobs, fleet = (
        read(DATA / "gavel_single_100.csv").workload,
        ClusterSpec.of_types({"v100": 12, "p100": 12, "k80": 12}),
    )
    performance = TypedJobs(jobs, read_throughputs(THROUGHPUTS), fleet.nodes)
    lines = "gavel-las", "gavel-las-blind", "gavel-ftf"
    return {line: mean_jct_s(jobs, fleet, line, performance, 360.0) for line in lines}


@pytest.mark.parametrize(
    ("line", "reference_s"), [("gavel-las", 15709.4), ("gavel-las-blind", 21745.8), ("gavel-ftf", 15886.2)]
)
def test_gavel_takes_as_long_as_in_the_simulator_of_its_authors(gavel, line, reference_s):
    assert gavel[line] == pytest.approx(reference_s, rel=0.03)


def test_to_know_the_speeds_of_types_pays(gavel):
    assert gavel["gavel-las"] <= 0.77 * gavel["gavel-las-blind"]


def test_it_does_not_matter_in_which_order_types_are_named(gavel):
    jobs, fleet = (
        read(DATA / "gavel_single_100.csv").workload,
        ClusterSpec.of_types({"k80": 12, "p100": 12, "v100": 12}),
    )
    performance = TypedJobs(jobs, read_throughputs(THROUGHPUTS), fleet.nodes)
    assert mean_jct_s(jobs, fleet, "gavel-las", performance, 360.0) == pytest.approx(gavel["gavel-las"], rel=0.01)


@pytest.mark.parametrize("objective", ["las", "ftf", "makespan"])
def test_on_one_type_nothing_is_lost_by_not_knowing_the_speeds_of_types(objective):
    jobs, fleet = read(DATA / "gavel_single_100.csv").jobs("0:20").workload, ClusterSpec.of_types({"p100": 4})
    performance = TypedJobs(jobs, read_throughputs(THROUGHPUTS), fleet.nodes)
    aware, blind = (mean_jct_s(jobs, fleet, f"gavel-{objective}{end}", performance, 360.0) for end in ("", "-blind"))
    assert aware == blind


@pytest.mark.parametrize(
    ("line", "reference_s"),
    [
        ("fifo synergy=proportional", 32364.3),
        ("fifo synergy=greedy", 28260.3),
        ("srtf synergy=tune", 19257.3),
        ("las synergy=tune", 28677.3),
    ],
)
def test_synergy_takes_as_long_as_in_the_simulator_of_its_authors(line, reference_s):
    jobs, fleet = read(DATA / "synergy_dynamic_100.csv").workload, two_servers()
    performance = ProfiledJobs(jobs, read_profiles(PROFILES), fleet)
    assert mean_jct_s(jobs, fleet, line, performance, 300.0) == pytest.approx(reference_s, rel=0.001)


def test_greedy_runs_a_job_whose_best_case_no_node_has(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,model,submit_s,iterations,gpus\n0,alexnet,0,5000,8\n1,alexnet,0,5000,1\n")
    arguments = (
        "--set",
        f"profiles={PROFILES}",
        "--cluster",
        str(tmp_path / "two8.toml"),
        "--policy",
        "fifo synergy=greedy",
    )
    (tmp_path / "two8.toml").write_text("[[nodes]]\ncount = 2\ngpus = 8\ncpus = 24\nmemory_gib = 500\n")
    shown = CliRunner().invoke(main, ["simulate", str(path), *arguments, "--check", "--json"])
    assert json.loads(shown.output)["policies"][0]["jobs"] == 2


def test_two_jobs_on_the_same_gpu_are_as_fast_as_measured_together():
    kinds = "ResNet-50 (batch size 64)", "Recommendation (batch size 512)"
    jobs = read(DATA / "gavel_single_100.csv").workload.take(np.arange(2))
    jobs = replace(jobs, work=Labels.of(kinds), gpus=np.ones(2, np.int64))
    performance = TypedJobs(jobs, read_throughputs(THROUGHPUTS), ClusterSpec.of_types({"v100": 1, "k80": 1}).nodes)
    speeds = json.loads(Path(THROUGHPUTS).read_text())["v100"]
    keys = [str((kind, 1)) for kind in kinds]
    together = performance.rates(0, JobResources(np.array([1, 0]), beside=1))
    assert together.tolist() == [speeds[keys[0]][keys[1]][0]]
    assert performance.rates(0, JobResources(np.array([1, 0]))).tolist() == [speeds[keys[0]]["null"]]
    assert performance.rates(0, JobResources(np.array([1, 1]))).tolist() == [0.0]


def test_a_job_with_less_than_its_share_is_as_fast_as_the_grid_says():
    jobs = read(DATA / "synergy_dynamic_100.csv").workload.take(np.arange(1))  # alexnet
    performance = ProfiledJobs(jobs, read_profiles(PROFILES), two_servers())
    on_one, base = np.array([1, 0]), 1 / performance.needs.iteration_s[0]

    def speed(cpus, gib):
        return float(performance.rates(0, JobResources(on_one, cpus, gib * 1024.0))[0]) / base

    assert speed(12, 125) == pytest.approx(2.94)
    assert speed(3, 62.5) == speed(6, 100) == pytest.approx(1.0)
    assert speed(1, 62.5) == pytest.approx(0.3)
    assert speed(0, 0) == pytest.approx(1.0)  # nobody divides them


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "accepted is"),
        ('{"v100": {"ResNet": {"null": 1}}}', "'ResNet' names no model with GPUs"),
        ('{"v100": {"(\'ResNet\', 1)": {}}}', "KeyError: 'null'"),
    ],
)
def test_files_of_throughputs_that_make_no_sense_are_refused(tmp_path, text, problem):
    path = tmp_path / "throughputs.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="reading throughputs") as error:
        read_throughputs(str(path))
    assert problem in str(error.value)


def test_jobs_that_the_files_do_not_know_are_refused():
    jobs = read(DATA / "gavel_single_100.csv").workload
    with pytest.raises(ConfigError, match="no GPUs of type 'a100'; there are: v100, p100, k80"):
        TypedJobs(jobs, read_throughputs(THROUGHPUTS), ClusterSpec.of_types({"a100": 4}).nodes)
    odd = replace(jobs, gpus=np.full(len(jobs), 3))
    with pytest.raises(ConfigError, match=r"there is no throughput of 'Transformer .* on 3 GPUs"):
        TypedJobs(odd, read_throughputs(THROUGHPUTS), ClusterSpec.of_types({"v100": 4}).nodes)
    with pytest.raises(ConfigError, match="has no profile; there are: alexnet"):
        ProfiledJobs(jobs, read_profiles(PROFILES), two_servers())


def test_profiles_with_other_columns_are_refused(tmp_path):
    path = tmp_path / "profiles.csv"
    path.write_text("model,cpus\nalexnet,1\n")
    with pytest.raises(ConfigError, match="accepted are the columns model, cpus_wanted"):
        read_profiles(str(path))


@pytest.mark.parametrize(("column", "value"), [("iteration_s", "0"), ("speedup", "nan"), ("relative_speed", "-1")])
def test_profiles_of_no_speed_are_refused(column, value, tmp_path):
    names = [
        "model",
        "cpus_wanted",
        "memory_gib_wanted",
        "speedup",
        "iteration_s",
        "cpus",
        "memory_gib",
        "relative_speed",
    ]
    row = dict(zip(names, ["alexnet", "3", "60", "1.2", "0.1", "3", "60", "1"], strict=True)) | {column: value}
    path = tmp_path / "profiles.csv"
    path.write_text(",".join(names) + "\n" + ",".join(row.values()) + "\n")
    with pytest.raises(ConfigError, match="alexnet has numbers that are not above 0"):
        read_profiles(str(path))


@pytest.mark.parametrize(("steps", "weight"), [("0", "1"), ("-4", "1"), ("10", "0"), ("10", "nan")])
def test_jobs_without_work_or_weight_are_refused(steps, weight, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(f"job_id,model,gpus,steps,submit_s,weight\n0,A3C,1,{steps},0,{weight}\n")
    with pytest.raises(TraceError, match=r"jobs.csv:2, column (steps|weight): .* is no number above 0"):
        read(path)


def test_jobs_of_all_files_train_equally_in_other_processes():
    fleet = ClusterSpec.of(4, 4)
    each = {"cpus": np.full(4, 12), "memory_mib": np.full(4, 250 * 1024.0), "gpu_type": Labels.of(["v100"] * 4)}
    fleet = replace(fleet, nodes=replace(fleet.nodes, **each))
    cells = []
    for trace, speeds, line in (
        ("pollux/pollux_small.csv", SpeedFiles(applications=str(DATA / "pollux")), "tiresias"),
        ("gavel_single_100.csv", SpeedFiles(throughputs=THROUGHPUTS), "gavel-las"),
        ("synergy_dynamic_100.csv", SpeedFiles(profiles=PROFILES), "srtf synergy=tune"),
    ):
        setup = Setup.training(line, **speeds.defaults)
        source = Source.of(str(DATA / trace), 16)
        cells += [Cell(Case(source, load=load, span="0:8", speeds=speeds), setup) for load in (1.0, 2.0)]
    here, there = (dict(sweep(cells, fleet, workers, check=True)) for workers in (None, Workers("loky", 2)))
    ends = [here[place].replay.end_s.tolist() for place in range(len(cells))]
    assert ends == [there[place].replay.end_s.tolist() for place in range(len(cells))]
    assert len({tuple(each) for each in ends}) == len(cells)


GAVEL = (str(DATA / "gavel_single_100.csv"), "--set", f"throughputs={THROUGHPUTS}", "--gpus", "v100=2,p100=2,k80=2")
SYNERGY = (str(DATA / "synergy_dynamic_100.csv"), "--set", f"profiles={PROFILES}", "--nodes", "2")


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", *arguments, "--jobs", "0:12", "--check"])


@pytest.mark.parametrize("trace", [GAVEL, SYNERGY])
def test_the_command_compares_what_belongs_to_the_files(trace):
    found = json.loads(run(*trace, "--json").output)
    assert len(found["policies"]) == 3
    assert {row["jobs"] for row in found["policies"]} == {12}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((*SYNERGY, "--policy", "gavel-las"), "scaling 'gavel-las' needs type speeds, which these jobs lack"),
        ((*GAVEL, "--policy", "pollux"), "scaling 'pollux' chooses the batch, which these jobs never change"),
        ((*GAVEL, "--policy", "las synergy=tune"), "needs cpu needs, which these jobs lack"),
        ((*GAVEL, "--set", f"profiles={PROFILES}"), "Say one of throughputs and profiles: jobs train in one way."),
        ((*GAVEL, "--nodes", "3"), "--gpus goes without --nodes and --cluster"),
        ((GAVEL[0], "--gpus", "v100=0"), "'v100=0' names no GPUs: accepted is each type once, as v100=12,k80=4"),
        ((GAVEL[0], "--nodes", "3"), "say applications, throughputs or profiles"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, problem):
    refused = run(*arguments)
    assert refused.exit_code != 0
    assert problem in " ".join(refused.output.split())
