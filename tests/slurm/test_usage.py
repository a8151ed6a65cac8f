"""What sacct says of the use of CPUs and memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmsched.cluster.jobs import JobState
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.read.usage import _FIELDS, cpu_time_s, read_usage

MARK = "\x02mark\x03"
DAY_S = 1_700_000_000
GIB = 2**30


def row(job, nodes=1, tasks="", memory="", cpu="00:00:00", start=0, end=600, state="COMPLETED", name="train"):
    fields = (
        *(job, "alice" if "." not in job else "", "1000", name, nodes, tasks, f"cpu=8,gres/gpu={nodes},node={nodes}"),
        *(memory, cpu, end - start, DAY_S + start, DAY_S + end, state),
    )
    return MARK.join(map(str, fields)) + MARK


def used(*rows, since_s=DAY_S, until_s=DAY_S + 3600):
    """Read *rows* as sacct prints them: the steps of a run behind it."""
    text = "\n".join([MARK.join(_FIELDS) + MARK, *rows, ""])
    return read_usage(lambda argv, environment: text, since_s, until_s, MARK)


def test_a_run_has_the_cpu_time_of_all_its_steps_and_their_memory_at_the_same_time():
    found = used(
        row("7", cpu="20:00.5"),
        row("7.batch", tasks=1, memory=GIB, start=0, end=600),
        row("7.extern", tasks=1, memory=0),
        row("7.0", tasks=4, memory=GIB // 2, start=10, end=100),
        row("7.1", tasks=1, memory=GIB, start=100, end=600),
    )
    assert found.cpus.tolist() == [pytest.approx(1200.5 / 600)]
    assert found.memory_mib.tolist() == [3 * 1024]
    assert (found.user[0], found.name[0], found.gpus[0]) == ("alice", "train", 1)


def test_use_is_that_of_one_node():
    found = used(row("7", nodes=2, cpu="02:00:00"), row("7.0", nodes=2, tasks=6, memory=GIB))
    assert found.cpus.tolist() == [pytest.approx(6.0)]
    assert found.memory_mib.tolist() == [3 * 1024]


def test_a_run_without_measured_steps_is_unknown_and_one_out_of_memory_needed_more():
    found = used(
        row("7"),
        row("7.batch", tasks=1),
        row("8", state="OUT_OF_MEMORY", cpu="10:00"),
        row("8.batch", tasks=1, memory=GIB, state="OUT_OF_MEMORY"),
    )
    assert np.isnan(found.cpus).tolist() == [True, False]
    assert math.isnan(found.memory_mib[0])
    assert found.memory_mib[1] == math.inf
    assert found.state.tolist() == [JobState.COMPLETED, JobState.OUT_OF_MEMORY]


def test_a_requeued_job_is_two_runs_each_with_its_own_steps_and_what_runs_is_none():
    found = used(
        row("7", cpu="10:00", end=600, state="REQUEUED"),
        row("7.batch", tasks=1, memory=GIB),
        row("7", cpu="10:00", start=700, end=1300),
        row("7.batch", tasks=1, memory=2 * GIB, start=700, end=1300),
        row("9", state="RUNNING"),
        row("9.batch", tasks=1, memory=GIB, state="RUNNING"),
    )
    assert found.memory_mib.tolist() == [1024, 2048]
    assert found.job_id.tolist() == [7, 7]


def test_records_that_make_no_sense_cost_themselves_alone_and_a_step_the_memory_of_its_run():
    found = used(row("x"), row("7", cpu="much"), row("8", cpu="10:00"), row("8.0", tasks=1, memory="lots"))
    assert found.job_id.tolist() == [8]
    assert math.isnan(found.memory_mib[0])


def test_only_runs_that_ended_in_time_count():
    assert len(used(row("7", end=600), since_s=DAY_S + 601)) == 0


@pytest.mark.parametrize("cut", [1, 20])
def test_half_an_answer_is_none(cut):
    text = "\n".join([MARK.join(_FIELDS) + MARK, row("7"), ""])
    with pytest.raises(SlurmUnavailable):
        read_usage(lambda argv, environment: text[:-cut], DAY_S, DAY_S + 3600, MARK)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:02.911", 2.911), ("03:04", 184), ("02:03:04", 7384), ("1-02:03:04", 93784), ("00:00:00", 0)],
)
def test_cpu_times(text, seconds):
    assert cpu_time_s(text) == pytest.approx(seconds)
