"""The demonstration on a model of Slurm: what it takes, what it says of itself, and when it steps in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_forms import answer_of

from slurmsched.config import load
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.demo.lab_burst import GPUS, NODES, spec_of
from slurmsched.demo.modelled import blockers, configuration, lab_model
from slurmsched.demo.operator_program import ORDERING, policy, settings
from slurmsched.demo.workload import bursts
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf

PROGRAM = [sys.executable, "-m", "slurmsched", "demo"]
NOBODY = 65534


def run(*options: str, home: Path, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The demo with *home* as the only place of its own."""
    own = {"HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"]}
    argv = [*prefix, *PROGRAM, *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=own, cwd=home, check=False)


@cache
def unprivileged() -> list[str]:
    """What makes a command run as nobody; skips where nobody could not even read the program."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv to become an ordinary user with")
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = [*as_nobody, sys.executable, "-c", "import slurmsched.demo.workload"]
    if subprocess.run(reads, capture_output=True, cwd="/", check=False).returncode:
        pytest.skip("the program lies where ordinary users cannot read it")
    return as_nobody


@pytest.fixture(scope="module")
def home():
    """An empty directory that every user may write to, and which the demo leaves empty."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


@pytest.fixture(scope="module")
def shown(home):
    """What people are shown."""
    return run("--simulated", home=home).stdout


@pytest.fixture(scope="module")
def told(home) -> dict[str, Any]:
    """What programs are told, by another run."""
    done = run("--simulated", "--json", home=home)
    assert done.returncode == 0, done.stderr
    return answer_of(["demo"], done.stdout)


def test_the_page_shows_the_figures_that_it_prints(shown):
    page = (Path(__file__).parents[2] / "docs/demo.md").read_text().partition("## Simulated")[2].partition("\n## ")[0]
    written = re.findall(r"^\| (.+?) \| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) \|$", page, re.MULTILINE)
    printed = re.findall(r"^(\S+(?: \S+)?) +([\d.]+) s +([\d.]+) s +([\d.]+)$", shown, re.MULTILINE)
    assert [row[0] for row in written] == ["average JCT", "median JCT", "p90 JCT", "makespan"]
    assert written == printed


def test_it_prints_both_runs_says_that_it_is_simulated_and_leaves_nothing(told, home):
    assert told["simulated"] is True
    assert told["history_runs"] == told["jobs"] == len(bursts()[1])
    assert told["ratio"]["avg_jct_s"] > 1.3, "the real one gave 1.6"
    assert told["why"].startswith("Reason: ")
    assert "forecast" in told["explain"]
    assert list(home.iterdir()) == []


def test_it_says_so_to_people_too_and_twice_the_same(shown, told):
    assert shown.startswith("SIMULATED: no Slurm ran.")
    figures = re.findall(r"^(?:\S+(?: \S+)?) +([\d.]+) s +([\d.]+) s +([\d.]+)$", shown, re.MULTILINE)
    of_both = zip(told["stock"].values(), told["slurmsched"].values(), told["ratio"].values(), strict=True)
    assert figures == [(f"{stock:.1f}", f"{ours:.1f}", f"{ratio:.2f}") for stock, ours, ratio in of_both]
    for word in ("why", "explain"):
        assert f"\n$ slurmsched {word} {told['asked_about_job']}\n{told[word]}\n" in shown


def test_a_user_who_can_have_no_slurm_is_told_why_and_shown_the_simulated_one(home):
    done = run("--quick", "--json", "--or-simulated", home=home, prefix=unprivileged())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["simulated"] is True
    said = [line for line in done.stderr.splitlines() if "No private Slurm can be had here" in line]
    assert len(said) == 1
    assert "needs root" in said[0]


def test_without_being_asked_to_it_simulates_nothing(home):
    done = run("--quick", "--json", home=home, prefix=unprivileged())
    assert done.returncode != 0
    assert done.stdout == ""


def test_the_modelled_lab_is_configured_as_the_real_one():
    conf = SlurmConf.of(configuration(spec_of(GPUS)))
    assert (conf.rules.bf_interval_s, conf.rules.bf_resolution_s, conf.rules.batch_sched_delay_s) == (2, 1, 0)
    assert (conf.weights.age, conf.weights.qos, conf.weights.fair_share) == (1000, 1000, 0)
    assert conf.weights.max_age_s == 86400


def test_what_steers_it_decides_as_the_demo_daemon_does(tmp_path):
    file = tmp_path / "slurmsched.toml"
    file.write_text(settings(tmp_path, tmp_path / "slurm.conf", ORDERING))
    assert policy(ORDERING).to_json() == policy_of(load(file, {}).settings).to_json()


def test_blockers_keep_every_gpu_of_the_modelled_lab():
    jobs = blockers(NODES, GPUS)
    cluster = lab_model(jobs, np.zeros(len(jobs)), GPUS, 0.0, 0.0)
    assert len(jobs) == NODES
    assert sum(job.gpus for job in jobs) == cluster.fleet.total == NODES * GPUS
