"""Right-sizing on a real Slurm: jobs that ask for too much let others onto the node, and what a kill leaves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from lab_site import Site

from slurmsched.lab import Lab

ASKED, GIVEN = (6, 12_000), (2, 4_000)
"""CPUs and memory of a job for one GPU of four, on nodes of 8 CPUs and 16,000 MiB: its own, and its GPU's part."""


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    yield Site.of(lab, power="order = true\nrightsize = true", rightsize="again_s = 0", policy="ordering = 'fifo'")
    lab.cancel_all()


def fill(site: Site) -> int:
    """A job on all nodes."""
    job = site.lab.submit(
        "--gres=gpu:4", "-N4", "-c8", "-t", "30", f"-J{site.names[3]}", "--wrap=sleep 1200", "-o/dev/null", user="bob"
    )
    site.until(lambda: site.states()[job] == "RUNNING", "a job on all nodes")
    return job


def submit(site: Site, *options: str, comment: str = "slurmsched:cpus=1-6,mem=1G-12G", run: str = "sleep 600") -> int:
    return site.lab.submit(
        *("--gres=gpu:1", "-t", "10", "-Jgreedy", f"--wrap={run}", "-o/dev/null", f"--comment={comment}"),
        *(options or ("-c6", "--mem=12000")),
        user="alice",
    )


def sizes(site: Site) -> dict[int, tuple[int, int]]:
    """CPUs and MiB per node of pending jobs."""
    listed = site.lab.ask(["squeue", "-h", "--noconvert", "-t", "PD", "-O", "JobID:12,MinCpus:8,MinMemory:12"])
    rows = (line.split() for line in listed.splitlines())
    return {int(job): (int(cpus), int(memory.rstrip("M"))) for job, cpus, memory in rows}


def node_of(site: Site, job: int) -> str:
    return site.lab.ask(["squeue", "-h", "-t", "R", "-j", str(job), "-o", "%N"]).strip()


def free(site: Site, *jobs: int) -> None:
    site.lab.run(["scancel", *map(str, jobs)])


def until_told(site: Site, job: int, words: str, command: str = "why") -> None:
    part = "details" if command == "why" else "sentences"
    site.until(lambda: words in " ".join(site.said(command, str(job))[command][part]), words)


def test_jobs_that_asked_for_too_much_share_a_node_and_no_other_job_is_touched(site):
    filler = fill(site)
    ours = [submit(site, "-w", "n1", "-c6", "--mem=12000") for _ in range(3)]
    silent, per_gpu = submit(site, comment=""), submit(site, "--cpus-per-gpu=6", "--mem=12000")
    raised = submit(site, "-c1", "--mem=1000", comment="slurmsched:cpus=1-2,mem=1000")
    whole = {silent: ASKED, per_gpu: (1, 12_000), raised: (1, 1_000)}
    with site.daemon():
        site.until(lambda: sizes(site) == dict.fromkeys(ours, GIVEN) | whole, "three jobs with the part of their GPU")
        until_told(site, ours[0], "We let it ask for 2 CPUs and 4000 MiB; its owner asked for 6 CPUs and 12000 MiB.")
        until_told(site, ours[0], "We let it ask for 2 CPUs", "explain")
        free(site, filler)
        site.until(lambda: all(node_of(site, job) == "n1" for job in ours), "three jobs on one node")
        allocated = site.lab.ask(["squeue", "-h", "-t", "R", "-j", ",".join(map(str, ours)), "-o", "%C %m"]).split()
        assert allocated == ["2", "4000M"] * 3
        sized = [event for event in site.said("story", str(ours[0]))["story"] if event["kind"] == "sized"]
        assert "sized" not in [event["kind"] for event in site.said("story", str(silent))["story"]]
    assert site.said("replay", str(sized[0]["details"]["cycle"]))["identical"]


def test_what_a_user_changes_later_stays(site):
    fill(site)
    job, reverted = submit(site), submit(site)
    with site.daemon():
        site.until(lambda: sizes(site) == dict.fromkeys((job, reverted), GIVEN), "both jobs sized")
        until_told(site, job, "We let it ask for 2 CPUs")
        until_told(site, reverted, "We let it ask for 2 CPUs")
        site.more_cycles(2)  # an owner's own values count as a later wish only after the daemon saw its own in force
        for which, cpus, memory in ((job, 4, 9_000), (reverted, *ASKED)):
            words = f"numcpus={cpus} cpuspertask={cpus} mincpusnode={cpus} minmemorynode={memory}".split()
            site.lab.ask(["scontrol", "update", f"jobid={which}", *words], user="alice")
        theirs = {job: (4, 9_000), reverted: ASKED}
        for which in theirs:
            until_told(site, which, "Somebody has changed its CPUs or memory after us")
        assert sizes(site) == theirs
    assert site.run("release-all").returncode == 0
    assert sizes(site) == theirs


@pytest.mark.parametrize("phase", ["send", "answer", "record"])
def test_after_a_kill_between_two_steps_a_job_can_start_and_release_all_gives_its_own_back(site, phase):
    filler = fill(site)
    jobs = [submit(site), submit(site, "-c6", "--mem-per-cpu=2000")]
    site.kill_at(phase)
    if phase != "send":
        assert sizes(site) == dict.fromkeys(jobs, GIVEN)
    done = site.run("release-all")
    assert done.returncode == 0, done.stderr
    assert sizes(site) == {jobs[0]: ASKED, jobs[1]: (6, 2_000)}
    site.kill_at(phase)
    free(site, filler)
    site.until(lambda: all(node_of(site, job) for job in jobs), "jobs that start without a daemon")


def test_an_ordered_stop_gives_a_jobs_own_back_and_the_power_switched_off_does_too(site):
    fill(site)
    job = submit(site)
    with site.daemon() as process:
        site.until(lambda: sizes(site) == {job: GIVEN}, "a job that is sized")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120.0) == 0
    assert sizes(site) == {job: ASKED}
    with site.daemon() as process:
        site.until(lambda: sizes(site) == {job: GIVEN}, "a job that is sized again")
        site.write(power="order = true")
        process.send_signal(signal.SIGHUP)
        site.until(lambda: sizes(site) == {job: ASKED}, "what its owner asked for")
