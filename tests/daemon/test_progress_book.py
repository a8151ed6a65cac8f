"""Reports of running jobs: whose count, what they say together, and who is told to end."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, running_jobs, view

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.state import ClusterState
from slurmsched.daemon.profiles.profile_record import BadRecord, opened
from slurmsched.daemon.profiles.progress_report import ProgressReport, ReportedEarly, ReportRefused, report_of
from slurmsched.daemon.progress_book import EVERY_S, USER_BURST, ProgressBook

ALICE, BOB = 1001, 1002
JOB = 11


def seen(**columns):
    one = {"job_id": [JOB], "user": ["alice"], "node_list": ["n1"], "restarts": [0]} | columns
    world = view(jobs(0), running=running_jobs(len(one["job_id"]), **one))
    return ClusterState(world.pending, world.running, jobs(0), world.nodes, world.partitions, world.qos)


def report(iteration=1, **changes):
    nothing = dict.fromkeys(("loss", "accuracy", "noise"), math.nan)
    words = {"job_id": JOB, "restart": 0, "node": "n1"} | nothing | changes
    return ProgressReport(iteration=iteration, **words)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def book(clock):
    made = ProgressBook(clock.monotonic, {ALICE: "alice", BOB: "bob", 9: ""}.__getitem__)
    made.observe(seen(iterations=[1000]))
    return made


@pytest.mark.parametrize(
    ("changes", "uid", "result"),
    [
        ({}, BOB, "user"),
        ({}, 9, "user"),
        ({"node": "n2"}, ALICE, "host"),
        ({"restart": 1}, ALICE, "restart"),
        ({"job_id": 12}, ALICE, "job"),
        ({"iteration": 1001}, ALICE, "iteration"),
    ],
)
def test_a_report_counts_only_from_the_owner_there_and_about_this_run(book, changes, uid, result):
    with pytest.raises(ReportRefused) as refusal:
        book.take(report(**changes), uid)
    assert refusal.value.result == result
    assert len(book.table()) == 0


def test_an_iteration_never_falls_within_a_run(book, clock):
    assert book.take(report(30), ALICE) is False
    clock.now_s += EVERY_S
    with pytest.raises(ReportRefused, match="iteration 29 is before 30"):
        book.take(report(29), ALICE)


def test_a_job_reports_at_its_pace_and_a_user_at_theirs(clock):
    count = int(USER_BURST) + 5
    book = ProgressBook(clock.monotonic, lambda uid: "alice")
    book.observe(seen(job_id=np.arange(1, count + 1), user=["alice"] * count, node_list=["n1"] * count,
                      restarts=[0] * count))  # fmt: skip
    book.take(report(job_id=1), ALICE)
    with pytest.raises(ReportedEarly) as early:
        book.take(report(2, job_id=1), ALICE)
    assert early.value.wait_s == EVERY_S
    refused = []
    for job in range(2, count + 1):
        try:
            book.take(report(job_id=job), ALICE)
        except ReportedEarly:
            refused.append(job)
    assert len(refused) == 5
    clock.now_s += 1.0
    assert all(book.take(report(job_id=job), ALICE) is False for job in refused)


def test_a_job_is_told_to_end_once_the_plan_says_so_and_not_in_its_next_run(book, clock):
    book.take(report(10, accuracy=0.5), ALICE)
    book.let_end([JOB, 999])
    assert book.table().may_end.tolist() == [True]
    clock.now_s += EVERY_S
    assert book.take(report(11), ALICE) is True
    book.observe(seen(restarts=[1]))
    assert len(book.table()) == 0, "nothing was reported in this run"
    assert book.take(report(8, restart=1), ALICE) is False
    assert book.table().accuracy.tolist() == [0.5]


def test_a_permission_to_end_is_gone_when_the_plan_no_longer_gives_it(book, clock):
    book.take(report(10, accuracy=0.5), ALICE)
    book.let_end([JOB])
    book.let_end([])
    clock.now_s += EVERY_S
    assert book.take(report(11), ALICE) is False


def test_a_job_that_waits_again_keeps_its_curve_and_one_that_ended_does_not(book, clock):
    book.take(report(10, accuracy=0.5), ALICE)
    book.let_end([JOB])
    waiting = view(jobs(1, job_id=[JOB]))
    book.observe(
        ClusterState(waiting.pending, waiting.running, jobs(0), waiting.nodes, waiting.partitions, waiting.qos)
    )
    progress = book.table()
    assert (progress.iteration.tolist(), progress.may_end.tolist()) == ([10], [False]), "orderings know its training"
    book.observe(seen(restarts=[1]))
    clock.now_s += EVERY_S
    book.take(report(10, restart=1), ALICE)
    assert book.table().accuracy.tolist() == [0.5]
    empty = view(jobs(0))
    book.observe(ClusterState(empty.pending, empty.running, jobs(0), empty.nodes, empty.partitions, empty.qos))
    assert len(book.table()) == 0


GROWS = "slurmsched:gpus=2-8,batch=256-1024,ckpt"


def cleaning_up(**columns):
    """The job while its old run is cleaned up."""
    state = seen(**columns)
    return replace(state, running=replace(state.running, state=np.array([JobState.COMPLETING])))


def test_the_noise_of_a_job_whose_batch_may_grow_is_that_of_most_of_its_last_reports(book, clock):
    book.observe(seen(comment=[GROWS]))
    assert np.isnan(book.filled(seen(comment=[GROWS])).running.noise).all()
    for at, noise in enumerate([1.0, 900.0, 1e300, math.nan, 1000.0, 800.0, 1e-300]):
        book.take(report(at, noise=noise), ALICE)
        clock.now_s += EVERY_S
    assert book.filled(seen(comment=[GROWS])).running.noise.tolist() == [900.0]
    plain = seen(comment=["slurmsched:gpus=2-8,ckpt"])
    assert np.isnan(book.filled(plain).running.noise).all(), "its batch stays the same"
    assert np.isnan(book.filled(seen(user=["bob"], comment=[GROWS])).running.noise).all()


def test_the_noise_of_a_job_is_known_while_it_is_cleaned_up_and_waits_and_in_its_next_run(book):
    book.observe(seen(comment=[GROWS]))
    book.take(report(10, noise=500.0), ALICE)
    book.observe(cleaning_up(comment=[GROWS]))
    assert len(book.table()) == 0
    with pytest.raises(ReportRefused, match="is not running"):
        book.take(report(11), ALICE)
    waits = seen(comment=[GROWS])
    waits = replace(waits, pending=waits.running, running=jobs(0))
    book.observe(waits)
    assert book.filled(waits).pending.noise.tolist() == [500.0]
    book.observe(seen(restarts=[1], comment=[GROWS]))
    assert book.filled(seen(comment=[GROWS])).running.noise.tolist() == [500.0]


def test_the_samples_of_a_step_are_those_of_the_present_run_alone(book, clock):
    def samples(**columns):
        return book.filled(seen(comment=[GROWS], **columns)).running.step_samples.tolist()

    assert samples() == [0]
    book.take(report(1, samples=256), ALICE)
    assert samples() == [256]
    assert samples(restarts=[1]) == [0]
    assert book.filled(seen(comment=["slurmsched:gpus=1-4,ckpt"])).running.step_samples.tolist() == [0]
    book.observe(seen(comment=[GROWS], restarts=[1]))
    assert samples(restarts=[1]) == [0], "it has not reported in this run"
    book.take(report(1, restart=1, samples=512), ALICE)
    assert samples(restarts=[1]) == [512]


def test_a_reused_job_id_begins_without_the_former_owners_curve(book, clock):
    book.take(report(10, accuracy=0.9), ALICE)
    book.observe(seen(user=["bob"]))
    clock.now_s += EVERY_S
    book.take(report(1), BOB)
    assert np.isnan(book.table().accuracy).all()


def test_a_curve_settles_for_a_job_whose_owner_leaves_the_end_open_and_for_no_other(book, clock):
    for comment, settled in (("slurmsched:stop=opt", True), ("slurmsched:stop=acc:0.9", False)):
        book.observe(seen(job_id=[12], restarts=[0]))
        book.observe(seen(iterations=[1000], comment=[comment]))
        for at in range(60):
            book.take(report(at, accuracy=min(0.02 * at, 0.4)), ALICE)
            clock.now_s += EVERY_S
        assert book.table().settled.tolist() == [settled]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("progress", -1),
        ("progress", 1.5),
        ("loss", "low"),
        ("loss", True),
        ("loss", 10**400),
        ("accuracy", 1.01),
        ("accuracy", -0.1),
        ("noise", 0),
        ("noise", -1.5),
        ("noise", "much"),
        ("noise", 10**400),
        ("samples", 0),
        ("samples", 64.0),
        ("samples", 10**9 + 1),
        ("node", "../n1"),
        ("job_id", 0),
        ("restart", None),
    ],
)
def test_what_no_training_reports_is_refused_by_name(field, value):
    record = {"version": 1, "job_id": 1, "restart": 0, "node": "n1", "progress": 1}
    assert report_of(opened(json.dumps(record).encode())).iteration == 1
    with pytest.raises(BadRecord, match=field):
        report_of(opened(json.dumps(record | {field: value}).encode()))


def test_a_number_that_is_none_is_no_record():
    with pytest.raises(BadRecord):
        opened(b'{"version":1,"job_id":1,"restart":0,"node":"n1","progress":1,"loss":NaN}')
