"""Rights: an Operator is enough for all powers; with less, check says what is missing and nothing else happens."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from lab_site import Site, updates

from slurmsched.cluster.actions import Hold, MovePartition, Rank, Release, Requeue, Resume, Suspend

ALL_POWERS = "order = true\nhold = true\nrequeue = true\nsuspend = true\npartition = true"


@pytest.fixture
def side_partition(lab) -> Iterator[str]:
    lab.ask(["scontrol", "create", "partitionname=side", "nodes=n[1-2]", "state=up"])
    yield "side"
    lab.cancel_all()
    lab.ask(["scontrol", "delete", "partitionname=side"])


def shown(site: Site, job: int, field: str) -> str:
    return site.lab.ask(["squeue", "-h", "-t", "all", "-j", str(job), "-O", f"{field}:40"]).strip()


def findings(site: Site) -> dict[str, dict[str, object]]:
    return {found["name"]: found for found in site.said("check")["findings"]}


def test_an_operator_has_every_power_over_the_jobs_of_others(new_site, side_partition):
    site: Site = new_site(power=ALL_POWERS)
    assert {name for name, found in findings(site).items() if found["ok"] is False} == set()
    running = site.fill()
    first, second = site.queue(2)
    assert site.act(Rank(first, 5000), Hold(second, time.time() + 900)) == [None, None]
    assert site.points()[first] == 5000
    assert second in site.begin_times()
    assert site.act(Release(second), MovePartition(first, side_partition)) == [None] * 2
    site.until(lambda: second not in site.begin_times(), "an end of the hold")
    assert shown(site, first, "Partition") == side_partition
    assert site.act(Suspend(running)) == [None]
    site.until(lambda: site.states()[running] == "SUSPENDED", "a suspended job")
    assert site.act(Resume(running)) == [None]
    site.until(lambda: site.states()[running] == "RUNNING", "a resumed job")
    assert site.act(Requeue(running)) == [None]
    site.until(lambda: shown(site, running, "RestartCnt") == "1", "a requeued job")
    site.lab.cancel_all()
    site.fill()
    with site.daemon():
        jobs = site.queue(3)
        site.until(lambda: all(job in site.points() for job in jobs), "the queue")
        assert site.said("status")["cycle"]["refused"] == 0
        site.until(lambda: findings(site)["daemon"]["ok"], "a daemon that check finds well")


def test_without_rights_check_says_what_to_do(new_site):
    site: Site = new_site(user="alice")
    rights = findings(site)["rights"]
    assert rights["ok"] is False
    assert "it takes Operator" in rights["text"]
    user = site.lab.user("alice")
    assert f"sacctmgr modify user {user} set adminlevel=Operator" in rights["remedy"]
    told = site.run("check")
    assert told.returncode == 1
    assert rights["remedy"] in told.stdout


def test_without_rights_writes_are_refused_once_and_slurm_goes_on(new_site):
    site: Site = new_site(user="alice")
    filler = site.fill()
    jobs = site.queue(3)
    with site.daemon():
        site.until(lambda: "refused" in site.log, "a refusal")
        assert "Traceback" not in site.log
        site.more_cycles()  # the first refusal is not the last one of its cycle
        before = updates(site.lab)
        site.more_cycles()
        assert updates(site.lab) == before, "what was refused is not asked again"
        assert set(site.points().values()) == {0}
        story = site.said("story", str(jobs[-1]))["story"]
        assert [event["details"]["answer"] for event in story if event["kind"] == "refused"]
        site.lab.run(["scancel", str(filler)])
        site.until(lambda: {site.states()[job] for job in jobs} == {"COMPLETED"}, "the end of all jobs")


def test_without_accounting_check_names_slurm_user(plain_lab):
    site = Site.of(plain_lab)
    try:
        rights = findings(site)["rights"]
        assert rights["ok"] is False
        assert "only slurmdbd can grant" in rights["text"]
        assert rights["remedy"] == "run slurmsched as SlurmUser, or set up slurmdbd"
    finally:
        shutil.rmtree(site.directory)
