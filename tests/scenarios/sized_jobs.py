"""Jobs that train on two to four GPUs, twice as fast on four, and save their work when they are asked to."""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab_site import Site

import slurmsched.job
from slurmsched.lab.users import nobody_gid, uid_of

SIZES = "slurmsched:gpus=2-4,ckpt"
TRAIN = """
import os, sys, time
sys.path.insert(0, {folder!r})
from job import Lease, gpus
lease = Lease("saved")
micro, accumulation = lease.batch(192, 8)
for step in range(lease.resume_at(), {steps}):
    time.sleep({step_s} * 2 / gpus())
    note = "steps" if os.environ.get("SLURM_PROCID", "0") == "0" else "steps of another task"
    print(step, gpus(), micro * accumulation * gpus(), file=open(note, "a"))
    if lease.should_stop(step):
        if note == "steps":
            lease.checkpoint_done(step + 1)
        if lease.give_way():
            break
"""
RUN = "exec python3 train.py"
RUN_ON_ALL_NODES = "unset SLURM_NTASKS SLURM_NPROCS; exec srun python3 train.py"


@dataclass(frozen=True)
class SizedJob:
    """A job and the directory where it notes its steps."""

    job: int
    home: Path

    @property
    def steps(self) -> list[tuple[int, int, int]]:
        """The steps that it has done, in turn: number, GPUs and samples."""
        noted = self.home / "steps"
        lines = noted.read_text().splitlines() if noted.exists() else []
        return [(int(step), int(gpus), int(samples)) for step, gpus, samples in map(str.split, lines)]


def submit_sized(
    site: Site, steps: int, step_s: float, *options: str, gres: str = "--gres=gpu:2", comment: str = SIZES
) -> SizedJob:
    """Submit a job of alice that takes so many *steps* of *step_s* seconds each on two GPUs."""
    home = site.lab.layout.work / f"sized-{secrets.token_hex(4)}"
    home.mkdir()
    shutil.copy(slurmsched.job.__file__, home / "job.py")
    (home / "train.py").write_text(TRAIN.format(folder=str(home), steps=steps, step_s=step_s))
    shutil.chown(home, uid_of(site.lab.user("alice")), nobody_gid())
    job = site.lab.submit(
        gres, "-N1", "-c1", "-t20", "--requeue", f"-D{home}", "-oout", f"--comment={comment}",
        f"--wrap={RUN}", *options, user="alice",
    )  # fmt: skip
    return SizedJob(job, home)


def tasks_on_nodes(one: SizedJob) -> bool:
    """Whether other tasks than the first one did steps too."""
    return (one.home / "steps of another task").exists()


def nodes_asked(site: Site, job: int) -> tuple[int, str]:
    """The number of nodes that a job asks for, and of tasks, CPUs and memory with them.

    While it completes, Slurm counts those of its nodes that are not done yet.
    """

    def whole() -> str:
        shown = site.lab.ask(["scontrol", "show", "job", str(job)])
        return "" if "JobState=COMPLETING" in shown else shown

    shown = site.until(whole, "a job that does not complete")
    wanted = ("NumNodes", "NumCPUs", "NumTasks", "MinMemoryNode", "MinMemoryCPU", "TresPerNode")
    found = [f"{name}={value}" for name, value in re.findall(r"(\w+)=(\S+)", shown) if name in wanted]
    return int(re.search(r"NumNodes=(\d+)", shown)[1]), " ".join(found)


def requests(site: Site) -> dict[int, str]:
    """What pending and running jobs ask for, by job: per node, else per job."""
    shown = site.lab.ask(["squeue", "-h", "-O", "JobID:12,tres-per-node:40,tres-per-job:40"])
    rows = (line.split() for line in shown.splitlines())
    return {int(job): node if node != "N/A" else whole for job, node, whole in rows}
