"""The demo's jobs: real, fixed, and with names that tell only a part."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np

from slurmsched.cluster.job_kind import bucket
from slurmsched.demo.workload import BURST, LONGEST_S, MOST_GPUS, USERS, Submission, bursts


def group(job: Submission) -> tuple[str, str]:
    return job.user, bucket(job.name)


def explained(earlier: tuple[Submission, ...], later: tuple[Submission, ...]) -> float:
    """The share of the variance of log runtime that the mean of the user's earlier runs of that name explains."""
    runs = defaultdict(list)
    for job in earlier:
        runs[group(job)].append(math.log(job.runtime_s))
        runs[job.user].append(math.log(job.runtime_s))
    true = np.array([math.log(job.runtime_s) for job in later])
    guess = np.array([np.mean(runs.get(group(job)) or runs[job.user]) for job in later])
    return 1 - float(((true - guess) ** 2).sum() / ((true - true.mean()) ** 2).sum())


def test_both_bursts_have_as_many_jobs_as_told_and_all_users():
    earlier, measured = bursts()
    assert len(earlier) == len(measured) == BURST
    assert {job.user for job in measured} == set(USERS)


def test_the_jobs_are_the_same_every_time():
    assert bursts() == bursts()
    assert bursts()[1][3] == Submission("ada", "seg_30_v5", gpus=1, time_limit_min=1, runtime_s=1)


def test_no_job_is_longer_or_wider_than_the_lab_is_made_for():
    jobs = [job for burst in bursts() for job in burst]
    assert {job.gpus for job in jobs} <= {1, 2, 4, MOST_GPUS}
    assert all(1 <= job.runtime_s <= LONGEST_S for job in jobs)
    assert all(job.runtime_s <= 60 * job.time_limit_min for job in jobs)


def test_a_name_tells_a_part_of_the_runtime_as_in_real_logs():
    assert 0.35 < explained(*bursts()) < 0.55


def test_the_bursts_keep_the_lab_busy_for_about_a_minute():
    work_s = sum(job.gpus * job.runtime_s for job in bursts()[1])
    assert 55 < work_s / 16 < 75


def test_a_smaller_demo_is_a_cut_of_the_same_jobs():
    earlier, measured = bursts(jobs=10, longest_s=3)
    assert [job.name for job in measured] == [job.name for job in bursts()[1][:10]]
    assert max(job.runtime_s for job in earlier + measured) == 3
    assert not Counter(earlier) & Counter(bursts()[1])
