"""Guests that are suspended by a whole daemon on a fake Slurm: in turns, after a kill, at a stop, by release-all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cli.fake_site import run
from cli.test_shared_gpus import BEFORE, PAST_S, PROFILE, Site, explained, sent, unstable_pair

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.cluster.actions import Resume, Suspend
from slurmsched.cluster.job_record import EndedRun, outcomes_of
from slurmsched.cluster.jobs import JobState

BOBS = replace(PROFILE, job_id=8)
MOST_S = 60.0


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.power("suspend = true")
    more = f"[share]\nother_users = true\nsuspend_most_s = {MOST_S:g}"
    site.file.write_text(site.file.read_text().replace("[share]", more))
    yield site
    site.close()


def pair(site) -> tuple[Daemon, int, int]:
    """Alice's job and Bob's, which take turns on a GPU and do not go together; the plan has the guest suspended."""
    daemon = site.daemon()
    store = site.store()
    bobs = BEFORE._replace(job_id=8, user="bob")
    store.add_outcomes("fake", outcomes_of([EndedRun(bobs, PAST_S + 1000.0, JobState.COMPLETED)]))
    store.add_profiles("fake", [BOBS])
    host, guest = unstable_pair(site, daemon, "", "", guests_user="bob")
    assert site.slurm.jobs[guest].comment == "slurmsched:share=0:time"
    return daemon, host, guest


def state(site, job_id: int) -> JobState:
    return site.slurm.jobs[job_id].state


def events(site, job_id: int) -> list[str]:
    kinds = [event.kind for event in site.store().story("fake", job_id)]
    return [kind for kind in kinds if "suspended" in kind or "resumed" in kind]


def test_a_guest_is_suspended_and_resumed_in_turns_and_the_host_runs_all_the_time(site):
    daemon, host, guest = pair(site)
    states = []
    for _ in range(24):
        site.turn(daemon)
        assert state(site, host) == JobState.RUNNING
        states.append(state(site, guest))
    paused = states.count(JobState.SUSPENDED)
    assert paused <= states.count(JobState.RUNNING) + MOST_S / 15.0 + 1
    writes = sent(site, Suspend, Resume)
    assert writes == [Suspend(guest), Resume(guest)] * (len(writes) // 2) + [Suspend(guest)] * (len(writes) % 2)
    assert len(writes) >= 4
    told = events(site, guest)
    assert told == ["suspended", "resumed"] * (len(told) // 2) + ["suspended"] * (len(told) % 2)
    daemon.close()


def test_both_owners_are_told_when_the_guest_goes_on(site):
    daemon, host, guest = pair(site)
    site.turn(daemon)
    mine, hosts = " ".join(explained(daemon, guest)), " ".join(explained(daemon, host))
    assert f"for job {host} on the same GPUs" in mine
    assert "at the latest, or when that job ends" in mine
    assert f"Job {guest} on its GPUs was suspended" in hosts
    answer = daemon.service.questions.answer({"ask": "why", "job_id": guest}, 0)["why"]
    assert any("It goes on in" in sentence for sentence in answer["details"])
    daemon.close()


def test_a_killed_daemon_leaves_a_guest_that_release_all_resumes(site):
    daemon, _, guest = pair(site)
    assert state(site, guest) == JobState.SUSPENDED
    daemon.close()
    theirs = site.slurm.submit(900.0)
    site.slurm.jobs[theirs] = replace(site.slurm.jobs[theirs], state=JobState.SUSPENDED, started_s=site.slurm.now_s)
    done = run(site, "release-all")
    assert "1 job that we had suspended run again" in done.stdout
    assert state(site, guest) == JobState.RUNNING
    assert state(site, theirs) == JobState.SUSPENDED


def test_an_ordered_stop_resumes_a_guest_and_the_next_daemon_takes_its_suspension_for_over(site):
    daemon, _, guest = pair(site)
    site.turn(daemon)
    site.clock.now_s = site.slurm.now_s
    daemon.controller.give_back(10.0)
    daemon.close()
    assert state(site, guest) == JobState.RUNNING
    site.file.write_text(site.file.read_text().replace("suspend = true\n", ""))
    second = build(site)
    site.turn(second)
    site.slurm.jobs[guest] = replace(site.slurm.jobs[guest], state=JobState.SUSPENDED)  # by an administrator
    site.turn(second, 2)
    assert state(site, guest) == JobState.SUSPENDED
    second.close()


def test_a_daemon_after_a_kill_goes_on_with_the_suspension_and_ends_it_in_time(site):
    daemon, host, guest = pair(site)
    daemon.close()
    second = build(site)
    site.slurm.away = True
    assert not second.service.once().ok
    site.slurm.away = False
    site.turn(second)
    assert state(site, guest) == JobState.SUSPENDED
    site.turn(second, 5)
    assert sent(site, Suspend, Resume)[:2] == [Suspend(guest), Resume(guest)]
    assert state(site, host) == JobState.RUNNING
    second.close()


def test_a_power_that_is_switched_off_resumes_ours_and_leaves_that_of_an_administrator(site):
    daemon, host, guest = pair(site)
    theirs = site.slurm.jobs[1]
    site.slurm.jobs[1] = replace(theirs, state=JobState.SUSPENDED)
    site.file.write_text(site.file.read_text().replace("suspend = true\n", ""))
    daemon.controller.reload()
    site.turn(daemon, 2)
    assert [state(site, job) for job in (host, guest, 1)] == [JobState.RUNNING, JobState.RUNNING, JobState.SUSPENDED]
    daemon.close()


def test_the_end_of_the_host_resumes_the_guest_at_once(site):
    daemon, host, guest = pair(site)
    site.slurm.jobs[host] = replace(site.slurm.jobs[host], left_s=1.0)
    site.slurm.advance(2.0)
    site.turn(daemon)
    assert state(site, guest) == JobState.RUNNING
    daemon.close()
