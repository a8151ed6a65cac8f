"""What ``why`` says of a limit: whose it is, what is used and allowed, by whom, and until when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, running_jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.limits import NO_LIMITS, LimitTable, limit_table
from slurmsched.cluster.state import View
from slurmsched.daemon.api.privacy import hide_other_users
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import Why, why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide


def limits(*rows: dict[str, object]) -> LimitTable:
    return limit_table(rows)


def world(reason: str, *rows: dict[str, object], **columns: object) -> View:
    """Alice's job, and two running jobs of hers and one of bob's, which end in 100 s, 200 s and 50 s."""
    same = {"qos": ["small"] * 3, "account": ["bio", "bio", "astro"], "licences": ["m:1", "", "m:1"]}
    started = [NOW_S - 500, NOW_S - 400, NOW_S - 550]
    running = running_jobs(3, user=["alice", "alice", "bob"], gpus=[1, 2, 4], started_s=started, **same)
    waiting = {"reason": [reason], "qos": ["small"], "account": ["bio"], "gpus": [2], "licences": ["m:1"]} | columns
    return replace(view(jobs(1, **waiting), running=running), limits=limits(*rows) if rows else NO_LIMITS)


def told(seen: View) -> Why:
    return why(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), 1)


QOS = {"whose": "qos", "name": "small"}
ACCOUNT = {"whose": "account", "name": "bio", "members": "bio,bio2"}


@pytest.mark.parametrize(
    ("reason", "limit", "words"),
    [
        (
            "QOSMaxJobsPerUserLimit",
            QOS | {"counts": "user", "resource": "jobs", "most": 2},
            "Its QOS (small) allows 2 running jobs to one user at once; 2 run. Job 901, job 902 hold it; the first of "
            "them, job 901, should end in about 100 s.",
        ),
        (
            "QOSMaxGRESPerUser",
            QOS | {"counts": "user", "resource": "gpu", "most": 4},
            "Its QOS (small) allows 4 GPUs to one user at once; 3 GPUs are in use, and it asks for 2 GPUs.",
        ),
        (
            "QOSGrpGRES",
            QOS | {"counts": "group", "resource": "gpu", "most": 8},
            "Its QOS (small) allows 8 GPUs to all jobs together at once; 7 GPUs are in use, and it asks for 2 GPUs. "
            "Job 903, job 901, job 902 hold it; the first of them, job 903, should end in about 50 s.",
        ),
        (
            "AssocGrpGRES",
            ACCOUNT | {"counts": "group", "resource": "gpu", "most": 4},
            "Its account (bio) allows 4 GPUs to all jobs together at once; 3 GPUs are in use",
        ),
        (
            "AssocMaxJobsLimit",
            ACCOUNT | {"members": "bio", "user": "alice", "counts": "user", "resource": "jobs", "most": 1},
            "Its account (bio) of alice allows 1 running job at once; 2 run.",
        ),
        (
            "Licenses",
            {"whose": "licence", "name": "m", "counts": "group", "resource": "licence", "most": 2},
            "The site has 2 licences of m at once; 2 licences of m are in use, and it asks for 1 licence of m.",
        ),
        (
            "QOSMaxGRESPerJob",
            QOS | {"counts": "job", "resource": "gpu", "most": 1},
            "It asks for 2 GPUs, and its QOS (small) allows 1 GPU for one job: it cannot start so.",
        ),
        (
            "QOSMinGRES",
            QOS | {"counts": "least", "resource": "gpu", "most": 4},
            "It asks for 2 GPUs, and its QOS (small) requires 4 GPUs at least for one job: it cannot start so.",
        ),
        (
            "QOSMaxGRESPerNode",
            QOS | {"counts": "node", "resource": "gpu", "most": 1},
            "It asks for 2 GPUs on one node, and its QOS (small) allows 1 GPU: it cannot start so.",
        ),
    ],
)
def test_a_limit_is_told_with_whose_it_is_what_is_used_and_the_first_end(reason, limit, words):
    other = QOS | {"name": "large", "counts": "user", "resource": "jobs", "most": 99}
    assert words in told(world(reason, other, limit)).reason


def test_a_limit_on_the_time_of_a_job_is_told_with_the_longest_one_that_it_allows():
    limit = QOS | {"counts": "job", "resource": "wall", "most": 600}
    answer = told(world("QOSMaxWallDurationPerJobLimit", limit))
    assert "and its QOS (small) allows 10 min for one job: it cannot start so." in answer.reason
    assert "timelimit=00:10:00'" in answer.advice


GPU_MINUTES = ACCOUNT | {"counts": "group", "resource": "minutes:gpu", "flags": "Safe"}
RUNNING_MINUTES = QOS | {"counts": "user", "resource": "run-minutes:gpu"}


@pytest.mark.parametrize(
    ("reason", "limit", "words"),
    [
        (
            "AssocGrpGRESMinutes",
            GPU_MINUTES | {"most": 1000, "used": 900},
            "It asks for 120 GPU minutes, and its account (bio) has 100 of 1,000 GPU minutes to all jobs together "
            "left: it cannot start so until past use is forgotten or an admin allows more.",
        ),
        (
            "AssocGrpGRESMinutes",
            GPU_MINUTES | {"most": 1000, "used": 1000, "flags": ""},
            "It asks for 120 GPU minutes, and its account (bio) has 0 of 1,000 GPU minutes to all jobs together left",
        ),
        (
            "AssocGrpGRESMinutes",
            GPU_MINUTES | {"most": 1000, "used": 750},
            "Its account (bio) allows 1,000 GPU minutes to all jobs together, of which 750 are gone; running jobs may "
            "still use 158, and it asks for 120. Job 901, job 902 hold it;",
        ),
        (
            "QOSGrpGRESMinutes",
            QOS | {"counts": "group", "resource": "minutes:gpu", "most": 100, "flags": "Safe"},
            "It asks for 120 GPU minutes, and its QOS (small) allows 100 GPU minutes to all jobs together: it cannot "
            "start so.",
        ),
        (
            "QOSMaxGRESMinutesPerJob",
            QOS | {"counts": "job", "resource": "minutes:gpu", "most": 100},
            "It asks for 120 GPU minutes, and its QOS (small) allows 100 GPU minutes for one job: it cannot start so.",
        ),
        (
            "QOSMaxGRESRunMinsPerUser",
            RUNNING_MINUTES | {"most": 200},
            "Its QOS (small) allows 200 GPU minutes still to run to one user; running jobs may still use 158, and it "
            "asks for 120.",
        ),
    ],
)
def test_a_limit_of_minutes_is_told_with_what_is_gone_of_it_and_what_running_jobs_may_still_use(reason, limit, words):
    hour = {"time_limit_s": [3600.0]}
    seen = world(reason, limit, **hour)
    seen = replace(seen, running=replace(seen.running, time_limit_s=np.full(3, 3600.0)))
    assert words in told(seen).reason


@pytest.mark.parametrize(("used", "change"), [(940, "timelimit=30"), (999, "..."), (1000, "...")])
def test_the_time_limit_that_minutes_are_left_for_is_what_the_owner_can_ask_for(used, change):
    seen = world("AssocGrpGRESMinutes", GPU_MINUTES | {"most": 1000, "used": used}, time_limit_s=[3600.0])
    assert told(seen).advice.startswith(f"Change its request with 'scontrol update jobid=1 {change}', or move it")


def test_a_limit_of_gpus_is_not_taken_for_one_of_minutes():
    seen = world("AssocGrpGRESMinutes", ACCOUNT | {"counts": "group", "resource": "gpu", "most": 4})
    assert "4 GPUs to all jobs" not in told(seen).reason


def test_a_limit_that_the_job_alone_is_beyond_is_told_before_one_that_others_use_up():
    used_up = QOS | {"counts": "user", "resource": "jobs", "most": 2}
    alone = QOS | {"counts": "job", "resource": "gpu", "most": 1}
    assert told(world("QOSMaxJobsPerUserLimit", used_up, alone)).reason.startswith(
        "It asks for 2 GPUs, and its QOS (small) allows 1 GPU for one job: it cannot start so."
    )


def test_the_limit_of_a_partitions_qos_is_told_as_such():
    seen = world("QOSMaxJobsPerUserLimit", QOS | {"name": "vip", "counts": "user", "resource": "jobs", "most": 2})
    answer = told(replace(seen, partitions=replace(seen.partitions, qos=Labels.of(["vip"] * len(seen.partitions)))))
    assert answer.reason.startswith("The QOS of its partition (vip) allows 2 running jobs to one user at once; 2 run.")
    assert "partition=NAME" in answer.advice


def test_the_tasks_of_a_throttled_array_wait_for_each_other():
    seen = world("JobArrayTaskLimit", job_id=[1], array_job_id=[1], array_limit=[1], tasks=[5])
    array = np.array([1, 0, 0])
    answer = told(replace(seen, running=replace(seen.running, array_job_id=array)))
    assert (
        answer.reason
        == "Its array allows 1 running task at once; 1 runs. Job 901 holds it; it should end in about 100 s."
    )
    assert "arraytaskthrottle=N" in answer.advice
    assert answer.blockers == (901,)


def test_a_users_own_limit_goes_before_the_one_of_all_users_of_the_account():
    everybody = ACCOUNT | {"members": "bio", "counts": "user", "resource": "jobs", "most": 9}
    mine = everybody | {"user": "alice", "most": 1}
    assert "allows 1 running job" in told(world("AssocMaxJobsLimit", everybody, mine)).reason


def test_a_limit_that_has_room_again_is_not_said_to_block():
    answer = told(world("QOSGrpGRES", QOS | {"counts": "group", "resource": "gpu", "most": 20}))
    assert "of which 7 GPUs are in use now: Slurm has not looked at it again." in answer.reason


def test_a_limit_that_could_not_be_read_is_told_with_slurms_word():
    reason = told(world("QOSMaxJobsPerUserLimit")).reason
    assert "(QOSMaxJobsPerUserLimit). Its amount could not be read." in reason


def test_behind_a_veil_a_limit_of_an_account_is_not_said_to_have_room_because_its_jobs_are_hidden():
    rule = ACCOUNT | {"members": "bio,astro", "counts": "group", "resource": "gpu", "most": 8}
    answer = told(hide_other_users(world("AssocGrpGRES", rule), "alice"))
    assert "allows 8 GPUs to all jobs together at once; running jobs use that up, yours 3 GPUs of it." in answer.reason
    assert "bob" not in answer.reason


def test_behind_a_veil_only_the_askers_own_jobs_are_named():
    seen = world("QOSGrpGRES", QOS | {"counts": "group", "resource": "gpu", "most": 8})
    answer = told(hide_other_users(seen, "alice"))
    assert answer.reason.endswith("Job 901, job 902, 1 more job hold it; the first of them should end in about 50 s.")
    assert answer.blockers == (901, 902)
