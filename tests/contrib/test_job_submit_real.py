"""job_submit.lua inside a real slurmctld, seen from sbatch and scontrol."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs

CONTRIB = Path(__file__).parents[2] / "contrib/slurm.conf.d"
SCRIPT = CONTRIB / "job_submit.lua"
SETTINGS = {
    key: value
    for key, value in re.findall(r"^(\w+)=(.+)$", (CONTRIB / "slurmsched.conf").read_text(), re.MULTILINE)
    if os.geteuid() == 0 or not key.startswith("Accounting")  # a lab with slurmdbd takes root
}

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def guarded() -> Iterator[Lab]:
    """A lab with our settings and our job_submit.lua, in a directory that its users can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="guarded-") as directory:
        Path(directory).chmod(0o755)
        script = Path(directory) / "job_submit.lua"
        script.write_text(SCRIPT.read_text().replace("LINE_AHEAD_S = 0", "LINE_AHEAD_S = 60"))
        spec = LabSpec(
            nodes=1,
            accounting="AccountingStoreFlags" in SETTINGS,
            job_submit_lua=str(script),
            extra_conf=tuple(f"{key}={value}" for key, value in SETTINGS.items()),
        )
        try:
            programs.check(spec)
        except LabError as error:
            pytest.skip(str(error))
        with Lab(Path(directory) / "lab", spec) as lab:
            yield lab


def submit(lab: Lab, comment: str, user: str | None = None) -> tuple[str, str]:
    """Submit a held job; its id ('' if refused) and what sbatch said on stderr."""
    done = lab.run(["sbatch", "--hold", "--parsable", f"--comment={comment}", "--wrap=true"], user=user)
    return done.stdout.strip(), done.stderr


def comment_of(lab: Lab, job_id: str) -> str:
    """The job's comment as Slurm keeps it."""
    return lab.run(["squeue", "--noheader", f"--jobs={job_id}", "--format=%k"]).stdout.removesuffix("\n")


@pytest.fixture
def user(guarded: Lab) -> str | None:
    """An ordinary user where the lab has some, else whoever runs the tests."""
    return next(iter(guarded.manifest.users), None)


def test_slurmctld_takes_every_line_of_our_conf(guarded):
    shown = dict(re.findall(r"^(\w+) *= (.*)$", guarded.run(["scontrol", "show", "config"]).stdout, re.MULTILINE))
    assert {"PriorityType", "JobSubmitPlugins"} <= set(SETTINGS)
    for key, value in SETTINGS.items():
        assert value in shown[key].rstrip().split(",")


def test_a_malformed_token_is_refused_and_its_author_told(guarded, user):
    job_id, said = submit(guarded, "slurmsched:dedline=+6h", user)
    assert job_id == ""
    assert "slurmsched: 'dedline=+6h' is not known (did you mean deadline?); accepted: deadline=TIME, soft" in said


@pytest.mark.parametrize("comment", ["slurmsched:%s%n%99999d", "slurmsched:\x1b[31m", "slurmsched:é=1"])
def test_hostile_text_comes_back_harmless(guarded, user, comment):
    job_id, said = submit(guarded, comment, user)
    assert job_id == ""
    assert "is not known" in said
    assert "\x1b" not in said


def test_a_deadline_in_the_past_is_refused(guarded, user):
    job_id, said = submit(guarded, "slurmsched:deadline=2020-01-01T00:00", user)
    assert job_id == ""
    assert "is in the past" in said


@pytest.mark.parametrize(
    "comment",
    [
        "slurmsched:deadline=+6h,80@+8h,gpus=2-8 slurmsched:ckpt",
        "slurmsched:deadline=2150-07-01T18:00,soft",
        'someone else\'s | text; {"idle": 60} deadline=yesterday \\n 100%',
        "",
    ],
)
def test_all_else_is_accepted_and_kept_as_written(guarded, user, comment):
    job_id, said = submit(guarded, comment, user)
    assert job_id.isdigit(), said
    assert comment_of(guarded, job_id) == comment


def test_a_user_cannot_write_our_share_token_but_root_can(guarded, user):
    if user is None:
        pytest.skip("the lab has no other users without root")
    job_id, said = submit(guarded, "slurmsched:share=1+2", user)
    assert job_id == ""
    assert "not for users" in said
    assert submit(guarded, "slurmsched:share=1+2")[0].isdigit()


def test_a_changed_comment_is_checked_too(guarded, user):
    job_id, _ = submit(guarded, "slurmsched:ckpt", user)
    spoilt = guarded.run(["scontrol", "update", f"jobid={job_id}", "comment=slurmsched:dedline=1"], user=user)
    assert spoilt.returncode != 0
    assert comment_of(guarded, job_id) == "slurmsched:ckpt"
    # a deadline that has passed meanwhile must not stop its owner from adding a note
    fine = guarded.run(
        ["scontrol", "update", f"jobid={job_id}", "comment=note slurmsched:deadline=2020-01-01T00:00"], user=user
    )
    assert fine.returncode == 0, fine.stderr
    assert comment_of(guarded, job_id).startswith("note ")


def test_a_change_of_something_else_is_let_through(guarded, user):
    job_id, _ = submit(guarded, "slurmsched:ckpt", user)
    done = guarded.run(["scontrol", "update", f"jobid={job_id}", "timelimit=7"], user=user)
    assert done.returncode == 0, done.stderr


def test_a_user_takes_back_no_begin_time_that_keeps_a_job_in_line(guarded, user):
    if user is None:
        pytest.skip("root alone may set any begin time: this needs an ordinary user")
    job = guarded.run(["sbatch", "--parsable", "--begin=now+1hour", "--wrap=true"], user=user).stdout.strip()

    def begins() -> str:
        return guarded.run(["squeue", "--noheader", f"--jobs={job}", "--format=%S %T"]).stdout.strip()

    def update(*change: str, by: str | None = user) -> int:
        return guarded.run(["scontrol", *change], user=by).returncode

    set_by_us = begins()
    for moment in ("now", "now+30", "2020-01-01"):
        assert update("update", f"JobId={job}", f"StartTime={moment}") != 0
    assert update("update", f"JobId={job}", "JobName=other") == 0
    assert update("hold", job) == update("release", job) == 0
    update("requeue", job)
    update("top", job)
    assert begins() == set_by_us
    assert update("update", f"JobId={job}", "StartTime=now+2hours") == 0
    assert begins() not in ("", set_by_us)
    assert update("update", f"JobId={job}", "StartTime=now+30", by=None) == 0, "the daemon and root may"
    guarded.run(["scancel", job])


def test_a_new_job_for_gpus_does_not_start_before_a_cycle_has_seen_it(guarded, user):
    jobs: list[str] = []

    def waits_s(*options: str) -> float:
        done = guarded.run(["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=true"], user=user)
        jobs.append(done.stdout.strip())
        shown = guarded.run(
            ["squeue", "--noheader", f"--jobs={jobs[-1]}", "--states=all", "--format=%S"]
        ).stdout.split()
        starts = {datetime.fromisoformat(text) for text in shown if text != "N/A"}
        return (min(starts) - datetime.now()).total_seconds() if starts else 0.0

    assert waits_s() <= 0, "it asks for no GPU"
    for options in (["--gres=gpu:1"], ["--gpus=1", "--comment=slurmsched:off"], ["--gpus-per-node=1", "--array=1-2"]):
        assert 30 < waits_s(*options) <= 60
    assert waits_s("--gres=gpu:1", "--begin=now+1hour") > 3000, "its own begin time is later"
    guarded.run(["scancel", *jobs])
