"""Jobs with deadlines on a site that knows how long they take, and one that saves its work when it is asked to."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from lab_site import Site, history

import slurmsched.job
from slurmsched.lab.users import nobody_gid, uid_of

TOOK_S = 4.0
DEADLINE = "enabled = true\nlead_s = 20\nreserve = 0\nuser_share = 1\nyields = true\nlease_s = 1\nstop_s = 6"
POWER = "order = true\nhold = true\nrequeue = true"
STEPS = 600  #: a first run takes longer than any deadline here, a second one goes on quickly
STEP_S = 0.25
SAVER = """
import os, sys, time
sys.path.insert(0, {folder!r})
from job import Lease
lease = Lease("saved")
for step in range(lease.resume_at(), {steps}):
    time.sleep({again_s} if os.environ.get("SLURM_RESTART_COUNT") else {step_s})
    print(step, file=open("steps", "a"))
    if lease.should_stop(step):
        lease.checkpoint_done(step + 1)
        if lease.give_way():
            break
"""


def saver(
    site: Site,
    steps: int,
    again_s: float,
    *,
    nodes: int = 4,
    comment: str = "slurmsched:ckpt",
    gres: str = "gpu:4",
    name: str = "saver",
) -> tuple[int, Path]:
    """Submit a job that saves its work when asked to; return it and the directory where it notes its steps.

    It has so many whole *nodes* of *gres*, and takes *again_s* for a step once it goes on.
    """
    home = site.lab.layout.work / f"saver-{secrets.token_hex(4)}"
    home.mkdir()
    shutil.copy(slurmsched.job.__file__, home / "job.py")
    program = SAVER.format(folder=str(home), steps=steps, again_s=again_s, step_s=STEP_S)
    (home / "train.py").write_text(program)
    shutil.chown(home, uid_of(site.lab.user("alice")), nobody_gid())
    job = site.lab.submit(
        f"--gres={gres}", f"-N{nodes}", "--exclusive", "-t5", "--requeue", f"-D{home}", "-oout", f"-J{name}",
        f"--comment={comment}", "--wrap=exec python3 train.py", user="alice",
    )  # fmt: skip
    return job, home


@contextmanager
def saving(
    site: Site, nodes: int = 4, comment: str = "slurmsched:ckpt", steps: int = STEPS, again_s: float = 0.01
) -> Iterator[tuple[int, Path]]:
    """A running job that saves its work, of 150 s by default, and its directory."""
    job, home = saver(site, steps, again_s, nodes=nodes, comment=comment)
    site.until(lambda: (home / "steps").exists(), "the first step")
    yield job, home
    shutil.rmtree(home)


def done_steps(home: Path) -> list[int]:
    """The steps that the job of a directory has done, in turn."""
    return [int(line) for line in (home / "steps").read_text().split()]


def taught(site: Site) -> Site:
    """The *site* with a history by which every job of its names takes four seconds."""
    known = history(site.lab, site.names)
    ended_s = time.time() - 20_000.0 + 60.0 * np.arange(len(known))
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), ended_s - TOOK_S)
    runtime_s = np.full(len(known), TOOK_S)
    learnt = replace(known, runtime_s=runtime_s, ended_s=ended_s, job_id=known.job_id + 1000, **times)
    with site.store() as store:
        store.prune(time.time(), 1.0, 1.0)
        store.add_outcomes(site.lab.cluster, learnt)
    return site


def submit(site: Site, comment: str = "", *options: str) -> int:
    return site.lab.submit(
        "--gres=gpu:4", "-N4", "--exclusive", "-t1", f"--wrap=sleep {TOOK_S}", "-o/dev/null", f"-J{site.names[0]}",
        f"--comment={comment}", *options, user="alice",
    )  # fmt: skip


def answer(site: Site, job: int) -> str:
    return str(site.said("deadline", str(job)).get("deadline", {}).get("answer"))


def ended(site: Site, job: int) -> float:
    """When the job ended, after it has."""
    site.until(lambda: site.states().get(job) == "COMPLETED", f"the end of job {job}", 600.0)
    asked = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-t", "all", "-j", str(job), "-O", "EndTime:20"]
    return float(site.lab.ask(asked).strip())


def story(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in site.said("story", str(job)).get("story", [])]
