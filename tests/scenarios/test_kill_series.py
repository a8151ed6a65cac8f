"""Daemons killed at any moment on a Slurm with limits: no job is stranded without one, and release-all gives all back.

One kind at a time: ``pytest -m lab tests/scenarios/test_kill_series.py -k 'soak and steering'`` draws a hundred kills.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from lab_site import Site, fresh_names, history

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.reasons import Ends, ReasonKind, reason_of
from slurmsched.lab import Lab

FASTER_ON_V100 = "gpufan"
pytestmark = pytest.mark.attack

MOMENTS = (("answer", 1), ("record", 1), ("send", 1), ("observe", 2), ("answer", 2), ("send", 2))
PATIENCE_S = {1: 15.0, 2: 3.0}
"""How long a daemon lives whose moment does not come: the second cycle may have nothing to send."""


@dataclass(frozen=True)
class Kind:
    """Changes of one power: what is switched on, which jobs it changes, and how release-all says that they go back."""

    power: str
    jobs: Sequence[tuple[str, ...]]  #: options of each; the last word is the user
    shown: Callable[[Site], dict[int, str]]  #: what pending jobs have that may be ours
    words: str  #: behind the number of jobs
    sections: tuple[tuple[str, str], ...] = ()


def excluded(site: Site) -> dict[int, str]:
    rows = (line.split("|") for line in site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%A|%x"]).splitlines())
    return {int(job): nodes for job, nodes in rows}


def size(site: Site) -> dict[int, str]:
    fields = "JobID:12,NumCPUs:8,cpus-per-task:8,MinCpus:8,MinMemory:12"
    lines = site.lab.ask(["squeue", "-h", "--noconvert", "-t", "PD", "-O", fields]).splitlines()
    rows = (line.split() for line in lines)
    return {int(job): " ".join(texts) for job, *texts in rows}


def gpus(site: Site) -> dict[int, str]:
    lines = site.lab.ask(["squeue", "-h", "-t", "PD", "-O", "JobID:12,tres-per-node:40,tres-per-job:40"]).splitlines()
    rows = (line.split() for line in lines)
    return {int(job): " ".join(texts) for job, *texts in rows}


CKPT = ("--requeue", "-c1", "--mem=500")
KINDS = {
    "steering": Kind(
        "steer",
        (
            ("alice",),
            ("--mem=15000", "alice"),
            ("-c7", "alice"),
            ("-c6", "--mem=12000", "alice"),
            ("-psmall", "-c4", "--mem=8000", "alice"),
            ("-pfew", "-c4", "alice"),
            ("--qos=high", "-c4", "alice"),
            ("--gpus=5", "-N1", "alice"),
        ),
        excluded,
        "may start again on the nodes that we excluded",
    ),
    "rightsizing": Kind(
        "rightsize",
        tuple(
            ("--comment=slurmsched:cpus=1-8,mem=500M-16G", *options)
            for options in (
                ("-c6", "--mem=12000", "alice"),
                ("-c8", "--mem=16000", "alice"),
                ("-c1", "--mem=500", "alice"),
                ("-pnarrow", "-c6", "--mem=9000", "alice"),
                ("-pfew", "-c4", "--mem=12000", "alice"),
                ("-psmall", "-c1", "--mem=500", "alice"),
                ("-pdear", "-c6", "--mem=6000", "alice"),
                ("--qos=high", "-c4", "--mem=12000", "alice"),
                ("-c4", "--mem=12000", "carol"),
                ("--gres=gpu:v100:1", "-c6", "--mem=12000", "alice"),
            )
        ),
        size,
        "with their own CPUs and memory again",
        (("rightsize", "again_s = 0\ndespite_limits = true"),),
    ),
    "resizing": Kind(
        "resize",
        tuple(
            (*CKPT, *options)
            for options in (
                ("--gres=gpu:2", "--comment=slurmsched:gpus=1-4,ckpt", "alice"),
                ("--gres=gpu:v100:2", "--comment=slurmsched:gpus=1-8,ckpt", "alice"),
                ("--gpus=3", "-N1", "--comment=slurmsched:gpus=2-8,ckpt", "alice"),
                ("-psmall", "--gres=gpu:1", "--comment=slurmsched:gpus=1-4,ckpt", "alice"),
                ("--qos=low", "--gres=gpu:2", "--comment=slurmsched:gpus=1-4,ckpt", "alice"),
                ("--qos=high", "--gres=gpu:1", "--comment=slurmsched:gpus=1-4,ckpt", "alice"),
                ("--gres=gpu:2", "--comment=slurmsched:gpus=1-8,ckpt", "carol"),
                ("-pfew", "--gres=gpu:1", "-c4", "--comment=slurmsched:gpus=1-8,ckpt", "alice"),
            )
        ),
        gpus,
        "the GPUs back that they asked for",
        (("resize", "least_s = 1\nrestart_s = 5"), ("deadline", "stop_s = 30")),
    ),
}


@pytest.fixture
def lab(limited_lab: Lab) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    yield limited_lab
    limited_lab.cancel_all()


def site_of(lab: Lab, kind: Kind) -> Site:
    """A site with the power; alice's jobs of the kind are four times as fast on V100."""
    powers = f"order = true\nhold = true\nrequeue = true\n{kind.power} = true"
    made = Site.of(lab, power=powers, policy="ordering = 'fifo'", **dict(kind.sections))
    runs = history(lab, made.names).take(slice(0, 6))
    alike = {"user": Labels.of([lab.user("alice")] * 6), "name": Labels.of([FASTER_ON_V100] * 6)}
    types = {"runtime_s": np.array([4000.0, 1000.0] * 3), "gpu_type": Labels.of(["a100", "v100"] * 3)}
    with made.store() as store:
        more = replace(runs, job_id=runs.job_id + 500_000, **alike, **types, gpus=np.full(6, 1))
        store.add_outcomes(lab.cluster, more)
    return made


def learn_anew(site: Site, number: int) -> None:
    """Other names of jobs with the same history: those of before have run by now, and ended at once."""
    site.names[:] = fresh_names()
    runs = history(site.lab, site.names)
    with site.store() as store:
        store.add_outcomes(site.lab.cluster, replace(runs, job_id=runs.job_id + 1_000 * (number + 1)))


def fill(site: Site) -> list[int]:
    """Jobs on all GPUs of each node that end soon by their forecast, and not in truth."""
    usual = ("-c1", "--mem=100", "-t30", f"-J{site.names[3]}", "--wrap=sleep 1200", "-o/dev/null")
    each = {"n1": 4, "n2": 4, "n3": 8, "n4": 8}
    jobs = [site.lab.submit(f"--gres=gpu:{many}", f"-w{node}", *usual, user="bob") for node, many in each.items()]
    site.until(lambda: all(site.states()[job] == "RUNNING" for job in jobs), "a full lab")
    return jobs


def submit(site: Site, kind: Kind) -> list[int]:
    """Each job of the kind twice."""
    name = site.names[0] if kind.power == "resize" else FASTER_ON_V100  # the longest by history
    usual = ("-t10", f"-J{name}", "--wrap=true", "-o/dev/null")
    jobs = []
    for *options, user in [*kind.jobs, *kind.jobs]:
        own = () if any(option.startswith(("--gres", "--gpus")) for option in options) else ("--gres=gpu:1",)
        jobs.append(site.lab.submit(*usual, *own, *options, user=user))
    return jobs


def stranded(reasons: set[str]) -> set[str]:
    """Those of *reasons* that waiting does not end."""
    found = {text: reason_of(text) for text in reasons}
    never = {text for text, one in found.items() if one.kind is ReasonKind.CANNOT_RUN}
    return never | {text for text, one in found.items() if one.limit is not None and one.limit.ends is Ends.NEVER}


def survive(site: Site, kind: Kind, kills: int) -> int:
    """Kill so many daemons; return how many changes they left."""
    left = 0
    for number, (moment, cycle) in enumerate(itertools.islice(itertools.cycle(MOMENTS), kills)):
        learn_anew(site, number)
        fillers, jobs = fill(site), submit(site, kind)
        own = kind.shown(site)
        site.kill_at(moment, cycle, patience_s=PATIENCE_S[cycle])
        held = jobs[: len(jobs) // 2]
        site.lab.ask(["scontrol", "hold", ",".join(map(str, held))])
        site.lab.run(["scancel", *map(str, fillers)])
        assert stranded(site.completed_without_a_daemon(jobs[len(held) :])) == set()
        # Counted only now: the scontrol of a daemon that was killed goes on with what it was given.
        changed = sum(text != own[job] for job, text in kind.shown(site).items() if job in held)
        left += changed
        done = site.run("release-all")
        assert done.returncode == 0, done.stdout
        told = re.search(rf"(\d+) jobs? (?:have )?{re.escape(kind.words)}", done.stdout)
        assert int(told[1] if told else 0) == changed, done.stdout
        present = kind.shown(site)
        assert {job: present[job] for job in held} == {job: own[job] for job in held}
        assert set(site.points().values()) <= {0}
        site.lab.ask(["scontrol", "release", ",".join(map(str, held))])
        assert stranded(site.completed_without_a_daemon(held)) == set()
        print(
            f"kill {number + 1} as {moment} of cycle {cycle} began left {changed} changes, all given back", flush=True
        )
    return left


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.soak, id="soak")])
@pytest.mark.parametrize("name", KINDS)
def test_after_each_kill_every_job_starts_without_a_daemon_and_release_all_gives_all_back(lab, name, kills):
    site, began_s = site_of(lab, KINDS[name]), time.monotonic()
    kills = int(os.environ.get("SLURMSCHED_KILLS", kills))
    left = survive(site, KINDS[name], kills)
    print(f"{name}: {kills} kills in {time.monotonic() - began_s:.0f} s left {left} changes")
    assert left, "some daemons were killed after a write"
