"""What we make of the options of a new job is what sbatch and slurmctld make of them."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from lab_search import search
from sbatch_draws import RESERVATION, SECOND, Draft, drafts

from slurmsched.clock import local_zone
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.sbatch_probe import Probe, Site, probe
from slurmsched.cluster.sbatch_request import SbatchRequest
from slurmsched.cluster.text.hostlist import expand
from slurmsched.cluster.text.sbatch import read_job
from slurmsched.cluster.text.tres import memory_mib, seconds
from slurmsched.daemon.predictions.hypothetical_job import unix_groups
from slurmsched.errors import CommentError, ConfigError
from slurmsched.lab import Lab
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.read.limits import read_shared_limits
from slurmsched.slurm.read.topology import request_in

TOGETHER = 20
"""Jobs that are submitted before Slurm is asked what it made of them."""

UNHELD = ("Requested node configuration", "Memory specification")
"""What slurmctld tells only a job that is not held."""

OLDER = ("slurm 22.", "slurm 23.0")
BY_RELEASE = (
    "invalid number of nodes",
    "--cpus-per-gpu is mutually exclusive with --cpus-per-task",
    "--gpus-per-task used without",
    "not multiple of --gpus-per-task",
)
"""What these refuse, and we with them, and newer ones may take."""

COLUMNS = ("gpu_type", "partition", "exclusive", "per_task", "per_gpu", "reservation", "tasks", "per_job", "licences")
"""Columns of a job that are the same as those of the pending job."""

counts: Counter[tuple[str, str]] = Counter()
told: Counter[str] = Counter()  #: jobs of which we say that they cannot be tried out, by what they have


@dataclass(frozen=True)
class Bench:
    """A lab with two partitions, features and a reservation, and how we see it."""

    lab: Lab
    cluster: SlurmCommand
    site: Site


@pytest.fixture
def bench(lab: Lab) -> Iterator[Bench]:
    limits = ["maxtime=2:00:00", "state=up", "DefMemPerCPU=210", "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=700"]
    lab.ask(["scontrol", "create", f"partition={SECOND}", "nodes=n[1-3]", *limits])
    lab.ask(["scontrol", "update", "nodename=n[1-2]", "availablefeatures=fast,ib", "activefeatures=fast,ib"])
    lab.ask(["scontrol", "update", "nodename=n[3-4]", "availablefeatures=ib", "activefeatures=ib"])
    reservation = [f"reservation={RESERVATION}", "starttime=2040-01-01", "duration=60", "users=root", "nodes=n4"]
    lab.ask(["scontrol", "create", *reservation])
    cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([]))))
    try:
        state, facts = cluster.observe(), cluster.known_facts()
        limits = read_shared_limits(cluster.console.query, facts.cluster, accounting=facts.accounting)
        yield Bench(lab, cluster, Site(state.partitions, state.nodes, limits, facts.permissions, unix_groups))
    finally:
        lab.cancel_all()
        lab.ask(["scontrol", "delete", f"reservation={RESERVATION}"])
        lab.ask(["scontrol", "delete", f"partition={SECOND}"])
        lab.ask(["scontrol", "update", "nodename=n[1-4]", "availablefeatures=", "activefeatures="])


def differences(bench: Bench, batch: list[Draft]) -> list[str]:
    """Submit the jobs of *batch* held, and return what we make of them otherwise than Slurm."""
    older = bench.lab.ask(["sbatch", "--version"]).startswith(OLDER)
    known = set(re.findall(r"--([a-z-]+)", bench.lab.ask(["sbatch", "--help"])))
    found: list[str] = []
    tried: dict[int, tuple[Draft, Probe, float]] = {}
    for drawn in batch:
        draft = drawn.of_release(known)
        draft.count(counts)
        now_s = time.time()
        ours = our_answer(bench.site, draft, now_s)
        job_id, words = submitted(bench.lab, draft, "-H")
        if isinstance(ours, str) and "cannot be tried out" in ours:
            told[next(iter(re.findall(r"#PBS|#BSUB|hetjob", ours)), "other")] += 1
        elif isinstance(ours, str):
            if job_id and any(unheld in ours for unheld in UNHELD):
                bench.lab.ask(["scancel", str(job_id)])
                _, refused = submitted(bench.lab, draft, "--test-only")
                job_id = 0 if "allocation failure" in refused or "Unable to" in refused else job_id
            if job_id and (older or not any(words in ours for words in BY_RELEASE)):
                found.append(f"{draft}\n  we refuse: {ours}\n  Slurm takes it")
        elif not job_id:
            if not by_release(ours):
                found.append(f"{draft}\n  we take it\n  Slurm refuses: {words}")
        else:
            tried[job_id] = draft, ours, now_s
    shown = shown_jobs(bench.lab)
    jobs = bench.cluster.observe().pending
    for job_id, (draft, job, now_s) in tried.items():
        pairs = [
            *of_size(job.request, job, shown[job_id]),
            *of_the_rest(job, shown[job_id], now_s),
            *of_our_reader(job, jobs, job_id),
        ]
        wrong = [f"{name}: ours {ours!r}, Slurm's {theirs!r}" for name, ours, theirs in pairs if ours != theirs]
        if wrong:
            found.append(f"{draft}\n  " + "\n  ".join(wrong))
    bench.lab.cancel_all()
    return found


def our_answer(site: Site, draft: Draft, now_s: float) -> Probe | str:
    """Return what we make of a job, or the words with which we refuse it."""
    try:
        options = read_job(draft.script, draft.environment, shlex.join(draft.argv))
        return probe(options, "root", now_s, local_zone(), site)
    except (ConfigError, CommentError) as error:
        return str(error)


def submitted(lab: Lab, draft: Draft, *more: str) -> tuple[int, str]:
    """Submit a job and return its id, 0 where it is refused, with what sbatch said."""
    argv = ["sbatch", "--parsable", "-o", "/dev/null", *more, *draft.argv]
    environment = lab.env() | draft.environment
    done = subprocess.run(
        lab.command(argv), env=environment, input=draft.script, capture_output=True, cwd="/", timeout=60
    )
    words = (done.stdout + done.stderr).decode("utf-8", "replace")
    last = done.stdout.decode().strip().split("\n")[-1]
    return (int(last) if done.returncode == 0 and last.isdecimal() else 0), words


def shown_jobs(lab: Lab) -> dict[int, dict[str, str]]:
    """Return the fields that scontrol shows of each job."""
    rows = (dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lab.ask(["scontrol", "-o", "show", "job"]).splitlines())
    return {int(row["JobId"]): row for row in rows if "JobId" in row}


def of_size(ours: SbatchRequest, job: Probe, shown: dict[str, str]) -> Iterator[tuple[str, object, object]]:
    """Yield what we and scontrol say of the size of a job."""
    if by_release(job):
        return
    tres = dict(
        part.split("=", 1) for part in (shown.get("ReqTRES") or shown.get("TRES", "")).split(",") if "=" in part
    )
    _, dash, high = shown["NumNodes"].partition("-")
    yield "nodes", True, int(tres["node"]) in (ours.nodes, ours.started_nodes)  # newer: as many as its tasks need
    if "ReqTRES" not in shown:  # newer releases show an estimate
        yield "most nodes", ours.most_nodes, int(high) if dash else 0
    tasks = int(shown["NumTasks"])
    yield "tasks", True, tasks in (ours.tasks, ours.nodes * ours.tasks_per_node)
    # Newer releases count the CPUs that come with GPUs, and the tasks of nodes that follow from GPUs.
    yield "CPUs", True, ours.cpus <= int(shown["NumCPUs"]) <= ours.started_cpus
    yield "CPUs of a task", ours.cpus_per_task, int(shown["CPUs/Task"])
    yield "CPUs of a node", ours.cpus_per_node, int(shown["MinCPUsNode"])
    yield "GPUs", ours.all_gpus, int(tres.get("gres/gpu", "0"))
    memory = memory_mib(tres.get("mem", "0"))
    mine = ours.nodes * 16000.0 if ours.all_memory else ours.memory_mib
    if not math.isnan(mine):
        either = (mine, mine if ours.all_memory else ours.started_memory_mib)  # newer: with the CPUs of its GPUs
        yield "memory", True, any(abs(one - memory) <= max(1.0, 0.01 * memory) for one in either)


def of_the_rest(job: Probe, shown: dict[str, str], now_s: float) -> Iterator[tuple[str, object, object]]:
    """Yield what we and scontrol say of limits, features and begin times."""
    yield "limit", float(job.job.time_limit_s[0]), seconds(shown["TimeLimit"])
    yield "features", job.job.features[0].replace(",", "&"), shown_features(shown)
    if not by_release(job):
        line = " ".join(f"{name}={value}" for name, value in shown.items())
        yield "topology", job.job.topology_request[0], request_in(line, int(shown["JobId"]))
    begins_s = float(job.job.eligible_s[0])
    if begins_s > now_s + 1:
        eligible = time.mktime(time.strptime(shown["StartTime"], "%Y-%m-%dT%H:%M:%S"))
        yield "begin", True, bool(abs(begins_s - eligible) <= 60)


def by_release(job: Probe) -> bool:
    """Return True if our answer begins by saying that releases of Slurm differ."""
    return any("some releases" in part for part in job.not_understood)


def shown_features(shown: dict[str, str]) -> str:
    """Return the features of a job; Slurm writes & for a comma of some jobs."""
    return shown.get("Features", "").replace("(null)", "").replace(",", "&")


def of_our_reader(job: Probe, jobs: JobTable, job_id: int) -> Iterator[tuple[str, object, object]]:
    """Yield the columns of our job, and those of the pending one as the daemon reads it."""
    ours, row = job.job, jobs.row_of(job_id)
    assert row is not None, job_id
    for name in (*COLUMNS, *([] if by_release(job) else ["gpus"])):
        yield name, getattr(ours, name)[0], getattr(jobs, name)[row]
    yield "required nodes", names_of(ours.required_nodes[0]), names_of(jobs.required_nodes[row])
    yield "array", bool(ours.array_job_id[0]), bool(jobs.array_job_id[row])


def names_of(hosts: str) -> list[str]:
    return sorted(expand(hosts)) if hosts else []


def compare(bench: Bench, batches: int, capsys: pytest.CaptureFixture[str], *, soak: bool = False) -> None:
    """Draw *batches* of jobs and compare; print how often each option was drawn."""
    by_option: Counter[str] = Counter()
    counts.clear()
    told.clear()

    def faults(batch: list[Draft]) -> list[str]:
        found = differences(bench, batch)
        by_option.clear()
        for (name, _), times in counts.items():
            by_option[name] += times
        return found

    batch = st.lists(drafts(), min_size=TOGETHER, max_size=TOGETHER)
    tables = {"drawn": by_option, "said not to be tried out": told}
    search(batch, batches, faults, tables, capsys, derandomize=not soak)


def test_what_we_make_of_drawn_jobs_is_what_slurm_makes_of_them(bench, capsys):
    compare(bench, 10, capsys)


@pytest.mark.soak
@pytest.mark.draws
def test_what_we_make_of_many_drawn_jobs_is_what_slurm_makes_of_them(bench, capsys):
    compare(bench, 5000 // TOGETHER, capsys, soak=True)
