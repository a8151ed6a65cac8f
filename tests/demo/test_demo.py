"""The whole demonstration, small, on real Slurms."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from one_at_a_time import one_at_a_time

from slurmsched.demo.lab_burst import GPUS, NODES
from slurmsched.errors import LabError
from slurmsched.lab import LabSpec, programs, wait_until

PROGRAM = [sys.executable, "-m", "slurmsched", "demo", "--quick", "--json"]
pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def _possible():
    """One at a time on this machine, since what a demo leaves is looked for in all of it."""
    try:
        programs.check(LabSpec(nodes=NODES, gpus=GPUS))
    except LabError as error:
        pytest.skip(str(error))
    with one_at_a_time("demo"):
        yield


def labs() -> set[Path]:
    return set(Path("/var/tmp").glob("slurmsched-demo-*"))


def test_the_demo_prints_both_runs_and_their_ratio_and_leaves_nothing():
    before = labs()
    done = subprocess.run(PROGRAM, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "slurmsched/1"
    assert "semi-synthetic" in told["data"]
    assert told["history_runs"] == told["jobs"]
    figures = {"avg_jct_s", "median_jct_s", "p90_jct_s", "makespan_s"}
    assert all(set(told[part]) == figures for part in ("stock", "slurmsched", "ratio"))
    assert told["ratio"]["avg_jct_s"] > 0
    assert told["why"].startswith("Reason: ")
    assert f"Job {told['asked_about_job']}" in told["explain"]
    assert re.search(r"forecast|has run for .* of about", told["explain"]), "its forecast, whether it waits or runs"
    assert labs() <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_takes_its_lab_down(number):
    before = labs()
    with subprocess.Popen(
        PROGRAM, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as demo:
        mine = wait_until(lambda: [each for each in labs() - before if (each / "lab.json").exists()], 120.0, "a lab")
        os.kill(demo.pid, number)
        assert demo.wait(120) != 0
    assert not [each for each in mine if each.exists()]
