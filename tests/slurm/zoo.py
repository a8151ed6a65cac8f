"""Jobs of every kind on a real Slurm: what the golden files record and what the classification is checked on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until

NODES = "Nodes=n[1-4]"
#: Limits, fair share, licences, tiers: a site that uses all of them.
SPEC = LabSpec(
    extra_conf=(
        "AccountingStorageEnforce=associations,limits,qos",
        "PriorityWeightFairshare=100000",
        "PriorityDecayHalfLife=1-0",
        "Licenses=matlab:1",
        f"PartitionName=fast {NODES} PriorityTier=5 MaxTime=INFINITE DefaultTime=60 State=UP",
        f"PartitionName=night {NODES} MaxTime=INFINITE DefaultTime=60 State=DOWN",
    )
)

HOSTILE_NAMES = (
    "a|b;c",
    "line\nbreak",
    "\x1b[31mred\x1b[0m",
    "[bold]rich[/bold] [/]",
    "'; DROP TABLE jobs; --",
    "\udcff\udcfe latin",
    "x\x1froot\n99999\x1fGOOD",
    "~field~forged~record~",
    "%i %.10j %",
    " blanks around ",
    "日本語 \u202e",
    "n" * 1000,
)


def until(wanted: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    wait_until(wanted, timeout_s, what, every_s=0.1)


def state(lab: Lab, job: int) -> str:
    return lab.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"]).stdout.strip()


def sleeper(lab: Lab, *options: str, seconds: float = 600, user: str = "alice") -> int:
    """A batch job, one GPU unless *options* say otherwise."""
    gpus = () if any(option.startswith(("--gpus", "--gres")) for option in options) else ("--gres=gpu:1",)
    common = ("--output=/dev/null", "--time=20", "--mem=100")
    return lab.submit(*common, *gpus, *options, f"--wrap=sleep {seconds}", user=user)


def occupy(lab: Lab, first: tuple[str, ...] = ("--licenses=matlab:1",)) -> list[int]:
    """Take every GPU, and the licence of the site, so that all that follows waits."""
    blockers = [sleeper(lab, "--gres=gpu:4", "--job-name=blocker", *one, user="dave") for one in (first, (), (), ())]
    until(lambda: all(state(lab, job) == "RUNNING" for job in blockers), "all GPUs taken")
    return blockers


def waiting_jobs(lab: Lab) -> dict[str, int]:
    """One pending job of each kind, by kind; all GPUs must be taken. Lifted limits are the caller's."""
    lab.ask(["sacctmgr", "-i", "modify", "qos", "high", "set", "MaxTRESPerUser=gres/gpu=1"])
    alice = lab.user("alice")
    lab.ask(
        [
            *("scontrol", "create", "reservation", "reservationname=workshop", f"users={alice}"),
            *("starttime=now+1hour", "duration=60", "nodes=n4", "flags=ignore_jobs"),
        ]
    )
    found = {
        # In a partition of a higher tier these two are looked at in every pass, so Slurm says what blocks them.
        "limited": sleeper(lab, "--qos=high", "--gres=gpu:2", "--partition=fast"),
        "licence": sleeper(lab, "--licenses=matlab:1", "--partition=fast"),
        "plain": sleeper(lab),
        "array": sleeper(lab, "--array=1-9:2%3"),
        "dependent": sleeper(lab, "--dependency=singleton", "--job-name=blocker", user="dave"),
        "user_hold": sleeper(lab),
        "admin_hold": sleeper(lab),
        "nice": sleeper(lab, "--nice=50"),
        "begin": sleeper(lab, "--begin=now+1hour"),
        "reserved": sleeper(lab, "--reservation=workshop"),
        "partitions": sleeper(lab, "--partition=gpu,fast"),
        "down": sleeper(lab, "--partition=night"),
        "off": sleeper(lab, "--comment=mine slurmsched:off"),
        "ckpt": sleeper(lab, "--comment=slurmsched:ckpt,deadline=+6h"),
        "fixed": sleeper(lab),
        "gpus": sleeper(lab, "--gpus=3"),
        "per_node": sleeper(lab, "--gpus-per-node=2", "--nodes=2"),
        "per_task": sleeper(lab, "--gpus-per-task=1", "--ntasks=3"),
        "cpus_per_gpu": sleeper(lab, "--gpus=2", "--cpus-per-gpu=2"),
        "memory_per_gpu": lab.submit(
            *("--output=/dev/null", "--time=20", "--gres=gpu:2", "--mem-per-gpu=300", "--wrap=sleep 600"), user="alice"
        ),
        "no_gpu": sleeper(lab, "--gres=none", "--exclusive"),
        "no_requeue": sleeper(lab, "--no-requeue"),
        "unlimited": sleeper(lab, "--time=UNLIMITED"),
    }
    found["dependency"] = sleeper(lab, f"--dependency=afterok:{found['plain']}", user="bob")
    script = "#!/bin/sh\n#SBATCH --gres=gpu:1 --mem=100\n#SBATCH hetjob\n#SBATCH --gres=gpu:2 --mem=100\nsleep 600\n"
    found["het"] = lab.submit("--output=/dev/null", "--time=20", user="alice", script=script)
    lab.ask(["scontrol", "uhold", str(found["user_hold"])])
    lab.ask(["scontrol", "hold", str(found["admin_hold"])])
    lab.ask(["scontrol", "update", f"jobid={found['fixed']}", "priority=77"])
    return found


def lift_limits(lab: Lab) -> None:
    """Undo what ``waiting_jobs`` set beside its jobs."""
    lab.run(["sacctmgr", "-i", "modify", "qos", "high", "set", "MaxTRESPerUser=gres/gpu=-1"])
    lab.cancel_all()
    lab.run(["scontrol", "delete", "reservationname=workshop"])


@contextmanager
def interactive(lab: Lab) -> Iterator[int]:
    """A salloc that waits for its GPU."""
    argv = ["salloc", "--no-shell", "--gres=gpu:1", "--mem=100", "--time=20", "--job-name=portal"]
    waiting = subprocess.Popen(
        lab.command(argv, user="bob"),
        env=lab.env("bob"),
        cwd=lab.layout.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def asked() -> list[str]:
        return lab.ask(["squeue", "-h", "-t", "PENDING", "-n", "portal", "-o", "%A"]).split()

    try:
        until(lambda: bool(asked()), "the salloc pending")
        yield int(asked()[0])
    finally:
        waiting.terminate()
        waiting.wait(timeout=90.0)
