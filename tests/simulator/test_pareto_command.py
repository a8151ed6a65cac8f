"""``slurmsched pareto`` as people call it, and its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli.test_gain_in_force import site_with
from click.testing import CliRunner, Result
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.cli.app import App

pytest.importorskip("pymoo")

SMALL = (
    "--trace",
    "synthetic:200",
    "--gpus",
    "32",
    "--jobs",
    "20",
    "--samples",
    "1",
    "--evaluations",
    "20",
    "--population",
    "20",
)


def called(*words: str, app: App | None = None) -> Result:
    return CliRunner().invoke(main, ("pareto", *words), obj=app or App(None), catch_exceptions=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[dict, str]:
    """What it prints as JSON, and the page."""
    path = tmp_path_factory.mktemp("pareto") / "front.html"
    result = called(*SMALL, "--json", "--html", str(path))
    assert result.exit_code == 0, result.output
    return answer_of(["pareto"], result.output), path.read_text()


def test_json_holds_each_point_with_its_setting(made):
    facts, _ = made
    assert facts["simulations"] == 20
    assert [point["name"] for point in facts["extremes"]] == ["FIFO", "shortest first", "fair share"]
    for point in facts["points"]:
        assert set(point["held_out"]) == set(point["searched"]) == {"jct:avg", "error:avg"}
        assert point["setting"].startswith("slurmsched policy set wfq thresholds=")


def test_the_page_needs_nothing_from_anywhere_and_names_every_point(made):
    facts, page = made
    assert not re.search(r"<script|src=|<link|url\(", page)
    assert "default-src 'none'; style-src 'sha256-" in page
    every = len(facts["points"]) + len(facts["extremes"])
    assert re.findall(r'<section class="setting" id="point-(\d+)">', page) == list(map(str, range(1, every + 1)))
    for point in facts["points"]:
        assert f'<pre tabindex="0">{point["setting"]}</pre>' in page


def test_each_point_of_each_chart_leads_to_its_setting(made):
    facts, page = made
    charts = page.split("<svg")[1:]
    assert len(charts) == 2, "one pair of objectives, on the samples held out and on those searched by"
    for chart in charts:
        drawn = chart.split("</svg>")[0]
        places = re.findall(r'<a href="#point-\d+"><circle class="\w+" cx="([\d.]+)" cy="([\d.]+)"', drawn)
        assert len(set(places)) == len(places) >= 1
        named = ", ".join(re.findall(r"<title>([^<]*?): ", drawn))
        assert {*map(str, range(1, len(facts["points"]) + 1))} <= set(named.split(", "))


def test_people_get_a_table_and_the_settings():
    result = called(*SMALL, "--objective", "jct:p90", "--objective", "unfairness:avg", "--delta", "0.2")
    assert result.exit_code == 0, result.output
    assert "JCT:P90 HELD OUT" in result.output
    assert "delta=0.2" in result.output
    assert "fair share" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "8"), "Say --trace TRACE or --from-db SPAN"),
        ((*SMALL, "--from-db", "30d"), "one of them"),
        ((*SMALL, "--scheduler", "tcp://here:1"), "no option any more: say --workers tcp://host:8786"),
        (("--trace", "synthetic:50"), "Say --gpus, the GPUs of the cluster."),
        ((*SMALL, "--nodes", "4"), "--nodes goes with --executor slurm."),
        ((*SMALL, "--executor", "slurm", "--nodes", "4"), "--gpus goes with --executor elastic."),
        (("--trace", "synthetic:50", "--executor", "slurm"), "Say --nodes N or --cluster FILE"),
    ],
)
def test_wrong_usage_is_told(words, said):
    result = called(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_an_objective_that_is_none_is_an_error_that_names_what_there_is():
    result = called(*SMALL, "--objective", "speed:avg", "--objective", "jct:avg")
    assert result.exit_code == 1
    assert "accepted are jct, error, unfairness" in result.output


def test_a_page_that_cannot_be_written_is_told(tmp_path):
    result = called(*SMALL, "--html", str(Path(tmp_path, "nowhere", "front.html")))
    assert result.exit_code == 1
    assert "writing the page" in result.output


def test_beside_slurm_rigid_jobs_are_ordered_and_each_setting_caps_nothing():
    words = ("--trace", "synthetic:90:1.6", "--nodes", "2", "--executor", "slurm", "--jobs", "10", "--samples", "1")
    result = called(*words, "--evaluations", "4", "--population", "4", "--json")
    assert result.exit_code == 0, result.output
    facts = answer_of(["pareto"], result.output)
    assert [point["name"] for point in facts["extremes"]] == ["FIFO", "shortest first"]
    for point in facts["points"]:
        assert point["zeta"] == 0
        assert point["setting"].startswith("slurmsched policy set wfq thresholds=")
        assert point["searched"]["jct:avg"] > 0


def test_jobs_too_large_for_the_nodes_are_left_out_and_counted(tmp_path):
    trace = tmp_path / "jobs.csv"
    rows = (f"{60 * number},{300 + number},{4 if number % 8 == 0 else 1}" for number in range(40))
    trace.write_text("\n".join(["submit_s,runtime_s,gpus", *rows]))
    words = ("--trace", str(trace), "--nodes", "1x2", "--executor", "slurm", "--jobs", "10", "--samples", "1")
    result = called(*words, "--evaluations", "4", "--population", "4")
    assert result.exit_code == 0, result.output
    assert "jobs.csv, without 5 jobs that could never run there: 35 jobs" in result.output


@pytest.mark.parametrize("executor", [("--gpus", "16"), ("--executor", "slurm")])
def test_the_history_of_a_site_is_searched_on_its_own_nodes(executor, tmp_path):
    words = ("--from-db", "30d", "--jobs", "10", "--samples", "1", "--evaluations", "4", "--population", "4")
    result = called(*words, *executor, app=site_with(tmp_path, "queue"))
    assert result.exit_code == 0, result.output
    assert re.match(r"history of fake: 1,000 jobs; windows of 10 jobs as they arrived on \d+ GPUs", result.output)


def test_without_a_history_what_to_do_is_told(tmp_path):
    result = called("--from-db", "1h", "--gpus", "16", app=site_with(tmp_path, "queue"))
    assert result.exit_code == 1
    assert "no run ended in that time; try: slurmsched history import" in result.output
