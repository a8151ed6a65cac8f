"""A training job with ``stop=`` reports its progress on a real Slurm, is told to end, and is COMPLETED."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from lab_site import Site
from node_programs import node_settings

import slurmsched.job
from slurmsched.lab.users import nobody_gid, uid_of

pytestmark = pytest.mark.lab

TRAIN = """
import os, sys, time
import job
job.REPORT_S = job.UNREACHED_S = 1.0
told, step = False, 0
while not told:
    time.sleep(0.05)
    step += 1
    told = job.report({report})
    open("told." + os.environ["SLURM_JOB_ID"], "w").write(str(job._REPORTER._next_s < float("inf")))
print("saved", file=open("saved." + os.environ["SLURM_JOB_ID"], "w"))
"""

STEADY = """
import json, os, time
import job
job.REPORT_S = job.UNREACHED_S = 0.2
job.ANSWER_S = 1.0

def queued_s():
    return int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9

step, slowed_s, ended, told, due_s = 0, 0.0, 0, False, float("-inf")
while not os.path.exists("enough"):
    time.sleep(0.02)
    step += 1
    before_s, before_queued_s = time.monotonic(), queued_s()
    told |= job.report(step, accuracy=0.5)
    slowed_s += time.monotonic() - before_s - (queued_s() - before_queued_s)
    if job._REPORTER._next_s not in (due_s, float("inf")):
        ended, due_s = ended + 1, job._REPORTER._next_s
    with open("new." + os.environ["SLURM_JOB_ID"], "w") as file:
        json.dump({"step": step, "slowed_s": slowed_s, "ended": ended, "told": told}, file)
    os.replace(file.name, "state." + os.environ["SLURM_JOB_ID"])
"""
"""A loop that notes how long reports took, without the time in which other programs had the processor."""


def training(site: Site, home: Path, user: str, comment: str) -> int:
    return site.lab.submit(
        "--gres=gpu:1", "-t60", f"-D{home}", "-oout.%j", f"--comment={comment}",
        f"--wrap=export SLURMSCHED_NODE_CONF={site.directory}/node.conf; exec python3 train.py", user=user,
    )  # fmt: skip


@pytest.fixture
def home(site_of_reports):
    made = site_of_reports.lab.layout.work / f"training-{site_of_reports.names[0]}"
    made.mkdir()
    shutil.copy(slurmsched.job.__file__, made / "job.py")
    (made / "train.py").write_text(TRAIN.format(report="7, accuracy=0.95"))
    shutil.chown(made, uid_of(site_of_reports.lab.user("alice")), nobody_gid())
    yield made
    shutil.rmtree(made)


@pytest.fixture
def site_of_reports(new_site):
    site = new_site(power="order = true\nstop = true")
    operator = site.lab.user(site.user) if site.user else "root"
    address = node_settings(site.lab, site.directory, 1.0, operator)
    site.write(profile=f"listen = '{address}'\nreport_s = 1.0")
    return site


def test_a_job_that_asked_for_it_is_told_to_end_and_one_that_did_not_never_is(site_of_reports, home):
    site = site_of_reports
    with site.daemon():
        willing = training(site, home, "alice", "slurmsched:stop=acc:0.9")
        silent = training(site, home, "alice", "")
        site.until(lambda: site.states().get(willing) == "COMPLETED", "the end by consent", 300.0)
        assert (home / f"saved.{willing}").read_text() == "saved\n"
        site.until(lambda: "may end" in kinds(site, willing), "the permission in the story")
        assert kinds(site, willing).count("may end") == 1
        assert site.states()[silent] == "RUNNING"
        counted = site.http("/metrics")
        assert 'slurmsched_progress_reports_total{result="stop"} 1.0' in counted
        assert 'slurmsched_progress_reports_total{result="ok"}' in counted
        site.lab.ask(["scontrol", "update", f"jobid={silent}", "comment=slurmsched:stop=acc:0.9"])
        site.until(lambda: site.states().get(silent) == "COMPLETED", "the end by a later consent", 300.0)
    for (cycle,) in site.sql("SELECT cycle FROM intents WHERE kind = 'End'"):
        assert site.run("replay", str(cycle)).returncode == 0


def test_a_job_whose_loss_no_longer_falls_ends_with_its_own_exit_status(site_of_reports, home):
    site = site_of_reports
    (home / "train.py").write_text(TRAIN.format(report="step, loss=1.0 + 1.0 / step**2"))
    with site.daemon():
        falling = training(site, home, "alice", "slurmsched:stop=loss:0.2%")
        site.until(lambda: site.states().get(falling) == "COMPLETED", "the end by the loss", 400.0)
        assert (home / f"saved.{falling}").read_text() == "saved\n"
        assert kinds(site, falling).count("may end") == 1


def test_the_noise_that_a_job_reports_tells_what_more_gpus_bring_it(site_of_reports, home):
    site = site_of_reports
    site.write(power="order = true\nstop = true\nresize = true")
    (home / "train.py").write_text(TRAIN.format(report="step, accuracy=0.95, noise=64.0"))
    told = "It reports a gradient noise scale of 64 samples: on 4 GPUs a step of 256 is worth 1.60 of those of 64 on 1."
    with site.daemon():
        grows = training(site, home, "alice", "slurmsched:gpus=1-4,batch=64-256,ckpt")
        site.until(lambda: told in str(site.said("explain", str(grows))), "what the noise means", 300.0)
        cycle = site.said("explain", str(grows))["cycle"]
        site.lab.ask(["scontrol", "update", f"jobid={grows}", "comment=slurmsched:stop=acc:0.9"])
        site.until(lambda: site.states().get(grows) == "COMPLETED", "the end by a later consent", 300.0)
    assert site.run("replay", str(cycle)).returncode == 0


def test_a_report_about_a_job_of_somebody_else_is_refused(site_of_reports, home):
    site = site_of_reports
    with site.daemon():
        job = site.lab.submit("--gres=gpu:1", "-t60", "-o/dev/null", "--wrap=sleep 3000", user="alice")
        site.until(lambda: site.states()[job] == "RUNNING", "a running job")
        node = site.lab.ask(["squeue", "-h", "-j", str(job), "-o", "%N"]).strip()
        facts = [f"SLURM_JOB_ID={job}", f"SLURMD_NODENAME={node}", f"SLURMSCHED_NODE_CONF={site.directory}/node.conf"]
        report = ["env", *facts, "/usr/bin/python3", f"{home}/job.py", "report", "--iteration", "1", "--accuracy", "1"]

        def answer(user: str) -> str:
            command = site.lab.command(report, user=user)
            done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
            return done.stderr.strip()

        site.until(lambda: answer("alice") == "ok" or answer("alice").startswith("later"), "a report of its owner")
        assert answer("bob") == f"refused: job {job} is not of user {uid_of(site.lab.user('bob'))}"
        site.lab.ask(["scancel", str(job)])


def test_a_daemon_that_hangs_and_is_killed_neither_ends_nor_slows_a_job_that_reports(site_of_reports, home):
    site = site_of_reports
    (home / "train.py").write_text(STEADY)
    with site.daemon() as daemon:
        jobs = [training(site, home, "alice", comment) for comment in ("slurmsched:stop=acc:0.9", "")]

        def state(job: int) -> dict[str, float]:
            return json.loads((home / f"state.{job}").read_text())

        def more_reports(count: int) -> None:
            """Wait until *count* more reports of each job were answered, or given up."""
            until = {job: state(job)["ended"] + count for job in jobs}
            site.until(lambda: all(state(job)["ended"] >= until[job] for job in jobs), f"{count} more reports")

        site.until(lambda: [site.states()[job] for job in jobs] == ["RUNNING"] * 2, "running jobs")
        site.until(lambda: all(state(job)["step"] for job in jobs), "their first iterations")
        more_reports(2)
        daemon.send_signal(signal.SIGSTOP)
        more_reports(2)
        daemon.kill()
        daemon.wait(90.0)
        more_reports(5)
        assert [site.states()[job] for job in jobs] == ["RUNNING"] * 2
    (home / "enough").touch()
    site.until(lambda: [site.states()[job] for job in jobs] == ["COMPLETED"] * 2, "their own ends")
    assert [state(job)["told"] for job in jobs] == [False] * 2
    assert max(state(job)["slowed_s"] for job in jobs) < 1.0, [state(job) for job in jobs]


def kinds(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in site.said("story", str(job)).get("story", [])]
