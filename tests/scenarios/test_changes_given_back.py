"""A change of ours that keeps a job from starting on a real Slurm goes back, whatever made it so, and stays back."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from lab_site import Site
from sized_jobs import submit_sized
from test_kill_series import KINDS, site_of
from test_kill_series import fill as fill_with_short_jobs
from test_kill_series import submit as submit_each

from slurmsched.cluster.actions import MovePartition, Resize, Rightsize, Steer
from slurmsched.lab import Lab

SMALL, LARGE = "cpus=2,task=2,node=2,mem=4000Mn", "cpus=3,task=3,node=3,mem=7000Mn"
REFUSED_LARGE = "cpus=3,task=3,node=3,mem=12000Mn"


@pytest.fixture
def site(limited_lab: Lab) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    powers = "order = true\nrightsize = true\nsteer = true\nresize = true\nhold = true\nrequeue = true"
    yield Site.of(limited_lab, power=powers, policy="ordering = 'fifo'")
    partition(limited_lab, maxmempernode=8000, maxcpuspernode=4, maxnodes="unlimited")
    limited_lab.cancel_all()


def partition(lab: Lab, **limits: object) -> None:
    """Change limits of the partition small."""
    lab.ask(["scontrol", "update", "partitionname=small", *(f"{name}={value}" for name, value in limits.items())])


def submit(site: Site, *options: str, gres: str = "gpu:1") -> int:
    """A job of alice for two CPUs and 4,000 MiB on a node of a lab that is full."""
    usual = ("-c2", "--mem=4000", "-t10", "-psmall", f"-J{site.names[0]}", "--wrap=sleep 600", "-o/dev/null")
    return site.lab.submit(f"--gres={gres}", *usual, *options, user="alice")


def fill(site: Site) -> int:
    options = ("-N4", "--exclusive", "--mem=1000", "-t30", f"-J{site.names[3]}", "--wrap=sleep 1200", "-o/dev/null")
    job = site.lab.submit(*options, user="bob")
    site.until(lambda: site.states()[job] == "RUNNING", "a full lab")
    return job


def shown(site: Site, job: int) -> tuple[str, ...]:
    """The reason of a pending job, and its priority, excluded nodes, CPUs, memory and GPUs."""
    one = site.lab.ask(["squeue", "-h", "-j", str(job), "-o", "%r|%Q|%x"]).strip().split("|")
    fields = ["squeue", "-h", "--noconvert", "-j", str(job), "-O", "MinCpus:8,MinMemory:12,tres-per-node:30"]
    return (*one, *site.lab.ask(fields).split())


OWN = ("", "2", "4000M", "gres:gpu:1")


def kinds(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in site.said("story", str(job)).get("story", [])]


def too_much_memory(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site)
    assert site.act(Rightsize(job, SMALL, SMALL, LARGE)) == [None]
    partition(site.lab, maxmempernode=5000)
    return filler, job


def too_many_cpus(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site)
    assert site.act(Rightsize(job, SMALL, SMALL, LARGE)) == [None]
    partition(site.lab, maxcpuspernode=2)
    return filler, job


def half_taken(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site)
    (refused,) = site.act(Rightsize(job, SMALL, SMALL, REFUSED_LARGE))
    assert refused is not None
    assert "Requested partition configuration not available now" in refused
    return filler, job


def no_nodes_left(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site)
    assert site.act(Steer(job, "v100", "n[1-4]")) == [None]
    return filler, job


def refused_and_taken_over(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site)
    partition(site.lab, maxmempernode=3000)
    site.until(lambda: shown(site, job)[0] == "MaxMemPerLimit", "a limit against the job")
    refused = site.act(Steer(job, "v100", "n[1-2]"), Resize(job, 2, 1, 1))
    assert None not in refused
    assert shown(site, job)[2:] == ("n[1-2]", "2", "4000M", "gres:gpu:2"), "Slurm took over what it refused"
    partition(site.lab, maxmempernode=8000)
    return filler, job


def nodes_half_taken(site: Site) -> tuple[int, int]:
    filler, job = fill(site), submit(site, "-N1", "-n1")
    partition(site.lab, maxmempernode=3000)
    (refused,) = site.act(Resize(job, 2, 1, 1, 1))
    assert refused is not None
    assert "Requested partition configuration not available now" in refused
    partition(site.lab, maxmempernode=8000)
    assert nodes(site, job) == ["2", "4", "2"], "Slurm took a part"
    site.until(lambda: shown(site, job)[0] == "Resources", "a look of slurmctld, after which NumNodes is 2")
    return filler, job


def nodes(site: Site, job: int) -> list[str]:
    """The most nodes of a pending job, its CPUs and its tasks."""
    return site.lab.ask(["squeue", "-h", "-j", str(job), "-O", "MaxNodes:8,NumCPUs:8,NumTasks:8"]).split()


BLOCKED = [too_much_memory, too_many_cpus, half_taken, no_nodes_left, refused_and_taken_over, nodes_half_taken]
OFTEN = {
    ("a daemon", too_much_memory),
    ("release-all", half_taken),
    ("an ordered stop", refused_and_taken_over),
    ("a daemon", nodes_half_taken),
    ("an ordered stop", nodes_half_taken),
}
CASES = [
    pytest.param(healer, blocked, id=f"{healer}-{blocked.__name__}", marks=[pytest.mark.soak] * (one not in OFTEN))
    for one in itertools.product(("a daemon", "release-all", "an ordered stop"), BLOCKED)
    for healer, blocked in [one]
]


@pytest.mark.parametrize(("healer", "blocked"), CASES)
def test_a_job_that_our_change_blocks_has_its_own_back_and_starts(site, healer, blocked):
    filler, job = blocked(site)
    if healer == "release-all":
        done = site.run("release-all")
        assert done.returncode == 0, done.stdout
        assert " 1 job" in done.stdout
    else:
        with site.daemon() as process:
            if healer == "an ordered stop":
                process.send_signal(signal.SIGTERM)
                assert process.wait(90.0) == 0
            site.until(lambda: shown(site, job)[2:] == OWN, "its own request")
            if blocked is nodes_half_taken:
                site.until(lambda: nodes(site, job) == ["1", "2", "1"], "its own nodes")
            if healer == "a daemon" and blocked is not refused_and_taken_over:
                site.until(lambda: "given back" in kinds(site, job), "the story")
                site.until(lambda: "We had changed" in " ".join(site.said("why", str(job))["why"]["details"]), "why")
    assert shown(site, job)[2:] == OWN
    assert nodes(site, job)[1:] == ["2", "1"]
    partition(site.lab, maxmempernode=8000, maxcpuspernode=4)
    site.lab.run(["scancel", str(filler)])
    site.until(lambda: site.states()[job] == "RUNNING", "the job, without a daemon")


@pytest.mark.parametrize("healer", ["a daemon", pytest.param("release-all", marks=pytest.mark.soak)])
def test_a_job_that_does_not_start_in_the_partition_that_we_chose_is_in_its_own_ones_again(site, healer):
    filler, job = fill(site), submit(site, "-psmall,gpu")

    def where() -> str:
        return site.lab.ask(["squeue", "-h", "-j", str(job), "-o", "%P"]).strip()

    assert site.act(MovePartition(job, "small", "small,gpu")) == [None]
    assert where() == "small"
    partition(site.lab, maxnodes=0)
    site.until(lambda: shown(site, job)[0] == "PartitionNodeLimit", "a job that small does not start")
    if healer == "a daemon":
        with site.daemon():
            site.until(lambda: where() == "small,gpu", "its own partitions")
            site.until(lambda: "given back" in kinds(site, job), "the story")
            site.until(
                lambda: "We had changed its partitions" in " ".join(site.said("why", str(job))["why"]["details"]), "why"
            )
    else:
        done = site.run("release-all")
        assert (done.returncode, "1 job in their own partitions again" in done.stdout) == (0, True), done.stdout
    assert where() == "small,gpu"
    site.lab.run(["scancel", str(filler)])
    site.until(lambda: site.states()[job] == "RUNNING", "the job, without a daemon")
    assert where() == "gpu"


@pytest.mark.attack
@pytest.mark.soak
def test_while_slurmdbd_is_away_only_what_is_ours_goes_back_and_status_and_check_say_why(limited_lab, site):
    sections = tuple(section for kind in KINDS.values() for section in kind.sections)
    powers = " = true\n".join(kind.power for kind in KINDS.values())
    site = site_of(limited_lab, replace(KINDS["steering"], power=powers, sections=sections))
    fill_with_short_jobs(site)
    sized = submit(site, "--comment=slurmsched:cpus=1-8,mem=500M-16G")
    assert site.act(Rightsize(sized, SMALL, SMALL, LARGE)) == [None]
    with site.daemon():
        site.lab.stop_slurmdbd()
        try:
            words = "for its limits are not known"
            site.until(lambda: words in site.said("status")["degraded"], "a status that tells", 300.0)
            checked = {found["name"]: found for found in site.said("check")["findings"]}["limits of jobs"]
            assert not checked["ok"]
            assert "slurmdbd does not answer" in checked["text"]
            jobs = {name: submit_each(site, kind) for name, kind in KINDS.items()}
            own = {name: kind.shown(site) for name, kind in KINDS.items()}
            site.more_cycles(4)
            for name, kind in KINDS.items():
                now = kind.shown(site)
                assert {job: now[job] for job in jobs[name]} == {job: own[name][job] for job in jobs[name]}, name
            assert shown(site, sized)[2:] != OWN
            partition(site.lab, maxmempernode=4500)
            site.until(lambda: shown(site, sized)[2:] == OWN, "its own CPUs and memory")
        finally:
            site.lab.start_slurmdbd()
    assert "Traceback" not in site.log


@pytest.mark.soak
def test_a_job_is_stopped_once_at_most_for_gpus_that_a_limit_forbids(limited_lab):
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    powers = "order = true\nhold = true\nrequeue = true\nresize = true"
    terms = {"resize": "least_s = 1\nrestart_s = 5", "deadline": "stop_s = 30"}
    site = Site.of(limited_lab, power=powers, policy="ordering = 'fifo'", **terms)
    one = submit_sized(site, 240, 0.5, f"-J{site.names[0]}", "--qos=high", "--mem=500")
    site.until(lambda: one.steps, "the first step, on two GPUs")
    with site.daemon():
        site.until(lambda: site.states()[one.job] == "COMPLETED", "the end of the job", 300.0)
        story = kinds(site, one.job)
    assert story.count("asked to stop") <= 1
    assert {gpus for _, gpus, _ in one.steps} == {2}
    assert [step for step, _, _ in one.steps] == list(range(240))
