"""Answers of Slurm that are none: a queue read in part is no look, and a job that Slurm lost has no promise met."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_site import Site

from slurmsched.lab import Lab, LabSpec, programs

pytestmark = pytest.mark.attack

ROOM_B = 100_000_000
"""Memory of a daemon beyond what it had after a cycle: enough for further cycles, and not for the flood."""

PROGRAMS = ("squeue", "sinfo", "sprio", "scontrol", "sdiag", "sacct", "sacctmgr", "scancel")
MOODY = """#!/bin/sh
case $(cat {mood}) in
    whole) exec {real} "$@" ;;
    empty) exit 0 ;;
    garbage) echo "slurm_load_jobs: hello" ;;
    flood) yes slurm_load_jobs | head -c 200000000 ;;
    header) {real} "$@" | head -n 1 ;;
    one) {real} "$@" | head -n 2 ;;
    half) {real} "$@" | head -c -40 ;;
    slow) sleep 40; exec {real} "$@" ;;
esac
"""


@contextmanager
def moody(site: Site, command: str) -> Iterator[Path]:
    """Slurm's commands for the *site*, of which *command* answers as the file says that is given."""
    directory, mood = site.directory / "bin", site.directory / "mood"
    directory.mkdir()
    for name in PROGRAMS:
        real = shutil.which(name, path=programs.search_path())
        assert real is not None
        if name == command:
            (directory / name).write_text(MOODY.format(mood=mood, real=real))
            (directory / name).chmod(0o755)
        else:
            (directory / name).symlink_to(real)
    mood.write_text("whole")
    site.write(slurm=f"timeout_s = 30\nbackend = 'command'\nbin_dir = '{directory}'")
    yield mood


def ends(site: Site, jobs: list[int]) -> list[str]:
    return [
        event["kind"] for job in jobs for event in site.said("story", str(job))["story"] if event["kind"] == "ended"
    ]


@pytest.mark.parametrize(
    ("command", "mood"),
    [
        ("squeue", "one"),
        ("sinfo", "half"),
        *(
            pytest.param("squeue", mood, marks=pytest.mark.soak)
            for mood in ("empty", "garbage", "header", "half", "slow")
        ),
        *(pytest.param("sprio", mood, marks=pytest.mark.soak) for mood in ("garbage", "empty")),
    ],
)
def test_an_answer_that_is_none_is_a_lost_cycle_and_ends_no_job(site, command, mood):
    with moody(site, command) as file:
        blocker = site.fill()
        jobs = [blocker, *site.queue(3)]
        with site.daemon():
            site.until(lambda: site.ordered(jobs[1:]), "an order")
            file.write_text(mood)
            site.until(lambda: "a cycle was lost" in site.log, "a lost cycle")
            site.until(lambda: "503" in site.http("/healthz"), "bad health")
            assert site.said("status")["mode"] == "act"
            file.write_text("whole")
            site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
            site.more_cycles()
            assert ends(site, jobs) == []
            assert site.said("status")["cycle"]["pending"] == 3
            site.lab.run(["scancel", str(jobs[1])])
            site.until(lambda: ends(site, jobs) == ["ended"], "one real end")
        assert "BUG" not in site.log
        assert "Traceback" not in site.log


@pytest.mark.soak
def test_an_answer_that_does_not_fit_into_memory_costs_cycles_and_silences_nobody(site):
    with moody(site, "squeue") as file:
        with site.daemon() as process:
            site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
            status = Path(f"/proc/{process.pid}/status").read_text()
            most_b = int(re.search(r"VmData:\s+(\d+) kB", status)[1]) * 1024 + ROOM_B
            limit = f"import resource; resource.prlimit({process.pid}, resource.RLIMIT_DATA, ({most_b}, {most_b}))"
            subprocess.run(
                site.python("-c", limit), check=True, timeout=60.0
            )  # root may lack the right, in a container
            file.write_text("flood")
            site.until(lambda: "does not fit into memory" in site.said("status")["problem"], "a status that tells")
            site.until(lambda: "503" in site.http("/healthz"), "bad health")
            assert process.poll() is None
            file.write_text("whole")
            site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        assert "Traceback" not in site.log


@pytest.fixture
def private(lab_directory: Path) -> Iterator[Site]:
    """A site on a lab of its own, where users see only their own jobs."""
    with Lab(lab_directory, LabSpec(extra_conf=("PrivateData=jobs",))) as lab:
        site = Site.of(lab)
        yield site
        shutil.rmtree(site.directory)


def test_a_daemon_that_may_no_longer_see_the_jobs_of_others_takes_none_for_over(private):
    site, lab = private, private.lab
    right = ["sacctmgr", "-i", "modify", "user", lab.user("operator"), "set"]
    jobs = [site.fill(), *site.queue(3)]
    with site.daemon():
        site.until(lambda: site.ordered(jobs[1:]), "an order")
        lab.ask([*right, "adminlevel=None"])
        site.until(lambda: "a cycle was lost" in site.log or ends(site, jobs), "a look that shows no job of others")
        site.until(lambda: "503" in site.http("/healthz"), "bad health")
        assert "adminlevel=Operator" in site.http("/healthz")
        assert "may not see the jobs of other users" in site.said("status")["problem"]
        lab.ask([*right, "adminlevel=Operator"])
        site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        site.more_cycles()
        assert ends(site, jobs) == []
        assert site.said("status")["cycle"]["pending"] == 3
        lab.run(["scancel", str(jobs[1])])
        site.until(lambda: ends(site, jobs) == ["ended"], "one real end")
    assert "Traceback" not in site.log


@pytest.fixture
def rolled_back(lab_directory: Path) -> Iterator[Site]:
    """A site on a lab of its own, with deadlines."""
    with Lab(lab_directory, LabSpec()) as lab:
        site = Site.of(
            lab, deadline="enabled = true\nlead_s = 3\nreserve = 0\nuser_share = 1", power="order = true\nhold = true"
        )
        yield site
        shutil.rmtree(site.directory)


def test_promises_to_jobs_that_slurmctld_forgot_are_lost(rolled_back):
    site, lab = rolled_back, rolled_back.lab
    site.fill()
    lab.stop_controller()
    older = lab.layout.state.with_name("older")
    shutil.copytree(lab.layout.state, older, copy_function=shutil.copy2)
    lab.start_controller()
    # A job that asks before the nodes are there again is refused for good.
    site.until(
        lambda: set(lab.ask(["sinfo", "-h", "-N", "-o", "%T"]).split()) <= {"idle", "mixed", "allocated"}, "nodes"
    )
    wishes = ["--gres=gpu:4", "-t1", "--wrap=true", "-o/dev/null", "--comment=slurmsched:deadline=+10h"]
    jobs = [lab.submit(*wishes, user="alice") for _ in range(4)]

    def answers() -> list[str]:
        return [str(site.said("deadline", str(job)).get("deadline", {}).get("answer")) for job in jobs]

    with site.daemon():
        site.until(lambda: answers() == ["promised"] * 4, "four promises")
        lab.stop_controller()
        shutil.rmtree(lab.layout.state)
        older.rename(lab.layout.state)
        lab.start_controller()
        site.until(lambda: answers() == ["lost"] * 4, "promises that are lost")
        site.until(lambda: 'slurmsched_promises{state="lost"} 4.0' in site.http("/metrics"), "a metric that tells")
        assert "4 lost" in site.run("status").stdout
        assert "no run of it is known to have ended in time" in site.run("deadline", str(jobs[0])).stdout
    assert "Traceback" not in site.log
