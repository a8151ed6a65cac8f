"""What a job may have where nodes keep something for themselves and partitions have limits, on a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pytest
from lab_site import Site, history

from slurmsched.cluster.columns import Labels
from slurmsched.lab import Lab

FASTER_ON_V100 = "gpufan"
POWER = "order = true\nsteer = true\nrightsize = true\nresize = true\nrequeue = true\nmigrate = true"
SIZED = "slurmsched:cpus=1-8,mem=100M-15000M"
FILLS = ("-c1", "--mem=100", "-t30", "--wrap=sleep 1200", "-o/dev/null")


@pytest.fixture
def site(limited_lab: Lab) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    terms = {
        "rightsize": "again_s = 0\ndespite_limits = true",
        "resize": "least_s = 1\nrestart_s = 5",
        "steer": "patience_s = 3600",
    }
    made = Site.of(limited_lab, power=POWER, policy="ordering = 'fifo'", **terms)
    learn(made)
    yield made
    limited_lab.cancel_all()


def learn(site: Site) -> None:
    """Three runs on each type of a job of alice that is four times as fast on V100."""
    runs = history(site.lab, site.names).take(slice(0, 6))
    names, took_s = Labels.of([FASTER_ON_V100] * 6), np.array([4000.0, 1000.0] * 3)
    known = replace(runs, job_id=runs.job_id + 500_000, user=Labels.of([site.lab.user("alice")] * 6), name=names)
    types = Labels.of(["a100", "v100"] * 3)
    with site.store() as store:
        store.add_outcomes(site.lab.cluster, replace(known, runtime_s=took_s, gpu_type=types, gpus=np.full(6, 1)))


def submit(site: Site, *options: str, comment: str = "", gres: str = "gpu:1", name: str = "gpulimit") -> int:
    return site.lab.submit(
        *(f"--gres={gres}", "-t1", f"-J{name}", "--wrap=true", "-o/dev/null", "--requeue", f"--comment={comment}"),
        *options,
        user="alice",
    )


def soon(site: Site, *options: str, gres: str = "gpu:4", **more: str) -> int:
    """A job that may start in a minute, on nodes that are free: it could have more than it asks for."""
    return submit(site, "--begin=now+55", *options, gres=gres, **more)


def asked(site: Site, jobs: Collection[int]) -> dict[int, list[int]]:
    """CPUs, and MiB of a node, that waiting jobs ask for."""
    fields = "JobID:12,NumCPUs:8,MinCpus:8,MinMemory:12"
    listed = site.lab.ask(["squeue", "-h", "--noconvert", "-t", "PD", "-O", fields])
    rows = [line.replace("M", "").split() for line in listed.splitlines()]
    return {int(job): [int(cpus), int(least), int(memory)] for job, cpus, least, memory in rows if int(job) in jobs}


PASSING = {
    "None",
    "Priority",
    "Resources",
    "BeginTime",
    # While jobs of a partition of a higher tier wait for the same nodes; seen of all that were released at once.
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
}
"""Reasons that end by themselves."""


def run_without_a_daemon(site: Site, jobs: Collection[int]) -> None:
    site.lab.run(["scontrol", "update", f"jobid={','.join(map(str, jobs))}", "starttime=now"])  # some may run by now
    assert site.completed_without_a_daemon(jobs) <= PASSING


def test_what_a_job_may_have_of_nodes_and_partitions_is_read(site):
    state = site.cluster().observe()
    nodes = dict(zip(state.nodes.name, zip(state.nodes.cpus, state.nodes.memory_mib, strict=True), strict=True))
    assert nodes == dict.fromkeys(("n1", "n2"), (8, 16_000)) | dict.fromkeys(("n3", "n4"), (6, 12_000))
    parts = state.partitions
    columns = zip(parts.node_cpus, parts.node_memory_mib, parts.cpu_memory_mib, strict=True)
    limits = dict(zip(parts.name, columns, strict=True))
    assert limits == {
        "gpu": (0, 0, 0),
        "narrow": (0, 9000, 0),
        "few": (4, 0, 0),
        "small": (4, 8000, 0),
        "dear": (0, 0, 1000),
        "each": (0, 0, 0),
    }


def test_no_job_is_given_more_cpus_or_memory_than_it_may_have_and_all_run_without_a_daemon(site):
    """By whole nodes each would have eight CPUs and 15,000 MiB, or the fewer CPUs that belong to its GPU."""
    more = ("-c2", "--mem=4000")
    given_to = {
        soon(site, "-pnarrow", "-wn1", *more, comment=SIZED): [8, 8, 9_000],
        soon(site, "-pfew", "-wn2", *more, comment=SIZED): [4, 4, 15_000],
        soon(site, "-wn3", *more, gres="gpu:8", comment=SIZED): [6, 6, 12_000],
        soon(site, "-pdear", "-wn4", "-c6", "--mem=6000", gres="gpu:1", comment="slurmsched:cpus=1-6,mem=4000-6000"): [
            *(4, 4, 4_000)
        ],
    }
    site.kill_series(("record", 1), ("record", 1))
    assert asked(site, given_to) == given_to
    run_without_a_daemon(site, given_to)


def test_no_job_is_sent_to_nodes_or_given_gpus_of_some_that_may_not_give_it_the_rest(site):
    fillers = [
        site.lab.submit("-wn[1-2]", "-N2", "--gres=gpu:4", *FILLS, user="bob"),
        site.lab.submit("-wn[3-4]", "-N2", "--gres=gpu:8", *FILLS, user="bob"),
    ]
    site.until(lambda: all(site.states()[job] == "RUNNING" for job in fillers), "full nodes")
    wide = "slurmsched:gpus=1-8,ckpt"
    jobs = [
        submit(site, "-c7", gres="gpu:2", comment=wide, name="gpuwide"),
        submit(site, "-peach", gres="gpu:2", comment=wide, name="gpuwide"),
        submit(site, "-pfew", "-c3", gres="gpu:2", comment=wide, name="gpuwide"),
        submit(site, "-c7", name=FASTER_ON_V100),
        submit(site, "--mem=15000", name=FASTER_ON_V100),
        sent := submit(site, "-c6", "--mem=12000", name=FASTER_ON_V100),
    ]
    site.kill_series(("record", 1), ("record", 2))
    rows = [line.split("|") for line in site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%A|%b|%x"]).splitlines()]
    gpus = {int(job): int(gres.rpartition(":")[2]) for job, gres, _ in rows}
    excluded = {int(job): nodes for job, _, nodes in rows if nodes}
    assert gpus[jobs[0]] <= 4
    assert gpus[jobs[1]] == 2
    assert set(excluded) == {sent}, "where it may have all, a job is sent"
    assert excluded[sent] in ("n[1-2]", "n[3-4]"), "the better one hangs on forecasts, and so on jobs of other tests"
    site.lab.run(["scancel", *map(str, fillers)])
    run_without_a_daemon(site, jobs)
