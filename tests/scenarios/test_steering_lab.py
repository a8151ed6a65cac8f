"""Steering on a real Slurm with two types of GPUs: who is sent where, who is let go, and what a kill leaves."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from deadline_jobs import done_steps, ended, saver, story
from lab_site import Site, history

from slurmsched.cluster.columns import Labels
from slurmsched.lab import Lab

SHORT, FASTER_ON_V100 = "shortest", "gpufan"
TURN_STEPS = 160  #: of a quarter of a second each


@pytest.fixture
def site(typed_lab: Lab) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    made = Site.of(typed_lab, power="order = true\nsteer = true", steer="patience_s = 3600", policy="ordering = 'fifo'")
    learn(made)
    yield made
    typed_lab.cancel_all()


def learn(site: Site, gpus: int = 1) -> None:
    """Three runs on each type of a job of alice that is four times as fast on V100, and of the jobs that fill nodes."""
    runs = history(site.lab, site.names).take(slice(0, 6))
    alice = Labels.of([site.lab.user("alice")] * 6)
    took_s = np.array([4000.0, 1000.0] * 3)
    kinds = Labels.of(["a100", "v100"] * 3)
    known = replace(runs, job_id=runs.job_id + 500_000, user=alice, name=Labels.of([FASTER_ON_V100] * 6))
    with site.store() as store:
        store.add_outcomes(site.lab.cluster, replace(known, runtime_s=took_s, gpu_type=kinds, gpus=np.full(6, gpus)))


def fill(site: Site, kind: str) -> int:
    """A job that takes all GPUs of a type, and that ends soon by its forecast."""
    job = site.lab.submit(
        f"--gres=gpu:{kind}:2", "-N2", "-t", "30", f"-J{site.names[3]}", "--wrap=sleep 1200", "-o/dev/null", user="bob"
    )
    site.until(lambda: site.states()[job] == "RUNNING", f"a job on all {kind}")
    return job


def submit(site: Site, *options: str, gres: str = "gpu:1") -> int:
    return site.lab.submit(
        f"--gres={gres}", "-t", "10", f"-J{FASTER_ON_V100}", "--wrap=sleep 600", "-o/dev/null", *options, user="alice"
    )


def excluded(site: Site) -> dict[int, str]:
    """The excluded nodes of pending jobs."""
    rows = (line.split("|") for line in site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%A|%x"]).splitlines())
    return {int(job): nodes for job, nodes in rows if nodes not in ("", "(null)")}


def node_of(site: Site, job: int) -> str:
    return site.lab.ask(["squeue", "-h", "-t", "R", "-j", str(job), "-o", "%N"]).strip()


def until_told(site: Site, job: int, words: str, command: str = "why") -> None:
    """Wait until a command says these words of a job: its answer is that of the last cycle."""
    part = "details" if command == "why" else "sentences"
    site.until(lambda: words in " ".join(site.said(command, str(job))[command][part]), words)


def free(site: Site, *jobs: int) -> None:
    site.lab.run(["scancel", *map(str, jobs)])


def test_an_untyped_job_goes_where_it_is_faster_and_no_other_job_is_touched(site):
    on_a100, on_v100 = fill(site, "a100"), fill(site, "v100")
    untyped, typed = submit(site), submit(site, gres="gpu:a100:1")
    theirs, open_to = submit(site, "--exclude=n3"), submit(site, "--comment=slurmsched:types=a100")
    with site.daemon():
        wanted = {untyped: "n[1-2]", theirs: "n3", open_to: "n[3-4]"}
        site.until(lambda: excluded(site) == wanted, "a job that is sent to V100, and one to the type that it accepts")
        until_told(site, untyped, "We sent it to GPUs of type v100, by excluding n[1-2].")
        until_told(site, untyped, "Jobs of its kind are 4 times as fast as on a100.")
        until_told(site, untyped, "We sent it to GPUs of type v100", "explain")
        until_told(site, theirs, "It excludes nodes, and not by us")
        free(site, on_v100)
        site.until(lambda: node_of(site, untyped) in {"n3", "n4"}, "the job on a V100")
        free(site, on_a100)
        site.until(lambda: node_of(site, typed) in {"n1", "n2"}, "the typed job on its type")
        site.until(lambda: node_of(site, open_to) in {"n1", "n2"}, "the job on the type that it accepts")
        sent = [event for event in site.said("story", str(untyped))["story"] if event["kind"] == "steered"]
        assert [event["details"]["value"] for event in sent] == ["v100 n[1-2]"]
        assert "steered" not in [event["kind"] for event in site.said("story", str(typed))["story"]]
    assert site.said("replay", str(sent[0]["details"]["cycle"]))["identical"]


def test_a_job_whose_type_stays_full_is_let_go_and_starts_on_the_other(site):
    site.write(steer="patience_s = 8\nagain_s = 600")
    on_a100, on_v100 = fill(site, "a100"), fill(site, "v100")
    job = submit(site)
    with site.daemon():
        site.until(lambda: job in excluded(site), "a job that is sent to V100")
        site.until(lambda: job not in excluded(site), "a job that is let go")
        until_told(site, job, "We let it go to GPUs of any type, and send it to no type again for ")
        free(site, on_a100)
        site.until(lambda: node_of(site, job) in {"n1", "n2"}, "the job on the type that is free")
        kinds = [event["kind"] for event in site.said("story", str(job))["story"]]
        assert [kind for kind in kinds if kind in ("steered", "let go")] == ["steered", "let go"]
    free(site, on_v100)


@pytest.mark.parametrize("phase", ["send", "answer", "record"])
def test_after_a_kill_between_two_steps_a_job_can_start_and_release_all_lifts_what_is_ours_alone(site, phase):
    fillers = [fill(site, "a100"), fill(site, "v100")]
    jobs, theirs = [submit(site), submit(site)], submit(site, "--exclude=n[1-2]")
    site.kill_at(phase)
    ours = {} if phase == "send" else dict.fromkeys(jobs, "n[1-2]")
    site.until(lambda: excluded(site) == ours | {theirs: "n[1-2]"}, "what was sent before the kill")
    done = site.run("release-all")
    assert done.returncode == 0, done.stderr
    site.until(lambda: excluded(site) == {theirs: "n[1-2]"}, "the user's own list alone")
    site.kill_at(phase)
    free(site, *fillers)
    site.until(lambda: all(node_of(site, job) for job in (*jobs, theirs)), "jobs that start without a daemon")
    reasons = site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%r"]).split()
    assert "BadConstraints" not in reasons


def test_an_ordered_stop_lifts_what_is_ours_and_the_power_switched_off_does_too(site):
    fill(site, "a100"), fill(site, "v100")
    job, theirs = submit(site), submit(site, "--exclude=n1")
    with site.daemon() as process:
        site.until(lambda: job in excluded(site), "a job that is sent to V100")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120.0) == 0
    assert excluded(site) == {theirs: "n1"}
    site.write(steer="again_s = 0")
    with site.daemon() as process:
        site.until(lambda: job in excluded(site), "a job that is sent to V100 again")
        site.write(power="order = true")
        process.send_signal(signal.SIGHUP)
        site.until(lambda: excluded(site) == {theirs: "n1"}, "the user's own list alone")


@pytest.mark.soak
def test_two_jobs_take_turns_on_the_type_where_they_are_faster_and_do_each_step_once(typed_lab):
    if os.geteuid() != 0:
        pytest.skip("a daemon under another user needs root")
    site = Site.of(
        typed_lab,
        power="order = true\nhold = true\nrequeue = true\nsteer = true",
        deadline="lead_s = 20\nstop_s = 6\nrestart_s = 0\nrestart_doubling_s = 0",
        policy="ordering = 'gavel'\npreemption = 'lease 5s'",
    )
    learn(site, gpus=4)
    fill(site, "a100")
    kind = {"nodes": 2, "gres": "gpu:2", "name": FASTER_ON_V100}
    first, first_home = saver(site, TURN_STEPS, 0.25, **kind)
    site.until(lambda: (first_home / "steps").exists(), "the first step on V100")
    with site.daemon():
        second, second_home = saver(site, TURN_STEPS, 0.25, **kind)
        site.until(lambda: excluded(site).get(second) == "n[1-2]", "the second job on its way to V100")
        until_told(site, second, "By gavel its share of time is ", "explain")
        site.until(lambda: node_of(site, second) == "n[3-4]", "the second job on V100")
        for job in (first, second):
            ended(site, job)
        assert {"asked to stop", "requeued"} <= set(story(site, first))
    for home in (first_home, second_home):
        assert done_steps(home) == list(range(TURN_STEPS)), "no step is lost and none is done twice"
        shutil.rmtree(home)
