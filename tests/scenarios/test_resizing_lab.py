"""Numbers of GPUs on a real Slurm: jobs start with those that serve best, come back with others, and lose nothing."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator

import pytest
from lab_site import Site
from sized_jobs import RUN_ON_ALL_NODES, SizedJob, nodes_asked, requests, submit_sized, tasks_on_nodes

from slurmsched.cluster.text.hostlist import expand
from slurmsched.lab import Lab

POWER = "order = true\nhold = true\nrequeue = true\nresize = true"
PHASES = ("send", "answer", "record")
"""Of a cycle, those at which a kill leaves other things behind."""


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    yield elastic(lab)
    lab.cancel_all()


@pytest.fixture
def typed_site(typed_lab: Lab) -> Iterator[Site]:
    yield elastic(typed_lab)
    typed_lab.cancel_all()


def elastic(lab: Lab) -> Site:
    """A site whose daemon changes sizes; by its history the jobs here take longer than their time limit."""
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    terms = {"resize": "least_s = 1\nrestart_s = 5", "deadline": "stop_s = 30"}
    return Site.of(lab, power=POWER, policy="ordering = 'fifo'", **terms)


def fill(site: Site, gpus: int = 4, nodes: str = "n[1-4]", *, soon: bool = False) -> list[int]:
    """Jobs of bob that take so many GPUs of each of some nodes; they end *soon* by their forecast, not in truth."""
    name = site.names[2 if soon else 0]
    jobs = [
        site.lab.submit(
            f"--gres=gpu:{gpus}",
            "-c1",
            "-t30",
            f"-w{node}",
            f"-J{name}",
            "--wrap=sleep 1200",
            "-o/dev/null",
            user="bob",
        )
        for node in expand(nodes)
    ]
    site.until(lambda: all(site.states()[job] == "RUNNING" for job in jobs), "full nodes")
    return jobs


def free(site: Site, *jobs: int) -> None:
    site.lab.run(["scancel", *map(str, jobs)])


def story(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in site.said("story", str(job)).get("story", [])]


def ended_whole(site: Site, one: SizedJob, steps: int) -> list[int]:
    """Wait for the end of a job that did each step once, with as many samples; return the GPUs of its runs."""
    site.until(lambda: site.states().get(one.job) == "COMPLETED", f"the end of job {one.job}", 300.0)
    assert [step for step, _, _ in one.steps] == list(range(steps)), "no step is lost and none is done twice"
    assert {samples for _, _, samples in one.steps} == {192}, "the batch is the same on any number of GPUs"
    return [gpus for gpus, _ in itertools.groupby(gpus for _, gpus, _ in one.steps)]


@pytest.mark.soak
def test_a_job_is_grown_when_the_queue_empties_does_every_step_once_and_ends_sooner(site):
    steps, step_s = 300, 0.5
    fillers = fill(site, nodes="n[2-4]") + fill(site, gpus=2, nodes="n1")
    one = submit_sized(site, steps, step_s, f"-J{site.names[0]}")
    site.until(lambda: one.steps, "the first step, on two GPUs")
    began_s = time.time()
    with site.daemon():
        free(site, fillers[-1])
        site.until(lambda: "asked to stop" in story(site, one.job), "the question to the running job")
        site.until(lambda: any(gpus == 4 for _, gpus, _ in one.steps), "steps on four GPUs")
        words = "By us it runs on 4 GPUs, its owner asked for 2."
        site.until(lambda: words in site.said("explain", str(one.job))["explain"]["sentences"], words)
        assert ended_whole(site, one, steps) == [2, 4]
        assert {"asked to stop", "requeued", "resized"} <= set(story(site, one.job))
        assert time.time() - began_s < steps * step_s, "what it takes on two GPUs"
    free(site, *fillers)


@pytest.mark.soak
def test_a_running_job_comes_back_smaller_for_one_that_would_wait_for_long(site):
    fillers, steps = fill(site, nodes="n[2-4]"), 160
    one = submit_sized(site, steps, 0.5, f"-J{site.names[0]}", gres="--gres=gpu:4")
    site.until(lambda: one.steps, "the first step, on four GPUs")
    with site.daemon():
        long = ("-c1", "-t20", f"-J{site.names[0]}")  # by its forecast: else the other one waits for its end
        new = site.lab.submit("--gres=gpu:2", *long, "--wrap=sleep 20", "-o/dev/null", user="bob")
        site.until(lambda: site.states().get(new) == "COMPLETED", "the end of the job that waited")
        assert len(one.steps) < steps, "it did not wait for the end of the other one"
        assert ended_whole(site, one, steps)[:2] == [4, 2]
    free(site, *fillers)


def test_a_waiting_job_starts_on_fewer_gpus_and_no_other_job_is_changed(site):
    fillers = fill(site, nodes="n[2-4]") + fill(site, gpus=2, nodes="n1")
    ours = submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres="--gres=gpu:4")
    theirs = submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres="--gres=gpu:4", comment="slurmsched:ckpt")
    with site.daemon():
        assert ended_whole(site, ours, 4) == [2], "two GPUs are free on n1"
        sent = [event for event in site.said("story", str(ours.job))["story"] if event["kind"] == "resized"]
        assert [event["details"]["value"] for event in sent] == ["2 4"]
        site.more_cycles(2)
        assert requests(site)[theirs.job] in ("gres:gpu:4", "gres/gpu:4")
        free(site, *fillers)
        assert ended_whole(site, theirs, 4) == [4]
    assert site.said("replay", str(sent[0]["details"]["cycle"]))["identical"]


def test_a_job_that_leaves_its_number_of_nodes_to_slurm_is_left_alone_also_while_it_runs_and_when_it_comes_back(site):
    by_nodes(site)
    fillers = fill(site, nodes="n[2-4]") + fill(site, gpus=3, nodes="n1")
    one = submit_sized(
        site, 600, 0.2, f"-J{site.names[0]}", "-N1-2", gres="--gres=gpu:2", comment="slurmsched:gpus=2-8,ckpt"
    )
    own = requests(site)[one.job]
    words = "It keeps its number of GPUs: Slurm gives it 1-2 nodes, with as many GPUs on each (say --nodes=N)."
    with site.daemon():
        site.until(lambda: words in site.said("why", str(one.job))["why"]["details"], words)
        free(site, fillers[-1])
        site.until(lambda: one.steps, "the first step, on the one node that is free")
        free(site, fillers[0])
        site.more_cycles(4)
        assert "asked to stop" not in story(site, one.job)
        site.lab.run(["scontrol", "requeue", str(one.job)])
        site.until(lambda: site.states()[one.job] == "PENDING", "it waits again")
        site.more_cycles(2)
        assert requests(site)[one.job] == own
        assert "resized" not in story(site, one.job)
    free(site, *fillers, one.job)


def test_a_typed_job_keeps_its_type(typed_site):
    site, comment = typed_site, "slurmsched:gpus=1-2,ckpt"
    fillers = fill(site, 2, "n[1-3]") + fill(site, 1, "n4")
    jobs = [
        submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres=gres, comment=comment)
        for gres in ("--gres=gpu:v100:2", "--gpus=v100:2")
    ]
    with site.daemon():
        assert [ended_whole(site, one, 4) for one in jobs] == [[1], [1]], "a V100 of n4 is free"
        nodes = [site.lab.ask(["squeue", "-h", "-t", "all", "-j", str(one.job), "-o", "%N"]).strip() for one in jobs]
        assert nodes == ["n4", "n4"]
    free(site, *fillers)


@pytest.mark.parametrize(
    ("phase", "gres"),
    [
        *((phase, "--gres=gpu:3") for phase in PHASES),
        ("answer", "--gpus=3"),
        *(pytest.param(phase, "--gpus=3", marks=pytest.mark.soak) for phase in ("send", "record")),
    ],
)
def test_after_a_kill_between_two_steps_a_job_can_start_and_release_all_restores_what_is_ours_alone(site, phase, gres):
    fillers = fill(site, soon=True)
    one = submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres=gres)
    theirs = submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres="--gres=gpu:3", comment="slurmsched:gpus=2-4")
    own, plain = requests(site)[one.job], requests(site)[theirs.job]
    ours = own if phase == "send" else own.replace(":3", ":4")
    for _ in range(2):
        site.kill_at(phase)
        assert (requests(site)[one.job], requests(site)[theirs.job]) == (ours, plain)
        done = site.run("release-all")
        assert done.returncode == 0, done.stderr
        assert (requests(site)[one.job], requests(site)[theirs.job]) == (own, plain)
    site.kill_at(phase)
    free(site, *fillers)
    assert ended_whole(site, one, 4) == [3 if phase == "send" else 4], "without a daemon"
    assert ended_whole(site, theirs, 4) == [3]


def by_nodes(site: Site) -> None:
    """Let the daemon change the number of nodes too."""
    site.write(resize="least_s = 1\nrestart_s = 5\nnodes = true")


def submit_by_nodes(site: Site, steps: int, step_s: float, comment: str) -> SizedJob:
    """A job with a task and four GPUs on each of two nodes."""
    options = ("-N2", "--ntasks-per-node=1", f"--wrap={RUN_ON_ALL_NODES}", f"-J{site.names[0]}")
    return submit_sized(site, steps, step_s, *options, gres="--gres=gpu:4", comment=comment)


@pytest.mark.soak
def test_a_job_on_a_node_gets_a_second_one_when_the_queue_empties_and_does_every_step_once(site):
    by_nodes(site)
    fillers = fill(site, nodes="n[2-4]")
    one = submit_by_nodes(site, 200, 0.8, "slurmsched:gpus=4-8,ckpt")
    with site.daemon():
        site.until(lambda: one.steps, "the first step, on the one node that is free")
        free(site, fillers[0])
        assert ended_whole(site, one, 200) == [4, 8]
        assert tasks_on_nodes(one), "srun has a task on each node"
        assert {"asked to stop", "requeued", "resized"} <= set(story(site, one.job))
    free(site, *fillers)


@pytest.mark.parametrize("phase", PHASES)
def test_after_a_kill_a_job_by_nodes_can_start_and_has_its_own_number_of_nodes_back(site, phase):
    by_nodes(site)
    fillers = fill(site, soon=True)
    one = submit_by_nodes(site, 4, 0.1, "slurmsched:gpus=4-16,ckpt")
    own = nodes_asked(site, one.job)
    site.kill_at(phase)
    assert nodes_asked(site, one.job)[0] == (2 if phase == "send" else 4)
    done = site.run("release-all")
    assert done.returncode == 0, done.stderr
    restored = nodes_asked(site, one.job)
    assert restored[0] == own[0] == 2
    assert restored[1].replace("MinMemoryNode", "MinMemoryCPU") == own[1], "one CPU on a node has the memory of both"
    site.kill_at(phase)
    free(site, *fillers)
    assert ended_whole(site, one, 4) == [8 if phase == "send" else 16], "without a daemon"
    assert tasks_on_nodes(one)


def test_an_ordered_stop_gives_jobs_their_own_number_back_and_the_power_switched_off_does_too(site):
    fillers = fill(site, soon=True)
    one = submit_sized(site, 4, 0.1, f"-J{site.names[0]}", gres="--gres=gpu:3")
    own = requests(site)[one.job]
    with site.daemon() as process:
        site.until(lambda: requests(site)[one.job] != own, "another number of GPUs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120.0) == 0
    assert requests(site)[one.job] == own
    with site.daemon() as process:
        site.until(lambda: requests(site)[one.job] != own, "another number of GPUs again")
        site.write(power=POWER.replace("\nresize = true", ""))
        process.send_signal(signal.SIGHUP)
        site.until(lambda: requests(site)[one.job] == own, "its own number")
    free(site, *fillers)
    assert ended_whole(site, one, 4) == [3]


def test_kills_while_a_running_job_is_grown_cost_no_step(site):
    fillers, steps = fill(site, nodes="n[2-4]"), 120
    one = submit_sized(site, steps, 0.5, f"-J{site.names[0]}")
    site.until(lambda: one.steps, "the first step, on two GPUs")
    site.kill_series(("send", 2), ("answer", 2), ("record", 2), ("send", 3), ("answer", 3))
    with site.daemon():
        assert set(ended_whole(site, one, steps)) == {2, 4}
    free(site, *fillers)


@pytest.mark.soak
def test_kills_while_a_job_on_several_nodes_is_grown_cost_no_step(site):
    by_nodes(site)
    fillers, steps = fill(site, nodes="n[3-4]"), 400
    one = submit_by_nodes(site, steps, 2.0, "slurmsched:gpus=8-16,ckpt")
    site.until(lambda: one.steps, "the first step, on two nodes")
    free(site, *fillers)
    killed = 0
    for cycle in (1, 2, 3, 4):
        killed += site.kill_series(("send", cycle), ("answer", cycle), ("record", cycle))
        assert nodes_asked(site, one.job)[0] in (2, 4), "whole nodes"
    with site.daemon():
        assert ended_whole(site, one, steps) == [8, 16]
    assert killed >= 4, "at the moments that were meant"
    assert tasks_on_nodes(one), "srun has a task on each node"
