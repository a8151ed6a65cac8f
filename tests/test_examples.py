"""What lies in examples/ works as its page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import slurmsched.job
from slurmsched.cli import main
from slurmsched.lab import wait_until
from slurmsched.lab.users import nobody_gid, uid_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "examples/README.md").read_text()
SITE = "[policy]\nordering = 'fewest'\n"
"""Settings of a daemon that name the plug-in."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Path:
    """A copy of the directory, since pip builds in it."""
    copy = tmp_path_factory.mktemp("copy") / "examples"
    shutil.copytree(ROOT / "examples", copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    return copy


@pytest.fixture(scope="module")
def plugins(examples, tmp_path_factory) -> Path:
    """The plug-in as pip installs it, where Python finds it, without a network."""
    target = tmp_path_factory.mktemp("plugins")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    done = python("-m", "pip", "install", *options, "./fewest", "./siesta", cwd=examples)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def python(*words: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    places = [str(place) for place in (path, ROOT) if place is not None]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "SLURMSCHED_CONFIG": ""}
    argv = [sys.executable, "-P", *words]
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)


def command(name: str) -> list[str]:
    """The words of the only command of the page that says *name*."""
    (line,) = re.findall(rf"^    slurmsched (.*{re.escape(name)}.*)$", PAGE, re.MULTILINE)
    return str(line).split()


@pytest.fixture(scope="module")
def called(examples, plugins) -> list[list[Any]]:
    """Exit statuses and outputs of two commands where the plug-in is installed, in one process that reads it once."""
    (examples / "site.toml").write_text(SITE)
    words = [[*command("--policy fewest"), "--check", "--json"], ["--config", "site.toml", "config", "check"]]
    program = (
        "import json, sys; from click.testing import CliRunner; from slurmsched.cli import main\n"
        "done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]\n"
        "print(json.dumps([[one.exit_code, one.stdout] for one in done]))\n"
    )
    done = python("-c", program, json.dumps(words), cwd=examples, path=plugins)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_policy(text: str) -> dict[str, Any]:
    """What a command of the page prints of each policy."""
    return {row["policy"]: row for row in json.loads(text)["policies"]}


def test_the_trace_runs_on_the_cluster_under_the_policy(examples):
    with chdir(examples):
        done = CliRunner().invoke(main, [*command("policy.toml"), "--check", "--json"])
    assert done.exit_code == 0, done.output
    rows = by_policy(done.stdout)
    assert set(rows) == {"slurm", "fifo", "least-first"}
    assert rows["least-first"]["jct_s"]["mean"] < rows["fifo"]["jct_s"]["mean"]
    assert rows["least-first"]["preemptions"] > 0


def test_the_plug_in_is_an_ordering_of_the_command_once_it_is_installed(examples, called):
    words = command("--policy fewest")
    with chdir(examples):
        absent = CliRunner().invoke(main, words)
    assert absent.exit_code != 0
    assert "'fewest' is not known" in absent.stderr
    status, output = called[0]
    assert status == 0, output
    assert set(by_policy(output)) == {"slurm", "fewest"}


def test_the_settings_of_a_daemon_may_name_it_then(called, tmp_path):
    (tmp_path / "site.toml").write_text(SITE)
    check = ["--config", str(tmp_path / "site.toml"), "config", "check"]
    assert CliRunner().invoke(main, check).exit_code != 0
    status, output = called[1]
    assert status == 0, output


def test_its_own_tests_pass_where_it_is_installed(examples, plugins):
    files = ["fewest/test_fewest.py", "siesta/test_siesta.py"]
    own = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, *files]
    done = python(*own, cwd=examples, path=plugins)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_the_page_of_policies_shows_the_same_module_and_entry_point():
    page = (ROOT / "docs/policies.md").read_text()
    assert page.partition("```python\n")[2].partition("```")[0] == (ROOT / "examples/fewest/fewest.py").read_text()
    assert page.partition("```toml\n")[2].partition("```")[0] in (ROOT / "examples/fewest/pyproject.toml").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="a lab with users of its own needs root")
def test_the_job_saves_its_work_when_it_is_asked_to_stop_and_goes_on_from_there(lab):
    home = lab.layout.work / "example"
    home.mkdir()
    for file in (ROOT / "examples/train.py", ROOT / "examples/train.sbatch", slurmsched.job.__file__):
        shutil.copy(file, home)
    shutil.chown(home, uid_of(lab.user("alice")), nobody_gid())
    log = home / "train.log"
    where = (f"--chdir={home}", "--export=ALL,STEPS=60,STEP_S=0.1")
    job = lab.submit(*where, user="alice", script=(home / "train.sbatch").read_text())
    wait_until(lambda: log.exists() and "step 3\n" in log.read_text(), 120.0, "the first steps")
    lab.ask(["scancel", "--batch", "--signal=URG", str(job)], user="alice")
    wait_until(lambda: state(lab, job) == "PENDING", 120.0, "the job in the queue again")
    lab.ask(["scontrol", "update", f"jobid={job}", "starttime=now+5"])  # Slurm waits two minutes, and needs seconds
    wait_until(lambda: state(lab, job) == "COMPLETED", 180.0, "the end of the job")
    lines = log.read_text().splitlines()
    assert [int(line[5:]) for line in lines if line.startswith("step ")] == list(range(60)), "each step once"
    assert lines[-1] == "done"
    assert (home / "checkpoints").is_dir()
    shutil.rmtree(home)


def state(lab, job: int) -> str:
    return lab.ask(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"]).strip()
