from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmsched.cli import main

TRACE = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
1,4,0,10,resnet50,100,0
2,4,10,10,resnet50,50,10
3,4,20,10,resnet50,10,10
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "three.csv"
    path.write_text(TRACE)
    return str(path)


def simulate(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, ["simulate", *words])
    assert done.exit_code == status, done.output
    return done.output


def test_policies_are_compared_row_by_row(trace):
    text = simulate(trace, "--nodes", "1", "--gpus-per-node", "4", "--policy", "fifo", "--policy", "sjf", "--check")
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith(("fifo", "sjf"))]
    assert rows == [["fifo", "strict"], ["sjf", "backfill"]]


def test_json_has_every_figure(trace):
    told = json.loads(simulate(trace, "--nodes", "1", "--gpus-per-node", "4", "--policy", "sjf", "--json"))
    assert told["schema"] == "slurmsched/1"
    assert told["trace"]["jobs"] == 3
    (row,) = told["policies"]
    assert row["policy"] == "sjf"
    assert row["jct_s"]["mean"] == pytest.approx((100 + 150 + 90) / 3)
    assert row["queue_s"]["mean"] == pytest.approx((0 + 100 + 80) / 3)
    assert row["makespan_s"] == 160


def test_csv_is_one_line_per_policy(trace):
    text = simulate(trace, "--nodes", "1", "--gpus-per-node", "4", "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["policy"] for row in rows] == ["fifo", "sjf", "qssf", "srtf"]
    assert float(rows[3]["jct_s.mean"]) == pytest.approx((160 + 60 + 10) / 3)


def test_jobs_can_be_chosen_and_the_load_scaled(trace):
    options = ("--nodes", "1", "--gpus-per-node", "4", "--policy", "fifo", "--json")
    assert json.loads(simulate(trace, "--jobs", "1:", *options))["trace"]["jobs"] == 2
    scaled = json.loads(simulate(trace, "--scale-load", "10", *options))
    assert scaled["policies"][0]["makespan_s"] == 160
    assert any("divided by 10" in note for note in scaled["trace"]["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "best"), "there are: fifo"),
        (("--selection", "best"), "strict, backfill, easy, conservative, preemptive"),
        (("--placement", "best"), "pool, first-free, consolidate"),
        (("--forecast", "limit"), "no time limit to forecast by"),
        (("--jobs", "7"), "accepted are a:b"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_accepted(trace, words, said):
    assert said in simulate(trace, "--nodes", "1", "--gpus-per-node", "4", *words, status=1)


def test_a_job_that_is_too_large_is_named(trace):
    assert "job 1 asks for 4 GPUs and the cluster has 2" in simulate(
        trace, "--nodes", "1", "--gpus-per-node", "2", status=1
    )
