"""Whom we let use an account, a QOS and a partition is whom slurmctld lets: drawn wishes, submitted to a lab."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slurmsched.clock import local_zone
from slurmsched.cluster.sbatch_probe import Probe, Site, probe
from slurmsched.cluster.text.sbatch import read_job
from slurmsched.daemon.predictions.hypothetical_job import unix_groups
from slurmsched.errors import ConfigError
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

START_S = 20.0
"""In which an idle lab starts what it will ever start, and more than its scheduler needs for it."""

TOGETHER = 25
"""Jobs that are submitted before Slurm is asked what became of them."""

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""To shrink a batch takes a lab many minutes, and each of its jobs is short."""

PARTITIONS = {
    "astronomy": "AllowAccounts=astro",
    "pb": "DenyAccounts=Astro",
    "pc": "AllowQos=short,wide",
    "pd": "DenyQos=short",
    "pe": "AllowGroups=root",
    "pf": "RootOnly=YES",
    "pg": "DisableRootJobs=YES",
    "ph": "State=DRAIN",
    "pi": "State=INACTIVE",
    "pj": "ReqResv=YES",
    "pk": "AllowAccounts=bio",
    "pl": "QOS=wide",
    "pm": "DenyAccounts=bio",
}
USERS = ("alice", "carol", "erin", "frank", "gwen", "gwen", "operator", "root", "nobody")
ACCOUNTS = (None, None, "astro", "bio", "physics", "PHYSICS", "empty", "none-such", "")
QOS_LISTS = ("normal,short", "wide,normal", "short,Short", "normal,", "normal,none-such", "normal,booked", "a,,wide")
QOS = (None, None, "normal", "short", "Short", "wide", "booked", "none-such", "", *QOS_LISTS)
FAILED = "Batch job submission failed: "


@dataclass(frozen=True)
class Wish:
    """A job as a user writes it."""

    user: str
    script: bytes
    environment: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    partitions: tuple[str, ...]


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    """Draw who asks for what, and where he writes it."""
    partitions = draw(st.lists(st.sampled_from(["gpu", *PARTITIONS]), max_size=2, unique=True))
    values = {
        "account": draw(st.sampled_from(ACCOUNTS)),
        "qos": draw(st.sampled_from(QOS)),
        "partition": ",".join(partitions) or None,
    }
    lines, environment, argv = ["#!/bin/sh"], [], []
    for name, value in values.items():
        if value is None:
            continue
        place = draw(st.sampled_from(["script", "environment", "argv", "letter"]))
        if place == "environment" and value:
            environment.append((f"SBATCH_{name.upper()}", value))
        elif place == "script":
            lines.append(f"#SBATCH --{name}={value}")
        elif place == "letter" and value:
            argv += [f"-{ {'account': 'A', 'qos': 'q', 'partition': 'p'}[name] }", value]
        else:
            argv.append(f"--{name}={value}")
    script = "\n".join([*lines, "true", ""]).encode()
    user = draw(st.sampled_from(USERS))
    return Wish(user, script, tuple(environment), ("-t1", "--mem=10", *argv), tuple(partitions))


@dataclass(frozen=True)
class Bench:
    """A lab whose partitions and accounts are for some, and how we see it."""

    lab: Lab
    site: Site
    mode: str


@pytest.fixture(params=["NO", "ANY", "ALL"])
def bench(limited_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Bench]:
    lab, conf = limited_lab, limited_lab.layout.slurm_conf
    before = conf.read_text()
    kept = [line for line in before.splitlines() if "EnforcePartLimits" not in line]
    more = [f"PartitionName={name} Nodes=n[1-4] MaxTime=1:00:00 {words}" for name, words in PARTITIONS.items()]
    try:
        conf.write_text("\n".join([*kept, *more, f"EnforcePartLimits={request.param}", ""]))
        reconfigured(lab, request.param)
        cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([]))))
        state, may = cluster.observe(), cluster.known_facts().permissions
        yield Bench(lab, Site(state.partitions, state.nodes, state.limits, may, unix_groups), request.param)
    finally:
        lab.cancel_all()
        conf.write_text(before)
        reconfigured(lab, "ALL")


def reconfigured(lab: Lab, mode: str) -> None:
    lab.ask(["scontrol", "reconfigure"])
    words = lambda: "".join(lab.run(["scontrol", "show", "config"]).stdout.split())  # noqa: E731
    wait_until(lambda: f"EnforcePartLimits={mode}" in words(), 30.0, "a slurmctld with its new configuration")


def name_of(lab: Lab, user: str) -> str:
    return user if user in ("root", "nobody") else lab.user(user)


def submitted(lab: Lab, wish: Wish, *more: str) -> tuple[int, str]:
    """Submit a job and return its id, 0 where it is refused, with what sbatch said."""
    argv = ["sbatch", "--parsable", "-o", "/dev/null", *more, *wish.argv]
    if wish.user == "nobody":
        argv = [shutil.which("setpriv") or "", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *argv]
    command = lab.command(argv, None if wish.user in ("root", "nobody") else wish.user)
    environment = lab.env() | dict(wish.environment)
    done = subprocess.run(command, env=environment, input=wish.script, capture_output=True, cwd="/", timeout=60)
    return (int(done.stdout) if done.returncode == 0 else 0), done.stderr.decode()


def our_answer(bench: Bench, wish: Wish) -> Probe | str:
    """Return what we make of a job, or the words with which we refuse it."""
    try:
        options = read_job(wish.script, dict(wish.environment), " ".join(wish.argv))
        return probe(options, name_of(bench.lab, wish.user), time.time(), local_zone(), bench.site)
    except ConfigError as error:
        return str(error)


def differences(bench: Bench, batch: list[Wish]) -> list[str]:
    """Submit the jobs of *batch*, and return whom we let do otherwise than Slurm."""
    found: list[str] = []
    taken: dict[int, tuple[Wish, Probe]] = {}
    for wish in batch:
        ours = our_answer(bench, wish)
        job_id, words = submitted(bench.lab, wish)
        theirs = words.partition(FAILED)[2].strip()
        if isinstance(ours, str):
            # Of a list of partitions 22.05 says "not available" where one refuses behind one that takes the job.
            same = bench.mode == "ANY" and len(wish.partitions) > 1
            if job_id or not (theirs in ours or same):
                found.append(f"{wish}\n  we refuse: {ours}\n  Slurm: {words or 'takes it'}")
        elif not job_id:
            found.append(f"{wish}\n  we take it: {ours.not_understood}\n  Slurm refuses: {words}")
        else:
            taken[job_id] = wish, ours
    found += unlike(bench.lab, taken)
    bench.lab.cancel_all()
    return found


def unlike(lab: Lab, taken: dict[int, tuple[Wish, Probe]]) -> list[str]:
    """Return the jobs that have another account or QOS than we say, or of which we say wrongly whether they start."""
    by_words = {job_id: ours.job.reason[0] for job_id, (_, ours) in taken.items() if not ours.not_understood}
    starts = {job_id for job_id, reason in by_words.items() if reason == "Priority"}
    end_s = time.monotonic() + START_S
    while not starts <= ran(lab) and time.monotonic() < end_s:
        time.sleep(0.2)
    shown = lab.ask(["squeue", "-h", "-t", "all", "-o", "%A|%a|%q|%r|%P"])
    there = {int(job_id): rest for job_id, *rest in (line.split("|") for line in shown.splitlines())}
    did_start, found = ran(lab), []
    for job_id, (wish, ours) in taken.items():
        account, qos, reason, partition = there[job_id]
        # Slurm shows the one QOS of several that a job has started with.
        right = qos.lower() in (ours.job.qos[0].split(",") if job_id in did_start else [ours.job.qos[0]])
        if ours.job.account[0] != account or not right:
            found.append(f"{wish}\n  ours {ours.job.account[0]} {ours.job.qos[0]}, Slurm's {account} {qos}")
        if job_id in by_words and (job_id in starts) != (job_id in did_start):
            found.append(f"{wish}\n  ours {by_words[job_id]}, Slurm's {reason} in {partition}")
    return found


def ran(lab: Lab) -> set[int]:
    return set(map(int, lab.ask(["squeue", "-h", "-t", "R,CG,CD,F", "-o", "%A"]).split()))


def search(bench: Bench, batches: int, **more: object) -> None:
    """Draw *batches* of jobs and compare."""

    @settings(max_examples=batches, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck), **more)
    @given(st.lists(wishes(), min_size=TOGETHER, max_size=TOGETHER))
    def compare(batch: list[Wish]) -> None:
        found = differences(bench, batch)
        assert not found, "\n".join(found)

    compare()


def test_who_may_use_what_by_our_tables_may_use_it_by_slurm(bench):
    search(bench, 1)


@pytest.mark.soak
@pytest.mark.draws
def test_who_may_use_what_by_our_tables_may_use_it_by_slurm_in_many_cases(bench):
    search(bench, 50, derandomize=False)
