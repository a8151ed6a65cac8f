from __future__ import annotations

import pytest

from slurmsched.cluster.jobs import JobState
from slurmsched.slurm.versions import ABILITIES, GOING_ON, JOB_STATES, RUN_STATES, TESTED, SlurmRelease, Support


@pytest.mark.parametrize(
    ("version", "support"),
    [
        ((20, 11, 8), Support.TOO_OLD),
        ((22, 5, 8), Support.TESTED),
        ((23, 2, 1), Support.BETWEEN),
        ((24, 11, 0), Support.TESTED),
        ((25, 5, 8), Support.TESTED),
        ((25, 11, 3), Support.TESTED),
        ((26, 2, 0), Support.BETWEEN),
        ((26, 5, 99), Support.TESTED),
        ((26, 11, 0), Support.NEWER),
    ],
)
def test_a_release_is_known_by_its_first_two_numbers(version, support):
    assert SlurmRelease(version).support is support


def test_a_release_is_written_as_slurm_writes_it():
    assert str(SlurmRelease((22, 5, 8))) == "22.05.8"
    assert str(SlurmRelease((26, 5))) == "26.05"


def test_a_release_is_read_out_of_slurms_configuration():
    assert SlurmRelease.of({"SLURM_VERSION": "24.11.5"}) == SlurmRelease((24, 11, 5))
    assert SlurmRelease.of({}).support is Support.TOO_OLD


def test_only_newer_releases_have_what_is_newer():
    oldest, newest = SlurmRelease(TESTED[0]), SlurmRelease(TESTED[-1])
    assert not any(oldest.can(name) for name in ABILITIES)
    assert all(newest.can(name) for name in ABILITIES)
    assert SlurmRelease((24, 11)).can("gpu_reservations")
    assert not SlurmRelease((24, 11)).can("requeue_delay")


@pytest.mark.parametrize(
    ("version", "config", "delay_s"),
    [
        ((22, 5), {}, 121),
        ((22, 5), {"AuthInfo": "socket=/run/munge,cred_expire=30"}, 31),
        ((24, 11), {"SchedulerParameters": "bf_interval=10,requeue_delay=0"}, 121),
        ((25, 11), {"SchedulerParameters": "bf_interval=10,requeue_delay=0"}, 0),
        ((25, 11), {"SchedulerParameters": "bf_interval=10", "AuthInfo": "cred_expire=60"}, 61),
    ],
)
def test_slurms_own_delay_of_a_requeued_job(version, config, delay_s):
    assert SlurmRelease(version).requeue_delay_s(config) == delay_s


def test_every_word_for_a_state_means_one_thing():
    assert not GOING_ON & set(RUN_STATES)
    assert set(JOB_STATES) - {"OTHER"} == GOING_ON | set(RUN_STATES)
    assert all(JobState(state).ended for state in RUN_STATES.values())
    assert not any(JOB_STATES[word].ended for word in GOING_ON)
