"""How many jobs went before one because of our order, counted as a replay of the recorded cycles counts them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from cli.fake_site import ORDERS, FakeSite, json_of, run
from daemon.daemon_worlds import view as small_view
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cli.daemon.build import build
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable
from slurmsched.explain.passed import PassedBy


def world(pending, running):
    """A view of jobs (id, Slurm's own priority, our points) that wait, and of others that run; one node for all."""

    def jobs(rows):
        ids, own, points = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        ones = np.ones(len(ids))
        return job_table(
            len(ids), job_id=ids, priority=own + points, site_points=points, gpus=ones, submitted_s=ones,
            first_submit_s=ones, eligible_s=ones, partition=["gpu"] * len(ids), reason=["Priority"] * len(ids),
        )  # fmt: skip

    words = [Labels.of([text]) for text in ("n1", "gpu", "IDLE", "a100", "")]
    four, big = np.array([4]), np.array([1000.0])
    nodes = NodeTable(*words[:3], np.array([True]), four, four * 0, big, big * 0, four, four * 0, *words[3:])
    partitions = PartitionTable(words[1], np.array([1]), np.array([True]), np.array([np.inf]), words[0])
    return replace(small_view({}, {}), pending=jobs(pending), running=jobs(running), nodes=nodes, partitions=partitions)


def test_who_starts_with_our_points_before_a_job_that_stands_ahead_by_slurms_priority_passes_it():
    one, two, three, four = (1, 300, 0), (2, 200, 500), (3, 100, 900), (4, 50, 0)
    passed = PassedBy()
    passed.observe(world([one, two, three, four], []), ordered=True)
    passed.observe(world([one, four], [two, three]), ordered=True)
    assert [passed.count(job, 1.0) for job in (1, 2, 3, 4)] == [2, 0, 0, 0]
    (began,) = passed.observe(world([four], [one, two, three]), ordered=True)
    assert (began.job_id, began.jobs) == (1, 2)
    assert passed.count(1, 1.0) == 0


def test_points_that_slurm_never_had_and_a_daemon_that_does_not_order_let_nobody_pass():
    for ordered, started in ((False, (2, 200, 500)), (True, (2, 200, 0))):
        passed = PassedBy()
        passed.observe(world([(1, 300, 0), (2, 200, 500)], []), ordered=ordered)
        passed.observe(world([(1, 300, 0)], [started]), ordered=True)
        assert passed.count(1, 1.0) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=8), st.integers(0, 10**6))
def test_counts_are_those_of_pairs_one_by_one(jobs, seed):
    draw = random.Random(seed)
    waiting = {n + 1: what for n, what in enumerate(jobs)}
    passed, expected, running = PassedBy(), dict.fromkeys(waiting, 0), []

    def own(job):
        return -waiting[job][0], job

    def ours(job):
        return -sum(waiting[job]), job

    while waiting:
        passed.observe(world([(job, *what) for job, what in waiting.items()], running), ordered=True)
        assert [passed.count(job, 1.0) for job in waiting] == [expected[job] for job in waiting]
        started = [job for job in waiting if draw.random() < 0.4] or [draw.choice(list(waiting))]
        for job in waiting:
            if job not in started:
                expected[job] += sum(own(job) < own(other) and ours(job) > ours(other) for other in started)
        running += [(job, *waiting.pop(job)) for job in started]


@pytest.fixture
def site(tmp_path):
    site = FakeSite(tmp_path, ORDERS)
    yield site
    site.close()


def test_why_and_story_tell_it_and_the_recorded_cycles_replayed_count_the_same(site, request):
    slurm = site.slurm
    total = int(slurm.observe().nodes.gpus.sum())
    slurm.submit(100.0, gpus=total, time_limit_s=120.0, user="zoe")
    slurm.advance(1.0)
    long = slurm.submit(900.0, gpus=total, time_limit_s=1000.0, user="alice")
    short = [slurm.submit(50.0, gpus=total, time_limit_s=60.0, user="bob") for _ in range(2)]
    daemon = build(site)
    request.addfinalizer(daemon.close)
    assert daemon.parts.leadership.acquire()
    for _ in range(30):
        slurm.advance(10.0)
        site.clock.now_s = slurm.now_s
        report = daemon.controller.cycle(slurm.now_s, "act")
        daemon.service.questions.observe(report)
        waits = report.view.pending.row_of(long) is not None
        if waits and not any(report.view.pending.row_of(job) is not None for job in short):
            told = " ".join(daemon.service.questions.answer({"ask": "why", "job_id": long}, 0)["why"]["details"])
            assert "2 jobs behind it by these have started before it" in told or "1 job behind it" in told
            story = daemon.service.questions.answer({"ask": "story", "job_id": long}, 0)
            assert "behind it by these" in story["passed"]
            assert story["passed"] in told, "story says what why says"
    story = json_of(site, "story", str(long))["story"]
    (event,) = [event for event in story if event["kind"] == "passed"]
    replayed, again = PassedBy(), []
    for number in site.store().decision_numbers("fake"):
        record = site.store().decision(number, "fake")
        again += replayed.observe(record.view, ordered=record.mode == "act")
    assert [(one.job_id, one.jobs) for one in again if one.job_id == long] == [(long, event["details"]["jobs"])]
    assert event["details"]["jobs"] == 2
    assert "2 jobs had gone before it because of our order" in run(site, "story", str(long)).output
