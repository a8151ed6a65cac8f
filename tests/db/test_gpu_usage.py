"""What is known of jobs' use of their GPUs, from the profiles of earlier runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from db_worlds import NAN, CheckedMemory, jobs, look

from slurmsched.clock import ManualClock
from slurmsched.cluster.job_kind import kind_of
from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.db.records import gpu_usage

PROFILE = NodeProfile(7, 0, "n1", 1000, 1100, 2, 100.0, 0.9, 0.4, 0.1, 0.2, 8192.0, 500.0, 0.0)
JOB = JobRecord(7, 0, -1, 1, "train_12", "alice", "a", "q", "gpu", 2, 1, 4, 3600.0, 990.0, 990.0, 1000.0, 0, 990.0)


@pytest.fixture
def ran(store):
    """Puts a run, and what its nodes measured of it, into the database."""

    def put(*profiles, **job):
        run = JOB._replace(**job)
        store.add_outcomes("c", outcomes_of([EndedRun(run, run.started_s + 100.0, JobState.COMPLETED)]))
        store.add_profiles("c", profiles)

    return put


def waiting(**columns):
    return jobs(1, first=50, **{"user": ["alice"], "name": ["train_13"], "submitted_s": [2000.0], **columns})


def known(store, table, now_s=3000.0):
    """The columns of the one job of *table* as a fresh memory has them."""
    pending = CheckedMemory(store, cluster="c").remember(look(table), now_s).state.pending
    names = ("gpu_util", "memory_util", "gpu_memory_mib", "unstable", "measured")
    return tuple(getattr(pending, name)[0] for name in names)


def test_a_job_is_known_by_earlier_runs_of_its_kind(store, ran):
    ran(PROFILE)
    assert known(store, waiting()) == (0.4, 0.2, 4096.0, False, True)


def test_runs_of_other_users_and_other_names_say_nothing(store, ran):
    ran(PROFILE)
    for table in (waiting(user=["bob"]), waiting(name=["eval_13"])):
        *figures, unstable, measured = known(store, table)
        assert all(math.isnan(figure) for figure in figures)
        assert not unstable
        assert not measured


def test_what_the_job_itself_did_counts_before_what_its_kind_did(store, ran):
    ran(PROFILE)
    ran(replace(PROFILE, job_id=50, start_s=2100, gpu_util=0.8), job_id=50, started_s=2100.0, first_submit_s=2000.0)
    ran(replace(PROFILE, job_id=51, start_s=2300, gpu_util=0.1), job_id=51, started_s=2300.0, first_submit_s=2000.0)
    assert known(store, waiting(restarts=[1]))[0] == 0.8
    assert known(store, waiting(submitted_s=[2500.0], first_submit_s=[2500.0]))[0] == pytest.approx(
        (0.4 + 0.8 + 0.1) / 3
    )


def test_several_runs_count_with_their_mean_and_their_worst(store, ran):
    ran(PROFILE)
    second = replace(PROFILE, job_id=8, start_s=1200, end_s=1300, gpu_util=0.6, memory_mib=9000.0, unstable=1.0)
    ran(second, replace(second, node="n2", gpu_util=0.8), job_id=8, started_s=1200.0)
    gpu_util, _, memory_mib, unstable, _ = known(store, waiting())
    assert gpu_util == pytest.approx((0.4 + 0.7) / 2)
    assert memory_mib == 4500.0
    assert unstable


def test_a_profile_of_another_run_under_the_same_id_is_not_taken_for_it(store, ran):
    ran(replace(PROFILE, start_s=500_000, end_s=500_100))
    assert not known(store, waiting(), 600_000.0)[-1]


def test_what_was_not_measured_stays_unknown(store, ran):
    ran(replace(PROFILE, gpu_util=NAN, memory_util=NAN, memory_mib=NAN, unstable=NAN))
    *figures, unstable, measured = known(store, waiting())
    assert all(math.isnan(figure) for figure in figures)
    assert not unstable
    assert not measured


def test_a_profile_that_comes_later_is_known_a_minute_later(store, ran):
    clock = ManualClock(3000.0)
    memory = CheckedMemory(store, cluster="c", monotonic=clock.monotonic)
    assert not memory.remember(look(waiting()), 3000.0).state.pending.measured[0]
    ran(PROFILE)
    assert not memory.remember(look(waiting()), 3015.0).state.pending.measured[0]
    clock.now_s = 3061.0
    assert memory.remember(look(None, waiting(state=[JobState.RUNNING])), 3061.0).state.running.measured[0]


def running(restarts=0, started_s=2000.0):
    times = {"submitted_s": [1990.0], "first_submit_s": [1990.0], "started_s": [started_s]}
    return jobs(1, first=60, user=["alice"], name=["train_9"], state=[JobState.RUNNING], restarts=[restarts], **times)


EARLY = replace(PROFILE, job_id=60, start_s=2001, end_s=2201, gpu_util=0.6, measured_s=200.0)


@pytest.fixture
def observed(store):
    """Returns a look at a running job and one of its kind that waits, a minute after the one before."""
    clock = ManualClock(2000.0)
    memory = CheckedMemory(store, cluster="c", monotonic=clock.monotonic)

    def look_again(table, ended=None):
        clock.now_s += 61.0
        return memory.remember(look(waiting(), table, ended), clock.now_s).state

    return look_again


def test_a_job_that_runs_is_known_by_its_first_profile_and_so_are_others_of_its_kind(store, observed):
    state = observed(running())
    assert not state.running.measured[0]
    store.add_profiles("c", [EARLY])
    state = observed(running())
    assert (state.running.gpu_util[0], state.pending.gpu_util[0]) == (0.6, 0.6)
    assert state.running.measured[0]


def test_the_profile_of_the_whole_run_takes_the_place_of_its_first_one(store, observed):
    observed(running())
    store.add_profiles("c", [EARLY])
    observed(running())
    whole = replace(EARLY, end_s=2300, gpu_util=0.2)
    store.add_profiles("c", [whole])
    assert observed(running()).pending.gpu_util[0] == 0.2
    store.add_profiles("c", [EARLY])
    ended = replace(running(), state=np.array([JobState.COMPLETED]), ended_s=np.array([2300.0]))
    assert observed(None, ended).pending.gpu_util[0] == 0.2
    assert len(store.history("c")) == 1
    assert observed(None).pending.gpu_util[0] == 0.2, "its end adds no second run, and a late record nothing"


def test_a_first_profile_of_another_run_is_not_taken_for_that_of_the_job_that_runs(store, observed):
    observed(running(restarts=1))
    store.add_profiles("c", [EARLY, replace(EARLY, restart=1, start_s=1000, end_s=1100)])
    state = observed(running(restarts=1, started_s=2100.0))
    assert not state.running.measured[0]
    assert not state.pending.measured[0]


def test_a_hundred_thousand_jobs_of_known_kinds_cost_less_than_100_ms():
    from time import process_time

    table = jobs(100_000, user=["alice"] * 100_000, name=[f"train_{number % 5000}" for number in range(100_000)])
    seen = gpu_usage.RecentUsage()
    run = gpu_usage.Use(1000.0, 1100.0, 0.4, 0.2, 4096.0, False)
    seen.learn([((job_id, 0, 1100), kind_of("alice", f"train_{job_id}"), run) for job_id in range(1, 2000)], 2000.0)
    seen.filled(look(table))
    begun_s = process_time()
    state = seen.filled(look(table))
    assert process_time() - begun_s < 0.1
    assert state.pending.measured.all()


def test_memory_of_uses_is_bounded():
    seen = gpu_usage.RecentUsage()
    run = gpu_usage.Use(1000.0, 1100.0, 0.4, 0.2, 4096.0, False)
    seen.learn([((job_id, 0, 1100), f"alice/{job_id}", run) for job_id in range(gpu_usage.MOST + 10)], 2000.0)
    kinds = [f"alice/{job_id}" for job_id in (0, gpu_usage.MOST + 9)]
    assert [kind in seen._by_kind for kind in kinds] == [False, True]
    assert np.array_equal([len(seen._by_job), len(seen._runs)], [gpu_usage.MOST, gpu_usage.MOST])


def test_all_that_was_measured_can_be_had_with_its_kind(store, ran):
    ran(PROFILE)
    ((_, kind, use),) = CheckedMemory(store, cluster="c").measured()
    assert (kind, use.gpu_util, use.gpu_memory_mib) == (kind_of("alice", "train_1"), 0.4, 4096.0)
