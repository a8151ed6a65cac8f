"""The queue as text: nobody forges a row, nothing unknown is an error."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from headers import headed
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.clock import local_zone
from slurmsched.cluster.jobs import JobState
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.adapters.command_runner import mark
from slurmsched.slurm.read.records import RecordColumns, cut, long_format
from slurmsched.slurm.read.squeue import FIELDS, node_ranges, read_jobs

ORDINARY = {
    "JobID": "7", "ArrayJobID": "7", "ArrayTaskID": "N/A", "HetJobID": "0", "Name": "train", "UserName": "alice",
    "Account": "astro", "QOS": "normal", "Partition": "gpu", "State": "PENDING", "Reason": "Priority", "NumNodes": "1",
    "NumTasks": "1", "tres": "cpu=1,mem=100M,node=1,gres/gpu=1", "tres-per-job": "N/A", "tres-per-node": "gres:gpu:1",
    "tres-per-socket": "N/A", "tres-per-task": "N/A", "cpus-per-tres": "N/A", "mem-per-tres": "N/A",
    "TimeLimit": "20:00", "SubmitTime": "1795263385",
    "EligibleTime": "1795263385", "StartTime": "N/A", "EndTime": "N/A", "PriorityLong": "17166", "Nice": "0",
    "RestartCnt": "0", "Requeue": "1", "BatchFlag": "1", "OverSubscribe": "OK", "Reservation": "(null)",
    "Feature": "(null)", "Licenses": "(null)", "Dependency": "(null)", "ReqNodes": "", "NodeList": "",
    "Comment": "(null)",
}  # fmt: skip

SPICE = (
    *(
        "|",
        "\n",
        "\r\n",
        "\x1b[31m",
        "\udcff",
        "\udc80\udcfe",
        "[red]",
        "[/]",
        "'; DROP TABLE jobs; --",
        "\x00",
        "\x1f",
    ),
    *("~", "~AAAAAAAAAA", "(null)x", "slurmsched:off", "%i", "日本", "\u202e", " "),
)
text = st.lists(st.one_of(st.sampled_from(SPICE), st.text(max_size=8)), max_size=6).map("".join)
hostile = st.one_of(text, st.integers(0, 3).map(lambda number: "" if not number else f"old mark {mark()}"))


def printed(jobs: list[dict[str, str]], field_mark: str, record_mark: str) -> str:
    """As squeue prints them: a mark after each field, another after each record, then a line break."""
    return "".join(field_mark.join((ORDINARY | job)[name] for name in FIELDS) + record_mark + "\n" for job in jobs)


def table(*jobs: dict[str, str], zone: tzinfo | None = UTC):
    field_mark, record_mark = mark(), mark()
    answer = headed(FIELDS, field_mark, record_mark, printed(list(jobs), field_mark, record_mark))
    return read_jobs(cut("squeue", answer, FIELDS, "JobID", field_mark, record_mark), zone)


def test_a_job_without_a_number_of_nodes_has_the_gpus_that_it_asks_for():
    """What 22.05 shows of a job that names a partition which its owner may not use."""
    none = 2**32 - 1
    shown = {"NumNodes": "-1", "NumTasks": str(none), "tres": f"cpu=1,mem=500M,node={none},gres/gpu={none}"}
    by_task = {"tres-per-node": "N/A", "tres-per-task": "gres:gpu:3"}
    jobs = table(shown | {"tres-per-node": "gres:gpu:a100:2"}, shown | by_task, {"NumNodes": "2", "tres-per-node": "x"})
    assert jobs.gpus.tolist()[:2] == [2, 3]
    assert jobs.ntasks.tolist() == [0, 0, 1]
    assert jobs.nodes.tolist()[:2] == [none, none]


def test_a_job_that_slurm_requeues_at_once_keeps_its_nodes_and_one_of_several_qos_has_them_all():
    expedited = {"State": "EXPEDITING", "NodeList": "n[1-2]", "NumNodes": "2", "tres": "cpu=2,node=2,gres/gpu=8"}
    queued = {"JobID": "9", "ArrayJobID": "9", "State": "EXPEDITING"}
    read = table(expedited, {"JobID": "8", "ArrayJobID": "8", "QOS": "high,low"}, queued)
    assert read.state.tolist() == [JobState.COMPLETING, JobState.PENDING, JobState.PENDING]
    assert (read.node_list[0], int(read.gpus[0])) == ("n[1-2]", 8)
    assert list(read.qos) == ["normal", "high,low", "normal"]


@given(st.lists(st.fixed_dictionaries({"Name": hostile, "Comment": hostile, "UserName": hostile, "Account": hostile})))
@examples(200)
def test_whatever_users_write_comes_back_as_it_was(texts):
    jobs = [said | {"JobID": str(number), "ArrayJobID": str(number)} for number, said in enumerate(texts, start=1)]
    read = table(*jobs)
    assert read.job_id.tolist() == list(range(1, len(jobs) + 1))
    for name, field in (("name", "Name"), ("comment", "Comment"), ("user", "UserName"), ("account", "Account")):
        wanted = ["" if job[field] in {"(null)", "N/A"} else job[field] for job in jobs]
        assert list(getattr(read, name)) == wanted


@given(st.lists(hostile, min_size=1, max_size=4), st.data())
@examples(200)
def test_an_answer_that_breaks_off_within_a_line_is_none(names, data):
    field_mark, record_mark = mark(), mark()
    jobs = [{"JobID": str(number), "Name": name} for number, name in enumerate(names, start=1)]
    whole = headed(FIELDS, field_mark, record_mark, printed(jobs, field_mark, record_mark))
    part = whole[: data.draw(st.integers(0, len(whole)))]
    if part.endswith(record_mark + "\n"):  # of the jobs that such an answer lacks scontrol is asked
        assert (
            cut("squeue", part, FIELDS, "JobID", field_mark, record_mark)["Name"]
            == names[: part.count(record_mark) - 1]
        )
        return
    with pytest.raises(SlurmUnavailable):
        cut("squeue", part, FIELDS, "JobID", field_mark, record_mark)


@given(st.dictionaries(st.sampled_from(sorted(set(FIELDS) - {"JobID"})), st.text(max_size=12), max_size=8))
@examples(300)
def test_words_of_a_release_to_come_become_neutral_values_not_errors(strange):
    read = table(ORDINARY | strange)
    assert len(read) == 1


def test_a_name_that_forges_the_mark_of_an_earlier_call_stays_a_name():
    forged = f"x{mark()}99999{mark()}GOOD"
    assert list(table({"Name": forged}).name) == [forged]


def test_marks_are_fresh_and_start_with_no_digit():
    marks = {mark() for _ in range(1000)}
    assert len(marks) == 1000
    assert all(len(one) >= 9 and one.startswith("~") and ":" not in one and "," not in one for one in marks)


def test_the_format_names_each_field_and_ends_each_record():
    assert long_format(("A", "B", "C"), "<f>", "<r>") == "A:<f>,B:<f>,C:<r>"


def test_the_waiting_tasks_of_an_array_are_one_row_with_one_id():
    read = table(
        {"JobID": "12", "ArrayJobID": "10", "ArrayTaskID": "2"},  # requeued: a record of its own
        {"JobID": "10", "ArrayJobID": "10", "ArrayTaskID": "5-9:2%3"},
        {"JobID": "11", "ArrayJobID": "10", "ArrayTaskID": "1", "State": "RUNNING"},
        {"JobID": "20", "ArrayJobID": "20", "ArrayTaskID": "N/A"},
    )
    waiting = read.take(read.state == JobState.PENDING)
    assert waiting.job_id.tolist() == [10, 20]
    assert waiting.tasks.tolist() == [4, 1]
    assert waiting.task_id.tolist() == [-1, -1]
    assert waiting.array_job_id.tolist() == [10, 0]
    running = read.take(read.state == JobState.RUNNING)
    assert (running.job_id.tolist(), running.task_id.tolist()) == ([11], [1])


def test_gpus_by_type_and_in_the_spellings_of_other_releases():
    read = table(
        {"JobID": "1", "tres": "cpu=1,gres/gpu=4,gres/gpu:a100=4"},
        {"JobID": "2", "tres": "cpu=1", "tres-per-node": "gres/gpu:a100:2", "NumNodes": "2"},
        {"JobID": "3", "tres": "N/A", "tres-per-node": "N/A", "tres-per-job": "gres:gpu:6"},
        {"JobID": "4", "tres": "cpu=1", "tres-per-node": "N/A", "tres-per-task": "gres:gpu:1", "NumTasks": "5"},
        {"JobID": "5", "tres": "cpu=1", "tres-per-node": "gres:shard:4"},
    )
    assert read.gpus.tolist() == [4, 4, 6, 5, 0]
    assert list(read.gpu_type) == ["a100", "a100", "", "", ""]


@pytest.mark.parametrize(
    ("tres", "nodes", "most", "per_node", "text"),
    [
        ("cpu=1,mem=2000M,node=1,billing=1", "2", "2", "gres:gpu:1", "1-2"),  # waiting, as slurmctld shows it soon
        ("cpu=1,mem=2000M,node=1,billing=1", "1", "2", "gres/gpu:1", "1-2"),  # at first, and again once it was requeued
        ("cpu=1,mem=2000M,node=2,billing=1", "4", "4", "gres:gpu:4", "2-4"),
        ("cpu=1,mem=2000M,node=1,billing=1", "1", "1", "gres:gpu:1", ""),
        ("cpu=1,mem=2000M,node=2,billing=1", "2", "0", "gres:gpu:1", ""),
        ("cpu=1,mem=2000M,node=1,billing=1", "1", "2", "N/A", ""),  # GPUs of the job: as many on any number of nodes
        ("cpu=8,mem=2000M,node=4,billing=1", "4", "2", "gres:gpu:2", "4-2"),  # of a change taken in part
        ("cpu=8,mem=2000M,node=4,billing=1", "2", "2", "gres:gpu:2", "4-2"),  # the same, once slurmctld looked at it
        ("cpu=1,mem=2000M,node=1,billing=1", "2", "1", "gres:gpu:1", ""),  # for a moment after a change to fewer nodes
        ("cpu=1", "2", "2", "gres:gpu:1", ""),
        ("node=x", "y", "z", "gres:gpu:1", ""),
    ],
)
def test_the_range_of_nodes_that_a_job_says_is_read_where_it_has_gpus_on_each(tres, nodes, most, per_node, text):
    columns = {"JobID": ["7"], "tres": [tres], "NumNodes": [nodes], "MaxNodes": [most], "tres-per-node": [per_node]}
    assert node_ranges(RecordColumns(columns)) == {"7": text}


def test_a_job_with_a_range_of_nodes_counts_with_the_fewest():
    read = table({"JobID": "1", "tres": "cpu=1,node=1", "tres-per-node": "gres:gpu:2", "NumNodes": "3"})
    assert (read.nodes.tolist(), read.gpus.tolist()) == ([1], [2])


def test_no_jobs_is_an_empty_table():
    read = table()
    assert len(read) == 0
    assert read.gpus.dtype == np.int64


SUBMIT_S = 1_795_263_385.0
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("comment", "deadline_s"),
    [
        ("nothing of ours", np.inf),
        ("slurmsched:deadline=+6h", SUBMIT_S + 6 * 3600),
        ("slurmsched:deadline=2026-12-01T18:00Z", 1_796_148_000),
        ("slurmsched:deadline=2026-12-01T18:00", 1_796_148_000 - 3600),
        ("slurmsched:deadline=yesterday", np.inf),
        ("slurmsched:deadline=2026-10-25T02:30", np.inf),  # the clocks show it twice
        ("slurmsched:deadline=+1h slurmsched:deadline=+2h", np.inf),
    ],
)
def test_a_deadline_is_the_one_moment_that_the_comment_means(comment, deadline_s):
    jobs = table({"Comment": comment}, {"JobID": "8", "ArrayJobID": "8"}, zone=BERLIN)
    assert jobs.deadline_s.tolist() == [deadline_s, np.inf]


def test_a_deadline_counted_from_a_submit_that_is_not_known_is_none():
    assert table({"Comment": "slurmsched:deadline=+6h", "SubmitTime": "Unknown"}).deadline_s.tolist() == [np.inf]


def test_where_no_zone_is_given_local_time_is_that_of_this_machine():
    here_s = datetime(2026, 12, 1, 18, tzinfo=local_zone()).timestamp()
    assert table({"Comment": "slurmsched:deadline=2026-12-01T18:00"}, zone=None).deadline_s.tolist() == [here_s]


def test_jobs_with_slots_count_the_gpus_that_they_share():
    slots = {"tres": "cpu=1,mem=100M,node=1", "tres-per-node": "gres:slot:i0:1,gres:slot:i12:1"}
    jobs = table(slots, slots | {"tres": "cpu=1,node=1,gres/slot=2,gres/slot:i0=1"}, {"JobID": "8"})
    assert jobs.gpus.tolist() == [2, 2, 1]
    assert list(jobs.per_node) == ["gres:slot:i0:1,gres:slot:i12:1"] * 2 + ["gres:gpu:1"]


def test_generic_resources_asked_for_per_task_or_socket_are_told_from_cpus():
    jobs = table({}, {"tres-per-task": "gres:gpu:1"}, {"tres-per-socket": "gres:gpu:2"}, {"tres-per-task": "cpu:2"})
    assert jobs.per_task.tolist() == [False, True, True, False]


def test_cpus_and_memory_asked_for_per_gpu_are_told_from_others_in_any_spelling():
    asked = ("gres:gpu:2", "gres/gpu:2", "gpu:3")  # the last one is a partition's own default
    cpus, memory = ([{field: text} for text in asked] for field in ("cpus-per-tres", "mem-per-tres"))
    jobs = table(*cpus, *memory, {"cpus-per-tres": "N/A", "mem-per-tres": "(null)"})
    assert jobs.per_gpu.tolist() == [True] * 6 + [False]
    assert jobs.gpu_cpus.tolist() == [2, 2, 3, 0, 0, 0, 0]
