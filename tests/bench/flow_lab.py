"""A flow of jobs on a lab: the daemon's cycle beside a real slurmctld."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np

from slurmsched.clock import SystemClock
from slurmsched.cycle import CycleContext, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.errors import LabError
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.simulator.gpu_profiles import ended_runs, profiles_of, true_use
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

from .bursts import DOUBLING, Flow, Job
from .fidelity import BEGAN, CAME, ENDED, times_in_log
from .flow_course import Course
from .flow_model import forecast_of, looks_of, submitted

PATIENCE_S = 900.0
SETTLES_S = 60.0  #: the most that the loops of a new slurmctld take to run
LOAD_S = 300.0  #: the most until slurmctld shows a load

BACKFILL = r"^\[(\S+)\] sched/backfill: _attempt_backfill: beginning"
"""What slurmctld writes in its log with ``DebugFlags=Backfill``."""

MAIN_CYCLES = r"Main schedule statistics[^:]*:(?s:.*?)Total cycles:\s*(\d+)"
"""What sdiag prints of the main loop."""

WORKER = """
import json, math, os, signal, subprocess, sys, time
path, left_s, own, doubling, speeds = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), *map(json.loads, sys.argv[4:])
gpus = int(os.environ.get("SLURM_GPUS_ON_NODE") or own)
speed = speeds.get(os.environ["SLURMD_NODENAME"], 1.0) * (gpus / own) ** math.log2(doubling)
if os.path.exists(path):
    left_s = float(open(path).read())
def give_way(*_):
    subprocess.run(["scontrol", "requeue", "incomplete", os.environ["SLURM_JOB_ID"]])
    time.sleep(60)
signal.signal(signal.SIGURG, give_way)
last_s = time.monotonic()
while left_s > 0:
    time.sleep(min(0.1, left_s / speed))
    now_s = time.monotonic()
    left_s, last_s = left_s - (now_s - last_s) * speed, now_s
    open(path + ".new", "w").write(str(left_s))
    os.replace(path + ".new", path)
"""
"""A job that saves its work ten times a second, and goes on from there after a requeue."""

LOADER = """
import os, sys
for _ in range(int(sys.argv[2])):
    if not os.fork():
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
        os._exit(0)
os.wait()
"""
"""Processes that Linux counts as load and that use no CPU: each waits for a child to open a pipe without a writer."""


def on_lab(flow: Flow, *, predicts: bool = False) -> tuple[Course, dict[str, str]]:
    """The course of *flow* on a lab, and the configuration of its Slurm."""
    directory = Path(tempfile.mkdtemp(prefix="ssflow-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        with Lab(directory / "lab", flow.spec) as lab, _load(lab, flow.load):
            return _driven(lab, flow, predicts)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _load(lab: Lab, processes: int) -> Iterator[None]:
    """Give the machine the load of so many processes, and wait until slurmctld shows most of it."""
    if not processes:
        yield
        return
    pipe = lab.layout.work / f"nobody-writes-{secrets.token_hex(4)}"
    os.mkfifo(pipe)
    process = subprocess.Popen([sys.executable, "-c", LOADER, str(pipe), str(processes)], start_new_session=True)

    def shown() -> bool:
        load = lab.ask(["sinfo", "-h", "-N", "-n", "n1", "-O", "CPUsLoad:20"]).strip()
        return load.replace(".", "").isdigit() and float(load) > processes / 2

    try:
        wait_until(shown, LOAD_S, "the load of the nodes")
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60.0)


def _driven(lab: Lab, flow: Flow, predicts: bool) -> tuple[Course, dict[str, str]]:
    home = lab.layout.work / "flow"
    home.mkdir()
    home.chmod(0o777)
    (home / "worker.py").write_text(WORKER)
    cluster = SlurmCommand(CommandRunner(environment=lab.env()), apart=lambda: flow.rules.optional_columns)
    config = dict(cluster.facts().config)
    course = Course(looks=looks_of(flow, config) if predicts else None)
    store, clock = VolatileStore.blank(), SystemClock()
    context = CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster=lab.cluster),
        model=forecast_of(flow),
        policy=flow.policy,
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=clock,
        learns=False,
        beside=flow.knowledge(lab.user("alice"), clock.monotonic),
    )
    _settle(lab)
    thread = threading.Thread(target=_submit, args=(lab, home, flow))
    time.sleep(flow.every_s - time.time() % flow.every_s)  # how jobs lie between cycles is the same each time
    thread.start()
    work, table = submitted(flow, np.zeros(len(flow.jobs)))
    rows = {int(job): [row] for row, job in enumerate(work.job_id.tolist())}
    until_s = time.monotonic() + PATIENCE_S
    while len(course.ended_s) < len(flow.jobs) and time.monotonic() < until_s:
        time.sleep(flow.every_s - time.time() % flow.every_s)
        now_s = time.time()
        report = run_cycle(context, context.memory.next_number(now_s), now_s, "act")
        store.add_profiles(lab.cluster, profiles_of(ended_runs(report.ended, rows), table, true_use(work)))
        course.watch(report)
    thread.join()
    if len(course.ended_s) < len(flow.jobs):
        raise LabError(f"of {len(flow.jobs)} jobs only {len(course.ended_s)} ended within {PATIENCE_S:g} s")
    log, jobs = lab.layout.log("slurmctld").read_text(), sorted(course.ended_s)
    for times, words in ((course.submitted_s, CAME), (course.started_s, BEGAN), (course.ended_s, ENDED)):
        times.update(zip(jobs, times_in_log(log, words, jobs), strict=True))
    first = re.search(BACKFILL, log, re.MULTILINE)
    if first is None:
        raise LabError("slurmctld's log has no pass of backfill")
    course.backfill_s = datetime.fromisoformat(first[1]).timestamp()
    return course, config


def _settle(lab: Lab) -> None:
    """Wait until both loops of a new slurmctld have run: from then on each comes at its own interval."""

    def running() -> bool:
        main = re.search(MAIN_CYCLES, lab.ask(["sdiag"]))
        began = re.search(BACKFILL, lab.layout.log("slurmctld").read_text(), re.MULTILINE)
        return main is not None and int(main[1]) > 0 and began is not None

    wait_until(running, SETTLES_S, "the first passes of the main loop and of backfill")


def _submit(lab: Lab, home: Path, flow: Flow) -> None:
    """Submit each job at its time."""
    began_s = time.monotonic()
    for number, job in enumerate(flow.jobs, 1):
        time.sleep(max(0.0, began_s + job.at_s - time.monotonic()))
        speeds = {f"n{node}": job.speeds.get(name, 1.0) for node, name in enumerate(flow.type_of, 1)}
        words = [f"{home}/worker.py", f"{home}/left{number}", f"{job.work_s:.3f}", str(job.gpus)]
        command = shlex.join(["exec", "python3", *words, json.dumps(DOUBLING), json.dumps(speeds)])
        lab.submit(*_options(job), f"--wrap={command}", user="alice")


def _options(job: Job) -> list[str]:
    gres = ":".join(filter(None, ("gpu", job.gpu_type, str(job.gpus))))
    options = [f"-J{job.name}", f"-p{job.partition}", f"--gres={gres}", "-n1", f"-c{job.cpus}", "-t10", "--requeue"]
    return [*options, "-o/dev/null", f"--comment={job.comment}", *([f"--mem={job.memory_mib}"] * (job.memory_mib > 0))]


def launch_s(flow: Flow, course: Course) -> float:
    """What a start and an end cost on the lab: the mean time that jobs of one run took beyond their work."""
    once = [job for job in course.ended_s if not course.restarts[job]]
    over_s = [
        course.ended_s[job] - course.started_s[job] - flow.jobs[job - 1].takes_s(*course.last_on[job]) for job in once
    ]
    return max(0.0, statistics.mean(over_s)) if over_s else math.nan
