"""Modifications: what others changed of jobs between two looks, told once, bounded, and never what is ours."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.modifications import MOST, ModificationTracker

NOBODY = job_table(0)


def job(state: JobState = JobState.PENDING, **columns: object) -> JobTable:
    known: dict[str, object] = {
        "job_id": 7, "state": state, "first_submit_s": 100.0, "time_limit_s": 7200.0, "partition": "gpu",
        "qos": "normal", "comment": "my run",
    }  # fmt: skip
    return job_table(1, **{name: [value] for name, value in (known | columns).items()})


def waiting(**columns: object) -> tuple[JobTable, JobTable]:
    return job(**columns), NOBODY


def running(**columns: object) -> tuple[JobTable, JobTable]:
    return NOBODY, job(**{"state": JobState.RUNNING, **columns})


def noticed(*looks: tuple[JobTable, JobTable], ours: tuple[tuple[int, str], ...] = ()) -> list[tuple[object, ...]]:
    tracker = ModificationTracker()
    return [
        (event.what, event.before, event.after)
        for at_s, (pending, runs) in enumerate(looks)
        for event in tracker.observe(pending, runs, float(at_s), ours)
    ]


@pytest.mark.parametrize("look", [waiting, running])
@pytest.mark.parametrize(
    ("what", "column", "before", "after"),
    [
        ("limit", "time_limit_s", 7200.0, 3600.0),
        ("nice", "nice", 0, 100),
        ("partition", "partition", "gpu", "gpu,big"),
        ("qos", "qos", "normal", "high"),
    ],
)
def test_a_setting_that_differs_from_the_last_look_is_noticed_once(look, what, column, before, after):
    looks = [look(**{column: value}) for value in (before, before, after, after)]
    assert noticed(*looks) == [(what, before, after)]


def test_a_limit_that_is_taken_away_has_no_number():
    assert noticed(waiting(), waiting(time_limit_s=np.inf)) == [("limit", 7200.0, None)]


def test_a_limit_that_slurm_does_not_tell_is_no_change():
    assert noticed(waiting(), waiting(time_limit_s=np.nan), waiting()) == []


def test_of_a_comment_only_what_it_asks_of_us_is_repeated():
    looks = [waiting(comment=text) for text in ("secret", "secret slurmsched:soft,ckpt", "other slurmsched:ckpt")]
    assert noticed(*looks) == [("comment", "", "slurmsched:ckpt"), ("comment", "slurmsched:ckpt", "slurmsched:ckpt")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "slurmsched:share=0+1"),
        ("mine", "mine;slurmsched:share=0"),
        ("mine;slurmsched:share=0", "mine"),
        ("slurmsched:iterations=90", "slurmsched:iterations=90,pace=0.250000,done=10"),
    ],
)
def test_what_we_or_the_jobs_helper_write_into_a_comment_is_no_change_of_it(before, after):
    assert noticed(waiting(comment=before), waiting(comment=after)) == []


def test_a_long_comment_is_cut():
    steps = ",".join(f"{99 - day}@+{2 + day}d" for day in range(90))
    ((_, _, after),) = noticed(waiting(), waiting(comment=f"slurmsched:deadline=+1d,{steps}"))
    assert len(after) == 300


def test_a_suspension_and_its_end_are_noticed():
    states = (JobState.RUNNING, JobState.SUSPENDED, JobState.SUSPENDED, JobState.RUNNING)
    assert noticed(*(running(state=state) for state in states)) == [("suspended", None, None), ("resumed", None, None)]


def test_what_slurm_does_as_a_job_starts_or_queues_again_is_no_change():
    many, one = {"partition": "gpu,big", "time_limit_s": 9000.0}, {"partition": "big", "time_limit_s": 60.0}
    assert noticed(waiting(**many), running(**one), waiting(restarts=1, **many)) == []
    assert noticed(running(**many), running(restarts=1, **one)) == []


def test_another_job_with_the_id_is_not_compared():
    assert noticed(waiting(), waiting(first_submit_s=500.0, qos="high")) == []


def test_the_waiting_tasks_of_an_array_and_its_last_task_are_two_things():
    tasks = {"array_job_id": 7, "task_id": -1, "tasks": 4}
    assert noticed(waiting(**tasks), waiting(**tasks, nice=5)) == [("nice", 0, 5)]
    assert noticed(waiting(**tasks), waiting(array_job_id=7, task_id=4, nice=5)) == []


def test_what_we_asked_for_is_not_told_as_if_others_had_done_it():
    looks = waiting(), waiting(partition="shared", qos="high")
    assert noticed(*looks, ours=((7, "partition"),)) == [("qos", "normal", "high")]
    assert len(noticed(*looks, ours=((8, "partition"),))) == 2


def test_who_changes_a_job_all_the_time_is_noted_so_often_and_no_more():
    tracker = ModificationTracker()
    events = [
        event
        for second in range(10 * MOST)
        for event in tracker.observe(*waiting(comment=f"step {second}", nice=second // (9 * MOST)), float(second))
    ]
    comments = [event for event in events if event.what == "comment"]
    assert [event.last for event in comments] == [False] * (MOST - 1) + [True]
    assert [event.what for event in events if event.what != "comment"] == ["nice"], "another kind has its own bound"


def test_the_bound_is_each_jobs_own_and_forgotten_with_it():
    tracker = ModificationTracker()
    for second in range(2 * MOST):
        tracker.observe(*waiting(nice=second), 0.0)
    tracker.observe(*waiting(nice=0), 0.0)
    assert tracker.observe(*waiting(nice=1), 0.0) == []
    tracker.observe(NOBODY, NOBODY, 0.0)
    tracker.observe(*waiting(nice=1), 0.0)
    assert len(tracker.observe(*waiting(nice=2), 0.0)) == 1


def test_many_jobs_in_any_order_are_compared_each_with_itself():
    ids = np.arange(1, 1001)
    turned = ids[::-1]
    before = job_table(1000, job_id=ids, first_submit_s=np.full(1000, 5.0), comment=[f"c{number}" for number in ids])
    after = job_table(
        1000, job_id=turned, first_submit_s=np.full(1000, 5.0), comment=[f"c{n + (n == 500)}" for n in turned]
    )
    tracker = ModificationTracker()
    tracker.observe(before, NOBODY, 0.0)
    assert [event.job_id for event in tracker.observe(after, NOBODY, 1.0)] == [500]
