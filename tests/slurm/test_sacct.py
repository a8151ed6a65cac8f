from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.jobs import SETTLE_S, JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.errors import SlurmUnavailable
from slurmsched.lab import Lab, wait_until
from slurmsched.slurm.read import sacct
from slurmsched.slurm.read.sacct import _FIELDS, DAY_S, read_outcomes, read_runs

HEADER = "".join(name + "~golden" for name in _FIELDS) + "\n"
GOLDEN = Path(__file__).parents[1] / "golden" / "22.05" / "sacct.txt"
MARK = "~golden"
SUBMIT_S = 1795261576.0  # of every job in the golden file
NAMES = st.text(st.characters(codec="utf-8") | st.sampled_from("\n|~gold"), max_size=30)


class Sacct:
    """Answers every question with the same text and keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []

    def __call__(self, argv: Sequence[str], extra: Mapping[str, str]) -> str:
        self.asked.append(list(argv))
        self.environments.append(extra)
        return HEADER + self.text


def record(job_id: int = 7, mark: str = MARK, **said: str) -> str:
    fields = {
        "id": str(job_id), "user": "alice", "uid": "1000", "account": "astro", "qos": "normal", "partition": "gpu",
        "got": "cpu=2,gres/gpu=1", "wanted": "cpu=2,gres/gpu=1", "nodes": "1", "cpus": "2", "limit": "00:10:00",
        "submit": "1795261000", "eligible": "1795261000", "start": "1795261010", "end": "1795261070",
        "state": "COMPLETED", "name": "train", "elapsed": "60",
    }  # fmt: skip
    return "".join(value + mark for value in (fields | said).values()) + "\n"


def outcomes_of(text: str, since_s: float = SUBMIT_S - 1000, until_s: float = SUBMIT_S + 1000) -> OutcomeTable:
    table, refused = read_outcomes(Sacct(text), since_s, until_s, MARK)
    assert refused == []
    return table


def runs_of(table: OutcomeTable, job_id: int) -> OutcomeTable:
    return table.take(table.job_id == job_id)


@pytest.fixture(scope="module")
def golden() -> OutcomeTable:
    return outcomes_of(GOLDEN.read_text(encoding="utf-8", errors="surrogateescape"))


def test_a_real_answer_is_read_whole(golden: OutcomeTable):
    assert len(golden) == 13
    assert (golden.ended_s[1:] >= golden.ended_s[:-1]).all()


def test_a_run_has_all_its_columns(golden: OutcomeTable):
    run = runs_of(golden, 1)
    assert (run.name[0], run.user[0], run.account[0], run.qos[0], run.partition[0]) == (
        "train_12_v3", "lab-alice", "astro", "normal", "gpu",
    )  # fmt: skip
    assert (run.gpus[0], run.nodes[0], run.cpus[0], run.time_limit_s[0]) == (1, 1, 1, 600)
    assert (run.first_submit_s[0], run.started_s[0], run.ended_s[0]) == (SUBMIT_S, SUBMIT_S, SUBMIT_S + 3)
    assert run.state[0] == JobState.COMPLETED


def test_a_name_that_imitates_a_record_is_just_a_name(golden: OutcomeTable):
    assert runs_of(golden, 2).name[0] == "x\n99999|root|evil|COMPLETED\n|"
    assert runs_of(golden, 9).name[0] == "\nleading"
    assert 99999 not in golden.job_id


def test_a_requeue_is_a_run_of_its_own_with_the_first_submit_time(golden: OutcomeTable):
    runs = runs_of(golden, 4)
    assert runs.restart.tolist() == [0, 1]
    assert runs.state.tolist() == [JobState.REQUEUED, JobState.COMPLETED]
    assert runs.first_submit_s.tolist() == [SUBMIT_S, SUBMIT_S]
    assert runs.runtime_s.tolist() == [4, 8]


def test_time_suspended_is_no_runtime(golden: OutcomeTable):
    run = runs_of(golden, 5)
    assert run.ended_s[0] - run.started_s[0] == 8
    assert run.runtime_s[0] == 5


def test_a_job_cancelled_in_the_queue_never_started(golden: OutcomeTable):
    run = runs_of(golden, 8)
    assert run.state[0] == JobState.CANCELLED
    assert math.isnan(run.started_s[0])
    assert run.runtime_s[0] == 0


def test_each_task_of_an_array_has_its_own_id_and_no_limit_is_infinite(golden: OutcomeTable):
    assert [runs_of(golden, task).name[0] for task in (6, 11, 12)] == ["arr"] * 3
    assert runs_of(golden, 6).time_limit_s[0] == math.inf


def test_jobs_without_gpus_are_kept(golden: OutcomeTable):
    assert runs_of(golden, 7).gpus[0] == 0


def test_time_is_given_and_taken_as_utc():
    sacct = Sacct("")
    read_outcomes(sacct, 1795261576.4, 1795261580.2, MARK)
    assert "2026-11-21T11:46:16 -E 2026-11-21T12:46:21" in " ".join(sacct.asked[0])
    assert sacct.environments[0] == {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}


def test_a_long_time_is_asked_for_in_pieces_without_gaps():
    sacct = Sacct("")
    read_outcomes(sacct, SUBMIT_S - 100 * DAY_S, SUBMIT_S, MARK)
    starts = [argv[argv.index("-S") + 1] for argv in sacct.asked]
    ends = [argv[argv.index("-E") + 1] for argv in sacct.asked]
    assert 7 < len(sacct.asked) < 20
    assert all(start < end for start, end in zip(starts[1:], ends, strict=False))


def test_a_quiet_quarter_costs_few_questions_and_a_busy_one_a_question_a_day(monkeypatch):
    monkeypatch.setattr(sacct, "_FEW", sacct._FEW // 20)  # to read 90 answers of so many records takes seconds

    def questions(count: int) -> int:
        fake = Sacct("".join(record(7 + number) for number in range(count)))
        read_outcomes(fake, SUBMIT_S - 89 * DAY_S, SUBMIT_S + DAY_S, MARK)
        return len([argv for argv in fake.asked if "-E" in argv])

    assert questions(10) < 12
    assert questions(50) == 90


def test_all_of_time_costs_a_bounded_number_of_questions():
    sacct = Sacct("")
    read_outcomes(sacct, 0, SUBMIT_S, MARK)
    assert len(sacct.asked) < 400


def test_an_empty_window_asks_nothing():
    sacct = Sacct("")
    table, refused = read_outcomes(sacct, SUBMIT_S, SUBMIT_S, MARK)
    assert (len(table), refused, sacct.asked) == (0, [], [])


def test_a_run_before_the_window_gives_its_number_and_submit_time_and_nothing_else():
    first = record(state="REQUEUED")
    second = record(submit="1795261070", start="1795261190", end="1795261250")

    def sacct(argv: Sequence[str], extra: Mapping[str, str]) -> str:
        return HEADER + (first + second if "-j" in argv else second)

    table, _ = read_outcomes(sacct, 1795261100, 1795262000, MARK)
    assert (table.restart.tolist(), table.first_submit_s.tolist()) == ([1], [1795261000])


def test_an_id_used_again_is_another_job():
    again = {"submit": "1799000000", "eligible": "1799000000", "start": "1799000000", "end": "1799000060"}
    table = outcomes_of(record() + record(**again), 1795261000, 1799000100)
    assert table.restart.tolist() == [0, 0]
    assert table.first_submit_s.tolist() == [1795261000, 1799000000]


def test_runs_outside_the_window_and_going_on_are_left_out():
    text = record(1, end="1795261099") + record(2, end="1795261100") + record(3, state="RUNNING", end="Unknown")
    assert outcomes_of(text, 1795261070, 1795261100).job_id.tolist() == [1]


@pytest.mark.parametrize(
    "broken",
    [{"end": "Unknown"}, {"state": "SLEEPING"}, {"state": "OUT_OF_ME+"}, {"got": "gpu:x:y:z"}, {"id": "7_[1-2]"}],
)
def test_a_record_that_makes_no_sense_is_refused_and_counted(broken: dict[str, str]):
    table, refused = read_outcomes(Sacct(record(1) + record(2, **broken)), 1795261000, 1795262000, MARK)
    assert (table.job_id.tolist(), len(refused)) == ([1], 1)
    assert refused[0].reason in {
        "a field is no time of a finished run", "a field is no state of a job", "a field is no GRES",
        "a field is no number",
    }  # fmt: skip
    assert refused[0].record.startswith(broken.get("id", "2") + "|alice|")


@pytest.mark.parametrize("left_out", [1, 8, 60, 200])
def test_an_answer_cut_short_is_none(left_out: int):
    whole = record(1) + record(2)
    with pytest.raises(SlurmUnavailable, match="cut off"):
        read_outcomes(Sacct(whole[:-left_out]), 1795261000, 1795262000, MARK)


@pytest.mark.parametrize("printed", ["", "\n", "sacct: hello\n", record(1)])
def test_what_has_no_header_is_no_answer(printed: str):
    with pytest.raises(SlurmUnavailable, match="not its answer"):
        read_outcomes(lambda argv, extra: printed, 1795261000, 1795262000, MARK)


def test_runs_are_asked_for_by_job_too_and_what_ended_before_is_left_out():
    sacct = Sacct(record(1, end="1795261099") + record(2))
    assert read_runs(sacct, [2, 1], 1795261060, MARK).job_id.tolist() == [2, 1]
    assert read_runs(sacct, [2, 1], 1795261080, MARK).job_id.tolist() == [1]
    assert sacct.asked[0][sacct.asked[0].index("-j") + 1] == "1,2"
    assert len(read_runs(sacct, [], 1795261080, MARK)) == 0


def test_a_user_unknown_to_the_machine_is_known_by_number():
    assert outcomes_of(record(user="")).user[0] == "1000"


@given(NAMES, NAMES)
def test_no_name_can_forge_a_record(first: str, second: str):
    if MARK in first + second:  # nobody can know a mark that was drawn after the name was given
        return
    table = outcomes_of(record(1, name=first) + record(2, name=second, account=first))
    assert table.job_id.tolist() == [1, 2]
    assert list(table.name) == [first, second]


def test_a_real_sacct_gives_back_what_was_run(lab: Lab):
    def ask(argv: Sequence[str], extra: Mapping[str, str]) -> str:
        done = subprocess.run(
            lab.command(argv), capture_output=True, env=lab.env() | dict(extra), timeout=30, check=True
        )
        return done.stdout.decode("utf-8", "surrogateescape")

    def read() -> OutcomeTable:
        table, refused = read_outcomes(ask, began_s, time.time() + 2, "~" + str(time.time_ns()))
        assert refused == []
        return table.take([job_id in jobs for job_id in table.job_id.tolist()])

    began_s = time.time() - 2
    name = "a\n1|2|3|\x1b[31m'\";--\n"
    hostile = lab.submit("-J", name, "-t", "10", "--gres=gpu:2", user="alice", script="#!/bin/sh\nsleep 1\n")
    again = lab.submit(
        "-t", "20", "--requeue", user="bob", script='#!/bin/sh\n[ "$SLURM_RESTART_COUNT" ] || sleep 900\n'
    )
    jobs = {hostile, again}
    wait_until(lambda: "RUNNING" in lab.ask(["squeue", "-h", "-o", "%T", "-j", str(again)]), 120.0, "the job to run")
    lab.ask(["scontrol", "requeue", str(again)])
    requeued_s = time.time()

    def requeued() -> bool:
        if time.time() - requeued_s > SETTLE_S:  # sooner the second run would fail
            lab.run(["scontrol", "update", f"jobid={again}", "StartTime=now"])
        return len(read()) == 3

    wait_until(requeued, 120.0, "three runs in the accounts", 0.3)
    table = read()
    assert runs_of(table, hostile).name[0] == name.replace('"', "`")  # slurmdbd itself does this
    assert runs_of(table, hostile).gpus[0] == 2
    runs = runs_of(table, again)
    assert runs.restart.tolist() == [0, 1]
    assert runs.state.tolist() == [JobState.REQUEUED, JobState.COMPLETED]
    assert runs.first_submit_s[0] == runs.first_submit_s[1] <= runs.started_s[0]


ODD = {
    "a name with a pipe of a shell": {
        "state": "CANCELLED by 1977600432",
        "limit": "Partition_Limit",
        "name": "some . | grep hot",
    },
    "out of memory": {"state": "OUT_OF_MEMORY"},
    "a lost node": {"state": "NODE_FAIL"},
    "past its deadline": {"state": "DEADLINE"},
    "a user who was deleted": {"user": "", "uid": "12345"},
    "a slice of a GPU": {"got": "billing=1,cpu=4,gres/gpu:1g.10gb=1,gres/gpu=1,mem=8G,node=1"},
    "two types of GPUs": {"got": "billing=1,cpu=4,gres/gpu:tesla=1,gres/gpu:kepler=1,gres/gpu=2,mem=8G,node=1"},
    "a name of two lines": {"name": "line one\nline|two"},
    "a name outside UTF-8": {"name": b"train_\xfcber".decode("utf-8", "surrogateescape")},
    "no eligible time and no limit": {"eligible": "Unknown", "limit": "UNLIMITED"},
    "thousands of nodes": {"nodes": "1.5K", "cpus": "2K", "limit": "365-00:00:00"},
    "an end before the start": {"start": "1795261100", "end": "1795261090", "elapsed": "0"},
    "no account and several partitions": {"account": "", "qos": "", "partition": "a,b"},
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_record_of_a_finished_run_is_read(kind: str):
    odd = outcomes_of(record(1) + record(2, **ODD[kind]) + record(3))
    odd = odd.take(np.argsort(odd.job_id))
    assert odd.job_id.tolist() == [1, 2, 3]
    assert np.isfinite(odd.runtime_s).all()
    assert (odd.runtime_s >= 0).all()
    assert odd.name[1] == ODD[kind].get("name", "train")
    assert odd.gpus.tolist() == [1, 2 if "two types" in kind else 1, 1]


def test_runs_that_have_no_end_or_are_of_an_earlier_year_are_none_of_the_window():
    runaway = record(2, state="RUNNING", submit="1732261000", eligible="1732261000", start="1732261010", end="Unknown")
    reused = record(3, submit="1507045000", eligible="1507045000", start="1507045169", end="1507049000", elapsed="3831")
    table = outcomes_of(record(1) + runaway + reused + record(3, name="new"))
    assert table.job_id.tolist() == [1, 3]
    assert (table.name[1], table.restart.tolist()) == ("new", [0, 0])


def test_a_type_of_gpus_that_is_digits_alone_is_read():
    tres = "billing=1,cpu=1,gres/gpu:3090=2,gres/gpu=2,mem=100M,node=1"
    run = outcomes_of(record(got=tres, wanted=tres))
    assert (run.gpus.tolist(), list(run.gpu_type)) == ([2], ["3090"])
