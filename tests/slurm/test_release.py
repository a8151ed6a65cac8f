"""Giving every job back: no points, no begin time of ours, with or without a database."""

from __future__ import annotations

import time

import pytest
import zoo

from slurmsched.cluster.actions import Hold, Rank, Release
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.command import SlurmCommand
from slurmsched.slurm.console import Console
from slurmsched.slurm.fake import FakeSlurm
from slurmsched.slurm.release import BATCH, release_all


def full(jobs: int) -> tuple[FakeSlurm, list[int]]:
    """A cluster whose GPUs are taken, and *jobs* that wait."""
    cluster = FakeSlurm()
    for _ in range(4):
        cluster.submit(1e6, gpus=4)
    cluster.advance(0.0)
    return cluster, [cluster.submit(60.0) for _ in range(jobs)]


def test_points_are_taken_back_without_a_database():
    cluster, jobs = full(5)
    cluster.act([Rank(job, 7) for job in jobs[:3]])
    cluster.written.clear()
    report = release_all(cluster, (), (), now_s=cluster.now_s)
    assert (report.ranked, report.held, report.refused, report.left) == (3, 0, (), 0)
    assert cluster.written == [Rank(job, 0) for job in jobs[:3]]
    assert not cluster.observe().pending.site_points.any()


def test_holds_of_ours_are_lifted_before_anything_else():
    cluster, jobs = full(2)
    cluster.act([Hold(jobs[1], cluster.now_s + 500), Rank(jobs[0], 7)])
    report = release_all(cluster, (), {jobs[1]}, now_s=cluster.now_s)
    assert cluster.written[-2:] == [Release(jobs[1]), Rank(jobs[0], 0)]
    assert (report.ranked, report.held) == (1, 1)
    assert (cluster.observe().pending.eligible_s <= cluster.now_s).all()


def test_a_begin_time_that_is_the_users_stays():
    cluster, jobs = full(1)
    cluster.act([Hold(jobs[0], cluster.now_s + 500)])
    assert release_all(cluster, (), (), now_s=cluster.now_s).held == 0
    assert cluster.observe().pending.eligible_s[0] == cluster.now_s + 500


def test_jobs_that_may_have_points_nobody_shows_are_asked_too_unless_they_are_gone():
    cluster, jobs = full(1)
    assert release_all(cluster, {jobs[0], 999}, {999}, now_s=cluster.now_s).ranked == 1
    assert cluster.written == [Rank(jobs[0], 0)]


def test_when_the_time_is_up_the_rest_is_counted():
    cluster, jobs = full(2 * BATCH)
    cluster.act([Rank(job, 7) for job in jobs])
    looks = iter([True, False])
    report = release_all(cluster, (), (), now_s=cluster.now_s, within=lambda: next(looks))
    assert (report.ranked, report.left) == (BATCH, BATCH)


def test_a_cluster_that_does_not_answer_says_so():
    cluster, _ = full(1)
    cluster.away = True
    with pytest.raises(SlurmUnavailable):
        release_all(cluster, (), (), now_s=cluster.now_s)


def test_on_a_real_slurm_sprio_shows_no_points_of_ours_afterwards(lab):
    zoo.occupy(lab, first=())
    jobs = [zoo.sleeper(lab) for _ in range(4)] + [zoo.sleeper(lab, "--array=1-3")]
    cluster = SlurmCommand(Console(environment=lab.env(), prefix=tuple(lab.command([], user="operator"))))
    until_s = time.time() + 900

    def points() -> dict[int, int]:
        rows = (line.split() for line in lab.ask(["sprio", "-h", "-o", "%i %S"]).splitlines())
        return {int(job): int(float(site)) for job, site in rows}

    zoo.until(lambda: set(jobs) <= set(points()), "every job in sprio, which takes Slurm a moment")
    given = [*(Rank(job, 50 + job) for job in jobs), Hold(jobs[1], until_s)]
    assert [answer.refused for answer in cluster.act(given)] == [None] * len(given)
    zoo.until(lambda: points().get(jobs[0]) == 50 + jobs[0], "the points")
    report = release_all(cluster, {jobs[1]}, {jobs[1]}, now_s=time.time())
    assert (report.refused, report.left, report.held) == ((), 0, 1)
    zoo.until(lambda: set(jobs) <= set(points()), "the held job eligible again")
    assert set(points().values()) == {0}
    assert (cluster.observe().pending.eligible_s <= time.time()).all()
