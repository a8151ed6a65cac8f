"""What users and admins change of jobs stands in their stories, with what it was; what we change is told once."""

from __future__ import annotations

from typing import Any

from lab_site import Site

from slurmsched.cluster.actions import Suspend


def submit(site: Site, *options: str) -> int:
    return site.lab.submit("--gres=gpu:1", "--wrap=sleep 1200", "-o/dev/null", *options, user="alice")


def story(site: Site, job: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = site.said("story", str(job)).get("story", [])
    return events


def kinds(site: Site, job: int) -> list[str]:
    return [event["kind"] for event in story(site, job)]


def change(site: Site, job: int, words: str, user: str | None = None) -> None:
    site.lab.ask(["scontrol", "update", f"jobid={job}", *words.split("|")], user=user)


def in_story(site: Site, job: int, kind: str) -> None:
    site.until(lambda: kind in kinds(site, job), f"{kind!r} in the story")


def test_what_users_and_admins_change_of_a_job_is_told_in_its_story(site):
    with site.daemon():
        job = submit(site, "-t2:00:00", "--hold", "--comment=my notes")
        in_story(site, job, "submitted")
        change(site, job, "timelimit=1:00:00", user="alice")
        in_story(site, job, "limit changed")
        change(site, job, "comment=my notes slurmsched:ckpt", user="alice")
        in_story(site, job, "comment changed")
        change(site, job, "qos=high|nice=100")
        in_story(site, job, "nice changed")
        text = site.run("story", str(job)).stdout
        assert "its time limit was changed from 02:00:00 to 01:00:00 (not by slurmsched)" in text
        assert "it asked slurmsched for nothing, now for slurmsched:ckpt" in text
        assert "its QOS was changed from normal to high (not by slurmsched)" in text
        assert "its nice value was changed from 0 to 100 (not by slurmsched)" in text
        assert "notes" not in text
        site.more_cycles(3)
        told = kinds(site, job)
        assert [told.count(f"{what} changed") for what in ("limit", "comment", "qos", "nice")] == [1] * 4
    site.lab.ask(["scancel", str(job)])


def test_a_change_while_no_daemon_ran_is_told_by_the_next_one(site):
    job = submit(site, "-t2:00:00", "--hold")
    still = submit(site, "-t2:00:00", "--hold")
    with site.daemon():
        in_story(site, job, "submitted")
        in_story(site, still, "submitted")
    change(site, job, "timelimit=30:00")
    with site.daemon():
        in_story(site, job, "limit changed")
        (event,) = [event for event in story(site, job) if event["kind"] == "limit changed"]
        assert event["details"] == {"before": 7200.0, "after": 1800.0}
        assert not [kind for kind in kinds(site, still) if kind.endswith("changed")]
    site.lab.ask(["scancel", str(job), str(still)])


def test_who_suspended_a_job_is_told_apart(new_site):
    site = new_site(power="order = true\nsuspend = true")
    job = submit(site, "-t20")
    site.until(lambda: site.states()[job] == "RUNNING", "a running job")
    with site.daemon():
        in_story(site, job, "started")
        site.lab.ask(["scontrol", "suspend", str(job)])
        in_story(site, job, "suspended by others")
        site.lab.ask(["scontrol", "resume", str(job)])
        in_story(site, job, "resumed by others")
    assert site.act(Suspend(job)) == [None]
    with site.daemon():  # nothing keeps it suspended: no job shares GPUs here
        site.until(lambda: "resumed" in kinds(site, job), "the end of our suspension")
        told = [kind for kind in kinds(site, job) if "suspended" in kind or "resumed" in kind]
        assert told == ["suspended by others", "resumed by others", "suspended", "resumed"]
        text = site.run("story", str(job)).stdout
        assert "it was suspended (not by slurmsched)" in text
        assert "it was resumed (not by slurmsched)" in text
    site.lab.ask(["scancel", str(job)])
