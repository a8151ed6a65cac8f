"""Migration on a real Slurm: who leaves an overloaded node, who stays, and what a kill leaves."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadline_jobs import STEP_S, done_steps
from lab_site import Site
from node_programs import node_settings

import slurmsched.job
from slurmsched.cluster.actions import AskToStop
from slurmsched.lab import Lab
from slurmsched.lab.users import nobody_gid, uid_of

PROCESSES = 40
#: Each waits, without using a CPU, until its child has opened a pipe that nobody writes to: Linux counts it as load.
LOAD = """
import os, sys
for _ in range(int(sys.argv[2])):
    if not os.fork():
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
        os._exit(0)
os.wait()
"""
STEPS = 2_000
CALM_REPORTS = 20
BY_REPORTS = 10
"""One in so many jobs is asked by a daemon, which takes a minute of reports; the others as a daemon would ask them."""
#: A job that is slow once it is told, until it runs anew: what its owner would see on an overloaded node.
SLOWED = """
import os, sys, time
sys.path.insert(0, {folder!r})
import job
job.REPORT_S = job.UNREACHED_S = 1.0
lease = job.Lease("saved")
for step in range(lease.resume_at(), {steps}):
    slow = os.path.exists("slow") and not os.environ.get("SLURM_RESTART_COUNT")
    time.sleep({step_s} if slow else {step_s} / 5)
    print(step, file=open("steps", "a"))
    job.report(step)
    if lease.should_stop(step):
        lease.checkpoint_done(step + 1)
        if lease.give_way():
            break
"""


@pytest.fixture
def load(uneven_lab: Lab) -> Iterator[None]:
    """A load of the machine that is too much for n1, and little for n2."""
    pipe = uneven_lab.layout.work / f"nobody-writes-{secrets.token_hex(4)}"
    os.mkfifo(pipe)
    process = subprocess.Popen([sys.executable, "-c", LOAD, str(pipe), str(PROCESSES)], start_new_session=True)
    yield
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60.0)


@pytest.fixture
def site(uneven_lab: Lab, load: None) -> Site:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    made = Site.of(
        uneven_lab,
        power="order = true\nrequeue = true\nmigrate = true",
        migrate="for_s = 4\npatience_s = 60",
        deadline="stop_s = 10\nrestart_s = 0\nrestart_doubling_s = 0",
        policy="ordering = 'fifo'",
    )
    address = node_settings(uneven_lab, made.directory, 1.0, uneven_lab.user(made.user) if made.user else "root")
    made.write(profile=f"listen = '{address}'\nreport_s = 1.0")
    return made


def submit(site: Site, *options: str, comment: str = "slurmsched:ckpt") -> tuple[int, Path]:
    """A job of hours by its history on one GPU that saves its work when asked to, and its directory."""
    home = site.lab.layout.work / f"saver-{secrets.token_hex(4)}"
    home.mkdir()
    shutil.copy(slurmsched.job.__file__, home / "job.py")
    program = SLOWED.format(folder=str(home), steps=4 * STEPS, step_s=STEP_S)
    (home / "train.py").write_text(program)
    shutil.chown(home, uid_of(site.lab.user("alice")), nobody_gid())
    run = f"export SLURMSCHED_NODE_CONF={site.directory}/node.conf; exec python3 train.py"
    job = site.lab.submit(
        "--gres=gpu:1", "--mem=1", "-t600", "--requeue", f"-D{home}", "-oout", f"-J{site.names[0]}",
        f"--comment={comment}", f"--wrap={run}", *options, user="alice",
    )  # fmt: skip
    return job, home


def on_n1(site: Site, *options: str, **details: str) -> tuple[int, Path]:
    """Such a job that runs on n1 although it may run on n2."""
    filler = site.lab.submit("--gres=gpu:v100:2", "--mem=1", "-t5", "--wrap=sleep 1200", "-o/dev/null", user="bob")
    site.until(lambda: site.states()[filler] == "RUNNING", "n2 full")
    job, home = submit(site, *options, **details)
    site.until(lambda: (home / "steps").exists(), "the first step")
    assert place(site, job) == "n1"
    site.lab.run(["scancel", str(filler)])
    return job, home


def place(site: Site, job: int) -> str:
    return site.lab.ask(["squeue", "-h", "-t", "R", "-j", str(job), "-o", "%N"]).strip()


def slow_down(site: Site, *homes: Path) -> None:
    """Slow jobs down once slurmsched knows their pace by reports."""

    def reported() -> bool:
        counted = re.search(r'slurmsched_progress_reports_total{result="ok"} ([0-9.]+)', site.http("/metrics"))
        return counted is not None and float(counted[1]) > CALM_REPORTS

    site.until(reported, "reports of a calm pace", 300.0)
    for home in homes:
        (home / "slow").touch()


def excluded(site: Site, job: int) -> str:
    nodes = site.lab.ask(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%x"]).strip()
    return "" if nodes == "(null)" else nodes


def kinds(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in site.said("story", str(job))["story"]]


def told(site: Site, job: int, words: str) -> bool:
    return words in " ".join(site.said("why", str(job))["why"]["details"])


def until_overloaded(site: Site) -> None:
    """Wait until slurmctld shows the load: it asks the nodes every ten seconds."""

    def shown() -> bool:
        load = site.lab.ask(["sinfo", "-h", "-N", "-n", "n1", "-O", "CPUsLoad:20"]).strip()
        return load.replace(".", "").isdigit() and float(load) > 3.0

    site.until(shown, "the load of n1", 300.0)


MOVED = ["started", "asked to leave", "requeued", "kept off", "started"]


def moves(site, job):
    """What of a job's story is about where it runs."""
    return [kind for kind in kinds(site, job) if kind in MOVED]


def test_a_job_that_agreed_leaves_the_overloaded_node_saves_its_work_and_goes_on_elsewhere(site):
    until_overloaded(site)
    job, home = on_n1(site)
    stays, calm = submit(site, "--exclude=n2")
    with site.daemon():
        slow_down(site, home, calm)
        site.until(lambda: place(site, job) == "n2", "the job on the other node", 300.0)
        assert excluded(site, job) == "n1"
        site.until(lambda: moves(site, job) == MOVED, "the whole story")
        site.until(lambda: told(site, stays, "It stays there: its owner chose its nodes"), "the other one's reason")
        asked = next(one for one in site.said("story", str(job))["story"] if one["kind"] == "asked to leave")
        assert asked["details"]["value"] == "n1"
        site.more_cycles(5)
        assert kinds(site, job).count("asked to leave") == 1
        assert place(site, stays) == "n1"
    assert site.said("replay", str(asked["details"]["cycle"]))["identical"]
    steps = done_steps(home)
    assert steps == list(range(len(steps))), "no step is lost and none is done twice"


def test_a_job_without_the_token_is_never_asked(site):
    until_overloaded(site)
    job, home = on_n1(site, comment="nothing for slurmsched")
    with site.daemon():
        slow_down(site, home)
        site.until(
            lambda: told(site, job, "It stays there: its owner did not say slurmsched:ckpt"), "the reason", 300.0
        )
        site.more_cycles(5)
        assert "asked to leave" not in kinds(site, job)
    assert place(site, job) == "n1"


@pytest.mark.soak
def test_a_request_that_was_perhaps_not_sent_is_not_repeated_and_the_job_goes_on(site):
    until_overloaded(site)
    job, home = on_n1(site)
    killed = site.start(*site.driver(1, "send"))
    slow_down(site, home)
    assert killed.wait(300.0) == -signal.SIGKILL
    with site.daemon():
        site.until(lambda: told(site, job, "it was asked lately to leave n1"), "the reason", 300.0)
        count = len(done_steps(home))
        site.until(lambda: len(done_steps(home)) > count + 20, "a job that goes on")
    assert (place(site, job), excluded(site, job)) == ("n1", "")


@pytest.mark.attack
@pytest.mark.parametrize("phase", [pytest.param("send", marks=pytest.mark.soak), "answer"])
def test_daemons_that_are_killed_while_a_job_moves_lose_no_step_of_it(site, phase):
    until_overloaded(site)
    job, home = on_n1(site)
    killed = site.start(*site.driver(1, "answer"))
    slow_down(site, home)
    assert killed.wait(300.0) == -signal.SIGKILL
    site.until(lambda: site.states()[job] == "PENDING", "the job saved its work", 300.0)
    killed = site.start(*site.driver(1, phase))
    assert killed.wait(300.0) == -signal.SIGKILL
    assert excluded(site, job) == ("" if phase == "send" else "n1")
    with site.daemon():
        site.until(lambda: place(site, job) == "n2", "the job on the other node", 300.0)
        assert "asked to leave" not in kinds(site, job), "its answer was never recorded, and it is not asked again"
    assert site.run("release-all").returncode == 0
    steps = done_steps(home)
    assert steps == list(range(len(steps)))


@pytest.mark.attack
@pytest.mark.soak
def test_after_each_kill_a_job_that_moves_starts_without_a_daemon_and_release_all_lifts_what_is_ours(site):
    kills, began_s, left = int(os.environ.get("SLURMSCHED_KILLS", "100")), time.monotonic(), 0
    until_overloaded(site)
    for number, phase in enumerate(itertools.islice(itertools.cycle(("answer", "record", "send")), kills)):
        job, home = on_n1(site)
        if number % BY_REPORTS:
            assert site.act(AskToStop(job, "URG", "n1")) == [None]
        else:
            killed = site.start(*site.driver(1, "answer"))
            slow_down(site, home)
            assert killed.wait(300.0) == -signal.SIGKILL
        site.until(lambda job=job: site.states()[job] == "PENDING", "the job saved its work", 300.0)
        site.kill_at(phase, patience_s=15.0)
        ours = excluded(site, job)
        left += bool(ours)
        if number % 2:
            done = site.run("release-all")
            assert done.returncode == 0, done.stdout
            assert ("1 job may start again on the nodes that we excluded" in done.stdout) == bool(ours), done.stdout
            assert excluded(site, job) == ""
        site.lab.ask(["scontrol", "update", f"jobid={job}", "starttime=now"])  # else Slurm lets it wait two minutes
        node = ("n2",) if excluded(site, job) else ("n1", "n2")
        site.until(
            lambda job=job, node=node: (at := place(site, job)) and at in node, "a start without a daemon", 300.0
        )
        count = len(done_steps(home))
        site.until(lambda home=home, count=count: len(done_steps(home)) > count, "its next step")
        site.lab.cancel_all()
        print(f"kill {number + 1} as {phase} began left {ours or 'nothing'}", flush=True)
    print(f"migration: {kills} kills in {time.monotonic() - began_s:.0f} s left {left} changes")
    assert left
