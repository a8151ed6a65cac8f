"""The ledger: what changed between two looks, and what never changes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.events import JobEnded, JobRequeued, JobStarted, JobSubmitted
from slurmsched.cluster.job_record import Phase
from slurmsched.cluster.job_tracker import Delay, JobTracker, held_rows
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.state import ClusterState
from slurmsched.decide.ordering.ranking import waited_s


def empty(kind):
    columns = {
        name: Labels.of([]) if "Labels" in str(hint) else np.zeros(0, dtype=bool if "Bool" in str(hint) else float)
        for name, hint in kind.__annotations__.items()
    }
    return kind(**columns)


def job(job_id=7, state=JobState.PENDING, submitted_s=100.0, **columns):
    return {"job_id": job_id, "state": state, "submitted_s": submitted_s, "eligible_s": submitted_s, **columns}


def running(job_id=7, started_s=200.0, **columns):
    return job(job_id, columns.pop("state", JobState.RUNNING), started_s=started_s, **columns)


def ended(job_id=7, started_s=200.0, ended_s=300.0, **columns):
    return job(job_id, columns.pop("state", JobState.COMPLETED), started_s=started_s, ended_s=ended_s, **columns)


def table(rows) -> JobTable:
    names = {name for row in rows for name in row}
    neutral = {"task_id": -1, "tasks": 1, "started_s": np.nan, "ended_s": np.nan, "time_limit_s": np.inf}
    columns = {name: [row.get(name, neutral.get(name, 0)) for row in rows] for name in names}
    return job_table(len(rows), **columns)


def look(*rows, melted=()) -> ClusterState:
    pending = [row for row in rows if row["state"] == JobState.PENDING]
    over = [row for row in rows if JobState(row["state"]).ended]
    live = [row for row in rows if row["state"] != JobState.PENDING and not JobState(row["state"]).ended]
    others = (empty(NodeTable), empty(PartitionTable), empty(QosTable))
    return ClusterState(table(pending), table(live), table(over), *others, np.array(melted, dtype=np.int64))


def outcomes(changes):
    names = ("job_id", "restart", "state", "first_submit_s", "started_s", "ended_s", "runtime_s")
    return list(zip(*(getattr(changes.ended, name).tolist() for name in names), strict=True))


class CheckedTracker(JobTracker):
    """A tracker that checks its records after each change."""

    def update(self, *args, **columns):
        changes = super().update(*args, **columns)
        self.validate()
        return changes

    def adopt(self, jobs):
        changed = super().adopt(jobs)
        self.validate()
        return changed


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda jobs: jobs.pop(8), "differs from their records in unit"),
        (lambda jobs: jobs.update({7: jobs[7]._replace(restarts=1)}), "in restarts"),
        (lambda jobs: jobs.update({7: jobs[7]._replace(job_id=9)}), "stands under unit 7"),
        (lambda jobs: jobs.update({7: jobs[7]._replace(phase=Phase.ENDED)}), "in phase"),
    ],
)
def test_records_that_differ_from_their_index_are_noticed(spoil, names):
    tracker = CheckedTracker()
    tracker.update(look(running(), job(8)), 210)
    spoil(tracker._jobs)
    with pytest.raises(AssertionError, match=names):
        tracker.validate()


@pytest.mark.parametrize(
    ("columns", "names"), [({"started_s": 5.0}, "waits but has started"), ({"delayed_s": -1.0}, "less than nothing")]
)
def test_a_record_that_contradicts_itself_is_noticed(columns, names):
    source = CheckedTracker()
    (record,) = source.update(look(job()), 105).jobs.values()
    with pytest.raises(AssertionError, match=names):
        CheckedTracker([record._replace(**columns)]).validate()


def test_a_job_that_saves_its_work_goes_on_from_the_time_of_its_earlier_runs():
    tracker = CheckedTracker()
    tracker.update(look(running(ckpt=True), running(8)), 250)
    again = look(*(job(job_id, submitted_s=300.0, restarts=1, ckpt=job_id == 7) for job_id in (7, 8)))
    assert tracker.update(again, 310).state.pending.ran_s.tolist() == [100.0, 0.0], "job 8 begins anew"
    changes = tracker.update(look(running(started_s=400.0, submitted_s=300.0, restarts=1, ckpt=True)), 430)
    assert changes.state.running.ran_s.tolist() == [130.0]
    later = CheckedTracker(changes.jobs.values())
    waits = look(job(submitted_s=450.0, restarts=2, ckpt=True))
    assert later.update(waits, 460).state.pending.ran_s.tolist() == [150.0], "another process knows it too"


def test_it_is_known_on_how_many_gpus_a_job_that_saves_its_work_ran_before():
    tracker, ckpt = CheckedTracker(), {"ckpt": True}
    tracker.update(look(running(gpus=1, **ckpt), running(8, gpus=1)), 250)
    waits = look(*(job(job_id, gpus=1, submitted_s=300.0, restarts=1, ckpt=job_id == 7) for job_id in (7, 8)))
    assert list(tracker.update(waits, 310).state.pending.ran_on) == ["1=100.0", ""]
    larger = running(gpus=4, started_s=400.0, submitted_s=300.0, restarts=1, **ckpt)
    changes = tracker.update(look(larger), 430)
    assert list(changes.state.running.ran_on) == ["1=100.0"], "of earlier runs alone"
    later = CheckedTracker(changes.jobs.values())
    again = look(job(gpus=4, submitted_s=450.0, restarts=2, **ckpt))
    assert list(later.update(again, 460).state.pending.ran_on) == ["1=100.0 4=50.0"]


def test_a_new_job_is_submitted_once():
    ledger = CheckedTracker()
    assert ledger.update(look(job()), 105).events == (JobSubmitted(7, 100),)
    again = ledger.update(look(job()), 120)
    assert again.events == ()
    assert again.jobs == {}


def test_a_submission_tells_the_partitions_and_the_tokens_of_the_job():
    shared = job(partition="gpu,fast", comment="my note slurmsched:ckpt slurmsched:share=0")
    (event,) = CheckedTracker().update(look(shared), 105).events
    assert (event.partition, event.request) == ("gpu,fast", "slurmsched:ckpt")


def test_a_job_is_followed_from_submit_to_end_at_slurms_own_times():
    ledger = CheckedTracker()
    ledger.update(look(job()), 105)
    assert ledger.update(look(running()), 210).events == (JobStarted(7, 200),)
    over = ledger.update(look(ended()), 310)
    assert over.events == (JobEnded(7, 300, JobState.COMPLETED),)
    assert outcomes(over) == [(7, 0, JobState.COMPLETED, 100, 200, 300, 100)]
    assert outcomes(ledger.update(look(ended()), 325)) == []


def test_a_job_that_ran_between_two_looks_has_an_outcome():
    changes = CheckedTracker().update(look(ended()), 310)
    assert changes.events == (JobSubmitted(7, 100), JobStarted(7, 200), JobEnded(7, 300, JobState.COMPLETED))
    assert outcomes(changes) == [(7, 0, JobState.COMPLETED, 100, 200, 300, 100)]


def test_a_requeued_job_keeps_its_first_submit_and_leaves_an_outcome():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    changes = ledger.update(look(job(submitted_s=400.0, restarts=1)), 410)
    assert changes.events == (JobRequeued(7, 400, 1),)
    assert outcomes(changes) == [(7, 0, JobState.REQUEUED, 100, 200, 400, 200)]
    assert changes.state.pending.first_submit_s.tolist() == [100]
    again = running(started_s=500.0, submitted_s=400.0, restarts=1)
    assert ledger.update(look(again), 510).events == (JobStarted(7, 500, 1),)
    over = ledger.update(look(ended(started_s=500.0, ended_s=600.0, submitted_s=400.0, restarts=1)), 610)
    assert outcomes(over) == [(7, 1, JobState.COMPLETED, 100, 500, 600, 100)]


def test_after_a_requeue_a_deadline_still_counts_from_the_first_submit():
    ledger = CheckedTracker()
    texts = {7: "slurmsched:deadline=+1h", 8: "slurmsched:deadline=1970-01-01T01:00Z", 9: "slurmsched:deadline=+1h"}
    before = [running(number, first_submit_s=100.0, comment=texts[number]) for number in (7, 8)]
    ledger.update(look(*before), 210)
    again = {"submitted_s": 400.0, "first_submit_s": 400.0}
    after = [
        job(7, **again, restarts=1, comment=texts[7], deadline_s=4000.0),
        job(8, **again, restarts=1, comment=texts[8], deadline_s=3600.0),
        job(9, **again, comment=texts[9], deadline_s=4000.0),
    ]
    assert ledger.update(look(*after), 410).state.pending.deadline_s.tolist() == [3700, 3600, 4000]


def test_a_requeued_job_is_queued_again_when_its_old_run_has_ended():
    """While that takes, Slurm shows the restarts of the next run, the old submit time and a start time that is now."""
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    for now_s in (401.0, 416.0):
        cleaning = running(restarts=1, started_s=now_s, state=JobState.COMPLETING)
        assert ledger.update(look(cleaning), now_s).events == ()
    changes = ledger.update(look(job(submitted_s=430.0, restarts=1)), 431)
    assert changes.events == (JobRequeued(7, 430, 1),)
    assert outcomes(changes) == [(7, 0, JobState.REQUEUED, 100, 200, 430, 230)]
    assert changes.state.pending.first_submit_s.tolist() == [100]


def test_a_job_first_met_between_two_runs_is_met_when_it_is_queued_again():
    ledger = CheckedTracker()
    cleaning = running(restarts=1, started_s=401.0, state=JobState.COMPLETING)
    assert ledger.update(look(cleaning), 401).events == ()
    assert ledger.update(look(job(submitted_s=430.0, restarts=1)), 431).events == (JobSubmitted(7, 430),)


def test_a_requeue_and_the_next_start_between_two_looks_are_both_told():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    changes = ledger.update(look(running(started_s=405.0, submitted_s=400.0, restarts=1)), 410)
    assert changes.events == (JobRequeued(7, 400, 1), JobStarted(7, 405, 1))
    assert outcomes(changes) == [(7, 0, JobState.REQUEUED, 100, 200, 400, 200)]


def test_the_end_of_the_first_of_two_unseen_requeues_is_left_to_the_accounting():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    assert outcomes(ledger.update(look(job(submitted_s=900.0, restarts=2)), 910))[0][2] == JobState.OTHER


def test_a_job_requeued_after_its_end_keeps_its_first_submit():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    ledger.update(look(ended(state=JobState.TIMEOUT)), 310)
    changes = ledger.update(look(job(submitted_s=400.0, restarts=1)), 410)
    assert outcomes(changes) == []
    assert changes.state.pending.first_submit_s.tolist() == [100]


def test_a_job_that_a_look_leaves_out_stays_as_it_was_until_slurm_has_forgotten_it():
    ledger = CheckedTracker()
    ledger.update(look(running(), job(8), ended(9)), 310)
    assert ledger.missing(look(running())) == [8], "of those that ended Slurm is nowhere asked"
    assert ledger.missing(look()) == [7, 8]
    changes = ledger.update(look(), 325)
    assert (changes.events, changes.jobs) == ((), {9: None})
    again = ledger.update(look(running(), job(8)), 340)
    assert (again.events, again.jobs) == ((), {})


def test_a_job_that_vanished_ended_when_it_was_missed():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    changes = ledger.update(look(), 500, forgotten=[7])
    assert changes.events == (JobEnded(7, 500, JobState.OTHER),)
    assert outcomes(changes) == [(7, 0, JobState.OTHER, 100, 200, 500, 300)]
    assert changes.jobs == {7: None}


def test_a_vanished_job_ended_no_later_than_its_time_limit():
    ledger = CheckedTracker()
    ledger.update(look(running(time_limit_s=60.0)), 210)
    assert outcomes(ledger.update(look(), 10_000, forgotten=[7]))[0][-2:] == (260, 60)


def test_a_job_cancelled_in_the_queue_never_started():
    ledger = CheckedTracker()
    ledger.update(look(job()), 105)
    over = ledger.update(look(ended(state=JobState.CANCELLED, started_s=300.0)), 310)
    assert over.events == (JobEnded(7, 300, JobState.CANCELLED),)
    assert np.isnan(over.ended.started_s).all()
    assert over.ended.runtime_s.tolist() == [0]


def test_an_id_that_is_used_again_is_a_new_job():
    ledger = CheckedTracker()
    ledger.update(look(running()), 210)
    changes = ledger.update(look(job(submitted_s=5000.0)), 5010)
    assert changes.events == (JobEnded(7, 5010, JobState.OTHER), JobSubmitted(7, 5000))
    assert changes.state.pending.first_submit_s.tolist() == [5000]


def test_a_submit_time_that_is_off_by_a_second_is_the_same_job():
    ledger = CheckedTracker()
    ledger.update(look(job()), 105)
    assert ledger.update(look(job(submitted_s=101.0)), 120).events == ()


def test_a_job_forgotten_by_slurm_is_forgotten_here():
    ledger = CheckedTracker()
    ledger.update(look(ended()), 310)
    assert ledger.update(look(), 700).jobs == {7: None}
    assert len(ledger) == 0


def array(tasks, **columns):
    return job(20, array_job_id=20, task_id=-1, tasks=tasks, **columns)


def test_tasks_of_an_array_that_start_are_jobs_of_their_own():
    ledger = CheckedTracker()
    ledger.update(look(array(3)), 105)
    first = running(21, array_job_id=20, task_id=0)
    changes = ledger.update(look(array(2), first), 210)
    assert changes.events == (JobSubmitted(21, 100), JobStarted(21, 200))
    assert changes.state.running.first_submit_s.tolist() == [100]
    last = running(20, array_job_id=20, task_id=2)  # the last task takes over the array's id
    changes = ledger.update(look(first, running(22, array_job_id=20, task_id=1), last), 225)
    assert outcomes(changes) == []
    assert changes.jobs[-20] is None


def test_a_task_that_is_queued_again_melts_into_its_array_and_keeps_the_first_submit():
    ledger = CheckedTracker()
    tasks = [running(21, array_job_id=20, task_id=0), running(20, array_job_id=20, task_id=1)]
    ledger.update(look(*tasks), 210)
    # squeue merges what waits under the array's id, which the last task has too.
    again = array(1, submitted_s=400.0, restarts=1)
    for now_s in (410, 425):
        assert ledger.missing(look(again, tasks[1], melted=[21])) == []
        changes = ledger.update(look(again, tasks[1], melted=[21]), now_s)
        assert changes.state.pending.first_submit_s.tolist() == [100]
    assert changes.events == ()
    started = running(21, array_job_id=20, task_id=0, submitted_s=400.0, started_s=500.0, restarts=1)
    changes = ledger.update(look(started, tasks[1]), 510)
    assert changes.state.running.first_submit_s.tolist() == [100, 100]
    assert JobStarted(21, 500, 1) in changes.events


def test_a_task_that_went_back_to_a_waiting_array_was_requeued():
    ledger = CheckedTracker()
    ledger.update(look(array(3), running(21, array_job_id=20, task_id=0)), 210)
    changes = ledger.update(look(array(4), melted=[21]), 400)
    assert changes.events == (JobRequeued(21, 400, 1),)
    assert outcomes(changes) == [(21, 0, JobState.REQUEUED, 100, 200, 400, 200)]


def test_a_task_that_is_queued_again_as_another_one_starts_was_requeued():
    ledger = CheckedTracker()
    ledger.update(look(array(3), running(21, array_job_id=20, task_id=0)), 210)
    changes = ledger.update(look(array(3), running(22, array_job_id=20, task_id=1), melted=[21]), 400)
    assert JobRequeued(21, 400, 1) in changes.events
    assert outcomes(changes) == [(21, 0, JobState.REQUEUED, 100, 200, 400, 200)]


def test_the_waiting_tasks_of_an_array_are_missed_only_where_none_of_its_tasks_is_shown():
    ledger = CheckedTracker()
    ledger.update(look(array(3)), 105)
    assert ledger.missing(look(running(21, array_job_id=20, task_id=0))) == []
    assert ledger.missing(look(ended(21, array_job_id=20, task_id=0))) == []
    assert ledger.missing(look()) == [20]


def test_a_new_process_goes_on_where_the_old_one_was():
    old = CheckedTracker()
    kept = {}
    for state, now_s in ((look(running(), job(8)), 210), (look(job(submitted_s=400.0, restarts=1), job(8)), 410)):
        kept.update(old.update(state, now_s).jobs)
    new = CheckedTracker(kept.values())
    changes = new.update(look(job(submitted_s=400.0, restarts=1), job(8)), 500)
    assert changes.events == ()
    assert changes.state.pending.first_submit_s.tolist() == [100, 100]


def test_a_ledger_that_began_without_the_database_learns_older_first_submits():
    ledger = CheckedTracker()
    before = CheckedTracker()
    known = before.update(look(running(), job(9)), 210).jobs.values()
    ledger.update(look(job(submitted_s=400.0, restarts=1)), 410)
    ledger.adopt(known)
    changes = ledger.update(look(job(submitted_s=400.0, restarts=1)), 425, forgotten=[9])
    assert changes.state.pending.first_submit_s.tolist() == [100]
    assert changes.events == (JobEnded(9, 425, JobState.OTHER),)


def test_only_a_start_time_that_we_asked_for_is_a_hold_of_ours():
    pending = table([job(n, eligible_s=eligible) for n, eligible in ((3, 530.0), (1, 560.0), (2, 90.0))])
    asked = np.array([1, 2, 3, 4]), np.array([530.0, 90.0, 531.0, 530.0])
    assert held_rows(pending, *asked, now_s=500, within_s=5).tolist() == [True, False, False]


@pytest.mark.parametrize("count", [0, 1])
def test_no_jobs_are_no_trouble(count):
    ledger = CheckedTracker()
    assert ledger.update(look(*[job()] * count), 105).state.pending.first_submit_s.tolist() == [100.0] * count
    assert len(ledger.update(look(), 120).state.pending) == 0


def test_ten_thousand_unchanged_jobs_take_little_time():
    ledger = JobTracker()
    state = look(*(job(n) for n in range(1, 10_001)))
    ledger.update(state, 105)
    took_s = []
    for now_s in (120, 135, 150):
        begun_s = time.process_time()
        assert ledger.update(state, now_s).jobs == {}
        took_s.append(time.process_time() - begun_s)
    assert min(took_s) < 0.05


def waited(changes, now_s):
    return waited_s(changes.state.pending, now_s).tolist()


def test_the_wait_of_a_job_is_the_time_that_it_was_eligible_before_all_of_its_runs():
    tracker = CheckedTracker()
    tracker.update(look(job()), 150.0)
    tracker.update(look(running(started_s=200.0)), 210.0)
    again = job(submitted_s=1000.0, restarts=1, eligible_s=1121.0)
    assert waited(tracker.update(look(again), 1010.0), 1010.0) == [100.0], "800 s of a run are no wait"
    assert waited(tracker.update(look(again), 1221.0), 1221.0) == [200.0]
    tracker.update(look(running(submitted_s=1000.0, started_s=1321.0, restarts=1, eligible_s=1121.0)), 1330.0)
    third = job(submitted_s=1400.0, restarts=2, eligible_s=1521.0)
    assert waited(tracker.update(look(third), 1531.0), 1531.0) == [100.0 + 200.0 + 10.0]


def test_a_run_between_two_looks_costs_a_job_none_of_its_wait():
    tracker = CheckedTracker()
    tracker.update(look(job()), 150.0)
    again = job(submitted_s=1000.0, restarts=1, eligible_s=1121.0)
    assert waited(tracker.update(look(again), 1010.0), 1010.0) == [900.0]


def test_time_under_a_hold_is_no_wait():
    tracker = CheckedTracker()
    tracker.update(look(job()), 150.0)
    held = job(priority=0)
    waiting = job(priority=50)
    tracker.update(look(waiting), 160.0)
    assert waited(tracker.update(look(held), 200.0), 200.0) == [100.0]
    assert waited(tracker.update(look(held), 500.0), 500.0) == [100.0]
    assert waited(tracker.update(look(waiting), 700.0), 700.0) == [100.0]
    assert waited(tracker.update(look(waiting), 750.0), 750.0) == [150.0]
    tracker.update(look(running(started_s=760.0)), 770.0)
    requeued_and_held = job(submitted_s=800.0, restarts=1, eligible_s=921.0, priority=0)
    assert waited(tracker.update(look(requeued_and_held), 810.0), 810.0) == [160.0]
    released = job(submitted_s=800.0, restarts=1, eligible_s=921.0, priority=50)
    assert waited(tracker.update(look(released), 5000.0), 5000.0) == [160.0]
    assert waited(tracker.update(look(released), 5001.0), 5001.0) == [161.0]


def test_a_job_that_was_held_from_the_start_has_waited_since_its_release():
    tracker = CheckedTracker()
    tracker.update(look(job(priority=0, eligible_s=np.nan)), 150.0)
    assert waited(tracker.update(look(job(priority=50, eligible_s=400.0)), 410.0), 410.0) == [10.0]


def came(changes):
    return changes.state.pending.came_s.tolist()


def test_a_hold_counts_as_if_the_job_had_come_later_by_its_length():
    tracker = CheckedTracker()
    waiting, held = job(priority=50), job(priority=0)
    assert came(tracker.update(look(waiting), 150.0)) == [100.0]
    assert came(tracker.update(look(held), 200.0)) == [100.0]
    assert came(tracker.update(look(held), 500.0)) == [400.0]
    assert came(tracker.update(look(waiting), 700.0)) == [600.0]
    assert came(tracker.update(look(waiting), 9_000.0)) == [600.0]


@pytest.mark.parametrize("word", ["JobHeldUser", "job requeued in held state", "job requeued in special exit state"])
def test_a_hold_of_its_owner_costs_a_job_its_place_and_none_of_its_wait(word):
    tracker = CheckedTracker()
    waiting, held = job(priority=50, reason="Priority"), job(priority=0, eligible_s=np.nan, reason=word)
    tracker.update(look(waiting), 150.0)
    assert came(tracker.update(look(held), 200.0)) == [200.0]
    assert came(tracker.update(look(held), 500.0)) == [500.0]
    released = job(priority=50, eligible_s=700.0, reason="Priority")
    seen = tracker.update(look(released), 710.0)
    assert came(seen) == [700.0]
    assert waited(seen, 710.0) == [100.0 + 10.0]


def test_a_hold_of_an_administrator_costs_a_job_its_length():
    tracker = CheckedTracker()
    tracker.update(look(job(priority=50, reason="Priority")), 150.0)
    tracker.update(look(job(priority=0, eligible_s=np.nan, reason="JobHeldAdmin")), 200.0)
    seen = tracker.update(look(job(priority=50, eligible_s=700.0, reason="Priority")), 710.0)
    assert came(seen) == [600.0]
    assert waited(seen, 710.0) == [100.0 + 10.0]


def test_who_runs_for_moments_and_holds_his_job_keeps_no_place_and_its_work_counts_for_none():
    tracker = CheckedTracker()
    tracker.update(look(job(priority=50)), 150.0)
    tracker.update(look(running(started_s=200.0)), 210.0)
    requeued = {"submitted_s": 3_000.0, "restarts": 1, "eligible_s": 3_121.0}
    tracker.update(look(job(priority=0, reason="job requeued in held state", **requeued)), 3_010.0)
    assert came(tracker.update(look(job(priority=50, reason="Priority", **requeued)), 9_010.0)) == [9_010.0]


def test_a_begin_time_of_ours_under_a_hold_of_its_owner_gives_it_no_place_back():
    tracker = CheckedTracker()
    ours = {7: Delay(160.0, 5_000.0)}
    tracker.update(look(job(priority=50)), 150.0)
    tracker.update(look(job(priority=50, eligible_s=400.0)), 170.0, ours)
    tracker.update(look(job(priority=0, eligible_s=400.0, reason="JobHeldUser")), 200.0, ours)
    seen = tracker.update(look(job(priority=50, eligible_s=2_000.0, reason="BeginTime")), 1_000.0, ours)
    assert came(seen) == [1_000.0]
    assert waited(seen, 1_000.0) == [100.0]


def test_a_job_that_could_not_start_at_its_submission_came_when_it_could():
    tracker = CheckedTracker()
    assert came(tracker.update(look(job(priority=0, eligible_s=np.nan)), 150.0)) == [150.0]
    assert came(tracker.update(look(job(priority=50, eligible_s=400.0)), 410.0)) == [400.0]
    later = job(8, priority=50, eligible_s=5_000.0)
    assert came(tracker.update(look(job(priority=50, eligible_s=400.0), later), 420.0)) == [400.0, 5_000.0]


def test_runs_cost_a_job_no_place_and_being_held_between_them_does():
    tracker = CheckedTracker()
    tracker.update(look(job(priority=50)), 150.0)
    tracker.update(look(running(started_s=200.0)), 210.0)
    again = job(submitted_s=1_000.0, restarts=1, eligible_s=1_121.0, priority=50)
    assert came(tracker.update(look(again), 1_010.0)) == [100.0]
    assert came(tracker.update(look(again), 5_000.0)) == [100.0], "nor do Slurm's two minutes after a requeue"
    held = job(submitted_s=1_000.0, restarts=1, eligible_s=1_121.0, priority=0)
    tracker.update(look(held), 5_010.0)
    assert came(tracker.update(look(again), 9_010.0))[0] >= 4_000.0


def test_a_job_that_starts_and_requeues_itself_again_and_again_keeps_no_place():
    tracker = CheckedTracker()
    tracker.update(look(job(priority=50)), 100.0)
    for turn in range(20):
        at_s = 200.0 + 200.0 * turn
        row = {"submitted_s": at_s - 200.0 if turn else 100.0, "restarts": turn}
        tracker.update(look(running(started_s=at_s, eligible_s=at_s - 79.0, **row)), at_s + 1.0)
        again = job(submitted_s=at_s + 2.0, restarts=turn + 1, eligible_s=at_s + 123.0, priority=50)
        found = came(tracker.update(look(again), at_s + 130.0))
    assert found[0] > 100.0 + 20 * 100.0
