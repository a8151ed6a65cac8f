"""``slurmsched simulate`` with the powers that change what jobs ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main

BEAT, SELDOM = ("--set", "beat_s=60"), ("--set", "beat_s=150")
"""Fewer cycles, which are enough here."""
FIFO = ("--executor", "slurm", "--policy", "fifo", "--no-baseline", "--check")
BESIDE = (*FIFO, *BEAT)
FOUR_GPUS = ("--nodes", "1x4")


def simulate(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, ["simulate", *words])
    assert done.exit_code == status, done.output
    return done.output


def mean_jct_s(*words: str) -> float:
    (row,) = answer_of(["simulate"], simulate(*words, "--json"))["policies"]
    return row["jct_s"]["mean"]


@pytest.fixture
def bursts(tmp_path: Path) -> str:
    """Jobs for two GPUs in bursts of three, an hour apart."""
    rows = [f"{at},1500,2,7200" for at in (0, 4000, 8000, 12000) for _ in range(3)]
    path = tmp_path / "bursts.csv"
    path.write_text("\n".join(["submit_s,runtime_s,gpus,time_limit_s", *rows]) + "\n")
    return str(path)


@pytest.fixture
def greedy(tmp_path: Path) -> tuple[str, ...]:
    """Jobs for one GPU and most CPUs of a node, and that node, full at first."""
    rows = ["0,100,4,8,16000,200"] + ["1,600,1,6,12000,1200"] * 8
    trace, cluster = tmp_path / "greedy.csv", tmp_path / "cluster.toml"
    trace.write_text("\n".join(["submit_s,runtime_s,gpus,cpus,memory_mib,time_limit_s", *rows]) + "\n")
    cluster.write_text("[[nodes]]\ngpus = 4\ncpus = 8\nmemory_gib = 15.625\n")
    return str(trace), "--cluster", str(cluster)


def test_elastic_jobs_end_sooner_on_other_numbers_of_gpus(bursts):
    words = (bursts, *FOUR_GPUS, *FIFO, *SELDOM)
    whole, plain = (
        mean_jct_s(*words, "--set", "elastic=all", "--set", "resize=true"),
        mean_jct_s(*words, "--set", "elastic=all"),
    )
    assert whole < 0.95 * plain
    assert plain == mean_jct_s(*words) == mean_jct_s(*words, "--set", "elastic=none", "--set", "resize=true")
    some = [
        mean_jct_s(*words, "--set", "elastic=0.5", "--set", "resize=true", "--seed", seed) for seed in ("1", "1", "2")
    ]
    assert some[0] == some[1] != plain


def test_a_division_can_be_chosen_by_an_option_and_in_the_settings_of_a_site(bursts, tmp_path):
    words = (bursts, *FOUR_GPUS, "--executor", "slurm", "--no-baseline", "--check", "--set", "elastic=all")
    fifo = ("--policy", "fifo", *SELDOM)
    plain = mean_jct_s(*words, *fifo)
    assert mean_jct_s(*words, *fifo, "--set", "resize=true", "--set", "division=pollux") < 0.95 * plain
    site = tmp_path / "site.toml"
    power = "[power]\norder = true\nhold = true\nrequeue = true\nresize = true\n"
    site.write_text(f"[daemon]\nevery_s = 150\n[policy]\nordering = 'fifo'\n{power}[resize]\ndivision = 'sia'\n")
    assert mean_jct_s(*words, "--config", str(site)) < 0.95 * plain
    assert "division does not go with" in simulate(*words, "--config", str(site), "--set", "division=sia", status=2)


def test_a_division_needs_jobs_whose_numbers_change_and_one_that_there_is(bursts):
    words = (bursts, *FOUR_GPUS, *FIFO, *SELDOM)
    assert "division goes with resize" in simulate(*words, "--set", "division=sia", status=2)
    simulate(*words, "--set", "resize_nodes=true", "--set", "division=sia")
    assert "there are: optimus, pollux, sia" in simulate(
        *words, "--set", "resize=true", "--set", "division=drf", status=2
    )


def test_a_trace_can_say_on_how_many_gpus_each_job_runs(bursts):
    lines = Path(bursts).read_text().splitlines()
    ranges = [f"{lines[0]},least_gpus,most_gpus,ckpt", *(f"{line},1,4,1" for line in lines[1:])]
    Path(bursts).write_text("\n".join(ranges) + "\n")
    words = (bursts, *FOUR_GPUS, *FIFO, *SELDOM)
    assert mean_jct_s(*words, "--set", "resize=true") < 0.95 * mean_jct_s(*words)


@pytest.mark.parametrize(("gpus", "nodes", "faster"), [(8, 0, True), (8, 2, True), (9, 0, True), (7, 2, False)])
def test_a_job_that_needs_several_nodes_keeps_its_number_unless_nodes_are_changed_too(tmp_path, gpus, nodes, faster):
    path, config = tmp_path / "wide.csv", tmp_path / "site.toml"
    path.write_text(f"submit_s,runtime_s,gpus,nodes,time_limit_s\n0,9000,{gpus},{nodes},20000\n")
    config.write_text("[power]\nresize = true\nrequeue = true\n[resize]\nnodes = true\n[policy]\nordering = 'fifo'\n")
    words = (str(path), "--nodes", "4x4", "--executor", "slurm", "--set", "elastic=all")
    words += ("--no-baseline", "--check")
    plain_s, fifo = mean_jct_s(*words, "--policy", "fifo"), ("--policy", "fifo")
    assert mean_jct_s(*words, *fifo, "--set", "resize=true") == plain_s
    assert (mean_jct_s(*words, *fifo, "--set", "resize_nodes=true") < 0.9 * plain_s) == faster
    assert (mean_jct_s(*words, "--config", str(config), "--forecast", "exact") < 0.9 * plain_s) == faster


def test_lean_jobs_let_others_onto_their_node(greedy):
    assert mean_jct_s(*greedy, *BESIDE, "--set", "lean=all", "--set", "rightsize=true") < 0.5 * mean_jct_s(
        *greedy, *BESIDE
    )
    assert mean_jct_s(*greedy, *BESIDE, "--set", "rightsize=true") == mean_jct_s(*greedy, *BESIDE), "without lean jobs"


@pytest.fixture
def loaded(tmp_path: Path) -> tuple[str, ...]:
    """A job for a GPU, and two nodes: on the first one others ask for four times its CPUs."""
    trace, cluster = tmp_path / "one.csv", tmp_path / "loaded.toml"
    trace.write_text("submit_s,runtime_s,gpus,cpus,time_limit_s\n0,3000,1,1,99000\n")
    node = "[[nodes]]\ngpus = 1\ncpus = 8\nmemory_gib = 16\n"
    cluster.write_text(f"{node}load = 32\n{node}")
    return str(trace), "--cluster", str(cluster)


def test_a_job_that_saves_its_work_leaves_a_node_with_a_load(loaded):
    stays_s = mean_jct_s(*loaded, *BESIDE)
    assert stays_s == mean_jct_s(*loaded, *BESIDE, "--set", "migrate=true"), "it does not save its work"
    assert abs(stays_s - 4 * 3000) < 10.0
    assert mean_jct_s(*loaded, *BESIDE, "--set", "migrate=true", "--ckpt", "all") < 0.3 * stays_s
    direct = ("--policy", "fifo", "--no-baseline", "--check")
    assert abs(mean_jct_s(*loaded, *direct) - 4 * 3000) < 10.0
    assert "migrate goes with executor tasks or slurm" in simulate(*loaded, *direct, "--set", "migrate=true", status=2)


@pytest.mark.parametrize("power", ["steer", "resize", "rightsize"])
@pytest.mark.parametrize("executor", ["direct", "tasks"])
def test_the_powers_need_a_slurmctld(bursts, power, executor):
    text = simulate(bursts, *FOUR_GPUS, "--executor", executor, "--policy", "fifo", "--set", f"{power}=true", status=2)
    assert f"{power} goes with executor slurm" in text


def test_the_settings_of_a_site_say_which_powers_are_on_and_a_note_what_limits_of_its_slurm_change(greedy, tmp_path):
    site = tmp_path / "site.toml"
    site.write_text("[policy]\nordering = 'fifo'\n[power]\norder = true\nrightsize = true\n")
    words = (*greedy, "--config", str(site), "--no-baseline")
    assert "rightsize does not go with --config" in simulate(*words, "--set", "rightsize=true", status=2)
    note = "site: jobs are sized; on a Slurm whose AccountingStorageEnforce has limits the daemon sizes none"
    assert note in simulate(*words)
    assert mean_jct_s(*words, "--set", "lean=all") < 0.5 * mean_jct_s(*words)
    site.write_text(site.read_text() + "[rightsize]\ndespite_limits = true\n")
    assert note not in simulate(*words)
