"""Giving every job back: no points, no begin time of ours, with or without a database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import zoo

from slurmsched.cluster.actions import Hold, Rank, Release, SetAdminComment
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.release import BATCH, release_all


def full(jobs: int, cluster: FakeSlurm | None = None) -> tuple[FakeSlurm, list[int]]:
    """A cluster whose GPUs are taken, and *jobs* that wait."""
    cluster = cluster or FakeSlurm()
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


def test_answers_of_ours_are_taken_from_jobs_that_wait_and_run_and_no_other_comment_is():
    cluster, jobs = full(2)
    running = next(iter(cluster.jobs))
    cluster.submit(60.0, admin_comment="ticket 12")
    cluster.act([SetAdminComment(job, "slurmsched:met") for job in (running, jobs[1])])
    cluster.written.clear()
    report = release_all(cluster, (), (), now_s=cluster.now_s)
    assert (report.emptied, report.refused, report.left) == (2, (), 0)
    assert "answers taken from the AdminComment of 2 jobs" in report.sentence
    assert cluster.written == [SetAdminComment(job, "") for job in (running, jobs[1])]
    assert [job.admin_comment for job in cluster.jobs.values() if job.admin_comment] == ["ticket 12"]


def test_when_the_time_is_up_the_rest_is_counted():
    cluster, jobs = full(2 * BATCH)
    cluster.act([Rank(job, 7) for job in jobs])
    looks = iter([True, False])
    report = release_all(cluster, (), (), now_s=cluster.now_s, within=lambda: next(looks))
    assert (report.ranked, report.left) == (BATCH, BATCH)


def until_rested(times: int) -> dict[str, Callable[[], object]]:
    """Time enough for so many rests."""
    rests = [*range(times)]
    return {"within": lambda: bool(rests), "rest": rests.pop}


def test_a_cluster_that_does_not_answer_is_asked_until_the_time_is_up_and_then_said_so():
    cluster, _ = full(1)
    cluster.away = True
    with pytest.raises(SlurmUnavailable):
        release_all(cluster, (), (), now_s=cluster.now_s, **until_rested(5))


class Slow(FakeSlurm):
    """Answers in time only where it is asked for little at a time, and only now and then."""

    tries = 0
    looks = 0

    def act(self, actions):
        self.tries += 1
        if len(actions) > 20 or self.tries % 2:
            super().act(actions[: len(actions) // 2])
            raise SlurmUnavailable("scontrol did not answer within 10 s")
        return super().act(actions)

    def observe(self):
        self.looks += 1
        if self.looks == 1:
            raise SlurmUnavailable("squeue did not answer within 10 s")
        return super().observe()


def test_an_ordered_stop_goes_on_after_a_write_that_gets_no_answer():
    cluster, jobs = full(844, Slow())
    for job in jobs:
        cluster.jobs[job] = replace(cluster.jobs[job], points=7)
    report = release_all(cluster, (), (), now_s=cluster.now_s, **until_rested(100))
    assert (report.ranked, report.left, report.refused) == (844, 0, ())
    assert not any(cluster.jobs[job].points for job in jobs)


def test_what_is_left_when_the_time_is_up_is_counted_though_nothing_answers_any_more():
    cluster, jobs = full(30, Slow())
    for job in jobs:
        cluster.jobs[job] = replace(cluster.jobs[job], points=7)
    report = release_all(cluster, (), (), now_s=cluster.now_s, **until_rested(2))
    assert (report.ranked, report.left) == (0, 30)


def test_on_a_real_slurm_sprio_shows_no_points_of_ours_afterwards(lab):
    zoo.occupy(lab, first=())
    jobs = [zoo.sleeper(lab) for _ in range(4)] + [zoo.sleeper(lab, "--array=1-3")]
    cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator"))))
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
