"""The daemon as it is started, against a real Slurm: asked, reloaded, paused and stopped through the command line."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from json_forms import answer_of
from scenarios.forked import PROGRAM, Nursery, as_text

from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until

EVERY_S = 0.5
"""Time between two commands that ask for the same: each takes some of a processor."""


class Shop:
    """A settings file, the environment of a lab, and the command line in it, whose commands a nursery forks."""

    def __init__(self, lab: Lab, directory: Path, nursery: Nursery) -> None:
        self.lab, self.directory, self.nursery = lab, directory, nursery
        self.file = directory / "slurmsched.toml"
        self.write("sjf")

    def write(self, ordering: str) -> None:
        self.file.write_text(
            f"[daemon]\nmode = 'act'\nevery_s = 1\nstate_dir = '{self.directory}'\nrun_dir = '{self.directory}'\n"
            f"[power]\norder = true\n[order]\nscope = 'queue'\n[policy]\nordering = '{ordering}'\n"
            f"[metrics]\nlisten = ''\n[predict]\nevery_s = 2\n"
            "[forecast]\nlearn_online = false\n"  # of what other tests ran on this lab
        )

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "slurmsched", "--config", str(self.file), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return as_text(self.nursery.run(self.argv(*words)[1:], self.lab.env(), self.directory, 300.0))

    def said(self, *words: str) -> dict:
        return answer_of(words, self.run(*words, "--json").stdout)

    def until(self, holds: Callable[[dict], object], what: str, *words: str) -> None:
        """Wait for an answer by which it *holds*; a busy daemon may answer late, and then there is none."""

        def answered() -> object:
            with suppress(KeyError, ValueError):
                return holds(self.said(*words))
            return None

        wait_until(answered, 120.0, what, EVERY_S)


@pytest.fixture(scope="module")
def nursery(lab_of_the_session: Lab) -> Iterator[Nursery]:
    started = Nursery([sys.executable, "-P", str(PROGRAM)], lab_of_the_session.env(), lab_of_the_session.layout.work)
    yield started
    started.close()


@pytest.fixture
def shop(lab: Lab, tmp_path: Path, nursery: Nursery) -> Shop:
    return Shop(lab, tmp_path, nursery)


@pytest.fixture
def daemon(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    log = (shop.directory / "log").open("w")
    process = subprocess.Popen(shop.argv("run"), env=shop.lab.env(), stderr=log, text=True)
    try:
        wait_until(lambda: shop.run("status").returncode == 0, 120.0, "a daemon that is well", EVERY_S)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(90.0)
        log.close()


def site_points(lab: Lab) -> dict[int, int]:
    rows = re.findall(r"(\d+)\s+(-?\d+)", lab.ask(["sprio", "-h", "-o", "%i %S"]))
    return {int(job_id): int(points) for job_id, points in rows}


def fill(lab: Lab) -> list[int]:
    """The whole lab is taken; three jobs wait, the longest in front."""
    filler = lab.submit("--gres=gpu:4", "-N4", "--exclusive", "-t", "30", "--wrap=sleep 1200")
    wait_until(
        lambda: lab.ask(["squeue", "-h", "-t", "R", "-j", str(filler), "-o", "%A"]).strip(), 120.0, "a full lab", 0.2
    )
    return [lab.submit("--gres=gpu:4", "-N4", "--exclusive", "-t", str(limit), "--wrap=true") for limit in (30, 20, 10)]


def test_a_daemon_is_asked_reloaded_paused_and_stopped_through_the_command_line(shop, daemon):
    jobs = fill(shop.lab)

    def ordered() -> bool:
        points = site_points(shop.lab)  # sprio names no job before slurmctld has looked at it
        return points.keys() >= {*jobs} and 0 <= points[jobs[0]] < points[jobs[1]] < points[jobs[2]]

    wait_until(ordered, 120.0, "the shortest job in front", 0.2)

    shop.until(lambda told: told["source"] == "daemon", "the daemon's answer", "status")
    checked = {found["name"]: found for found in shop.said("check")["findings"]}
    assert "leads this cluster" in checked["daemon"]["text"]
    shop.until(lambda told: [row["job_id"] for row in told["queue"]] == jobs[::-1], "our order", "queue")
    assert "stand ahead of it" in shop.run("why", str(jobs[0])).stdout
    assert shop.said("explain", str(jobs[0]))["explain"]["rank"] == 3
    assert "points" in shop.run("story", str(jobs[2])).stdout
    assert shop.run("why", "4000000").returncode == 3

    def foretold() -> bool:
        # Earlier predictions are of a look before these jobs came.
        told = shop.run("eta", *map(str, jobs), "--json")
        return told.returncode == 0 and all(one["finish_by_s"] for one in json.loads(told.stdout)["eta"])

    if importlib.util.find_spec("numba"):
        wait_until(foretold, 400.0, "predictions", EVERY_S)
        first, _, last = (shop.said("eta", str(job))["eta"][0] for job in reversed(jobs))
        assert first["start_s"] < last["start_s"]
        partition = shop.said("queue")["queue"][0]["partition"]
        new = shop.said("eta", "--check", f"-p {partition} -N4 --gres=gpu:4 -t 1")["eta"][0]
        assert new["start_s"] <= first["start_s"], "shorter than those that wait"
    assert shop.run("once").returncode == 1, "the daemon has the lock"
    assert shop.run("once", "--dry-run").returncode == 0

    shop.file.write_text("[daemon]\nevery_s = 'often'\n")
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: "the old settings stay" in (shop.directory / "log").read_text(), 120.0, "a refused reload")
    shop.write("qssf")
    os.kill(daemon.pid, signal.SIGHUP)
    shop.until(lambda told: "qssf" in told["cycle"]["sentence"], "a reload", "status")

    line = "wfq thresholds=60,inf weights=3,1"
    assert shop.run("policy", "set", *line.split(), "--reason", "a try").returncode == 0
    shop.until(lambda told: "wfq" in told["cycle"]["sentence"], "what was set", "status")
    serving = shop.said("policy", "show")
    assert (serving["source"], serving["ordering"], serving["reason"]) == ("daemon", line, "a try")

    assert shop.run("pause").returncode == 0
    shop.until(lambda told: told["mode"] == "observe", "a pause", "status")
    assert shop.run("resume").returncode == 0
    shop.until(lambda told: told["mode"] == "act", "the end of the pause", "status")

    numbers = [shop.said("status")["cycle"]["number"]]
    assert shop.said("replay", str(numbers[0] - 1))["identical"] is True

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(90.0) == 0
    assert set(site_points(shop.lab).values()) == {0}
    assert "no daemon answers" in shop.run("queue").stdout


def test_a_check_on_a_well_kept_cluster_only_warns_of_too_many_rights(shop):
    missing = [found["name"] for found in shop.said("check")["findings"] if found["ok"] is False]
    assert missing in (["least privilege"], [])


def test_history_comes_from_sacct_once(shop):
    job = shop.lab.submit("--gres=gpu:1", "--wrap=true")
    wait_until(
        lambda: "COMPLETED" in shop.lab.ask(["sacct", "-n", "-X", "-o", "state", "-j", str(job)]),
        120.0,
        "an end in sacct",
    )
    assert shop.run("db", "upgrade").returncode == 0
    imported = ("history", "import", "--days", "1")
    new = wait_until(lambda: shop.said(*imported)["new"], 120.0, "a run in the history", EVERY_S)
    # ends of earlier tests' jobs may still be on their way to slurmdbd
    new += sum(iter(lambda: shop.said("history", "import")["new"], 0))
    assert shop.said("history", "stats")["runs"] == new, "no run is there twice"
