"""``slurmsched models queue-time``: logs with real waits, predictions without a look into the future, their scores."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from json_forms import answer_of
from wait_worlds import (
    MADE_S,
    SNAPSHOT,
    served_in_order,
    snapshot_line,
    write_helios,
    write_own,
    write_philly,
    write_snapshots,
)

from slurmsched.cli import main
from slurmsched.research.queue_time.benchmark import benchmark, predicted, predictors_for, questions
from slurmsched.research.queue_time.known_queue import ended_runs, most_at_once, view_at
from slurmsched.research.queue_time.play_forward import PlayForward
from slurmsched.research.queue_time.predictors import Constant, GroupMedian, Moment, SlurmEstimate
from slurmsched.research.queue_time.readers import read_waits
from slurmsched.research.queue_time.scores import score
from slurmsched.research.queue_time.wait_log import WaitData, wait_log
from slurmsched.simulator.traces.trace import TraceError

TIMES = ("submit_s", "start_s", "end_s")


def data_of(log, *, shared=False):
    return WaitData(log, "waits", shared)


# Files


def test_a_wait_at_philly_ends_with_the_first_attempt_and_the_job_with_the_last(tmp_path):
    made = served_in_order(40)
    data = read_waits(write_philly(made, tmp_path / "cluster_job_log", without_attempts=3))
    assert data.format == "philly"
    assert not data.shared
    for name in (*TIMES, "gpus"):
        assert getattr(data.log, name).tolist() == getattr(made, name).tolist(), name
    assert list(data.log.user) == list(made.user)
    assert [(note.rule, note.rows) for note in data.notes] == [("attempts", 3)]


def test_a_log_of_helios_has_waits_by_virtual_cluster(tmp_path):
    made = served_in_order(40)
    data = read_waits(write_helios(made, tmp_path / "cluster_log.csv"))
    assert data.format == "helios"
    assert not data.shared
    for name in (*TIMES, "gpus"):
        assert getattr(data.log, name).tolist() == getattr(made, name).tolist(), name
    assert data.log.cpus.tolist() == (4 * made.gpus).tolist()


def test_a_job_in_several_snapshots_is_asked_for_at_the_first_one(tmp_path):
    made = served_in_order(60, load=2.0)
    moments_s = [float(made.submit_s[row]) + 1 for row in (20, 30, 40)]
    data = read_waits(write_snapshots(made, tmp_path / "snapshots", moments_s))
    assert data.format == "mila"
    assert data.shared
    log = data.log
    first = {}
    for at_s in moments_s:
        for row in np.flatnonzero((made.submit_s <= at_s) & (made.start_s > at_s)).tolist():
            first.setdefault(500 + row, at_s)
    assert dict(zip(log.job_id.tolist(), log.asked_s.tolist(), strict=True)) == first
    assert log.gpus.tolist() == [made.gpus[one - 500] for one in log.job_id.tolist()]
    assert (np.diff(log.priority[np.argsort(log.job_id)]) > 0).all()
    assert set(log.memory_mib.tolist()) == {4000.0}
    assert sum(note.rows for note in data.notes if note.rule == "again") > 0


def test_a_job_that_may_not_run_yet_is_not_asked_for(tmp_path):
    made, poll_s = served_in_order(60, load=2.0), float(served_in_order(60, load=2.0).submit_s[30]) + 1
    row = int(np.flatnonzero((made.submit_s <= poll_s) & (made.start_s > poll_s))[0])
    lines = [snapshot_line(0, made, row, poll_s, eligible_s, 0.5) for eligible_s in (poll_s + 60, poll_s - 60)]
    (tmp_path / "jobs.csv").write_text("\n".join([",".join(["", *SNAPSHOT]), *lines]) + "\n")
    data = read_waits(tmp_path / "jobs.csv")
    assert len(data.log) == 1
    assert [(note.rule, note.rows) for note in data.notes] == [("eligible", 1)]


SACCT = """JobIDRaw|User|Account|Partition|JobName|Submit|Eligible|Start|End|ElapsedRaw|State|Timelimit|NNodes\
|ReqCPUS|AllocTRES|ReqTRES
1|ann|physics|gpu|train|100|100|160|400|240|COMPLETED|01:00:00|1|4|cpu=4,gres/gpu=2,mem=8G,node=1|cpu=4,gres/gpu=2
2|bob|physics|gpu|train|110|150|170|200|30|FAILED|01:00:00|2|8|cpu=8,gres/gpu=4,node=2|cpu=8,gres/gpu=4
3|bob|physics|gpu|gone|120|120|180|180|0|CANCELLED by 7|01:00:00|1|1||cpu=1,gres/gpu=1
4|ann|physics|gpu|on|130|130|Unknown|Unknown|0|PENDING|01:00:00|1|1||cpu=1,gres/gpu=1
"""


def test_a_dump_of_sacct_has_waits_from_when_a_job_may_run_and_no_start_of_a_cancelled_one(tmp_path):
    (tmp_path / "dump.txt").write_text(SACCT)
    log = read_waits(tmp_path / "dump.txt").log
    rows = {job_id: row for row, job_id in enumerate(log.job_id.tolist())}
    assert sorted(rows) == [1, 2, 3]
    assert log.wait_s[rows[1]] == 60
    assert log.wait_s[rows[2]] == 20
    assert np.isnan(log.start_s[rows[3]])
    assert log.end_s[rows[3]] == 180
    assert log.gpus[rows[2]] == 4
    assert log.cpus[rows[2]] == 8
    assert log.memory_mib[rows[1]] == 8192


SWF = """; UnixStartTime: 1000
; Queue: 1 long
1 10 50 200 4 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1
2 20 30 -1 -1 -1 -1 8 600 -1 5 8 2 -1 1 -1 -1 -1
3 30 -1 60 1 -1 -1 1 600 -1 1 8 2 -1 1 -1 -1 -1
"""


def test_a_log_of_the_archive_has_waits_and_a_job_that_never_ran_waited_until_it_left(tmp_path):
    (tmp_path / "log.swf").write_text(SWF)
    data = read_waits(tmp_path / "log.swf")
    log = data.log
    assert data.shared
    assert log.start_s[0] == 1060
    assert log.end_s.tolist() == [1260, 1050]
    assert np.isnan(log.start_s[1])
    assert log.cpus.tolist() == [4, 8]
    assert list(log.partition) == ["long", "long"]
    assert [(note.rule, note.rows) for note in data.notes] == [("wait", 1)]


def test_our_own_format_needs_two_columns_and_keeps_what_else_it_has(tmp_path):
    made = served_in_order(30)
    asked_s, said_s = (made.submit_s + 5).tolist(), (made.start_s + 60).tolist()
    data = read_waits(write_own(made, tmp_path / "waits.csv", asked_s=asked_s, slurm_start_s=said_s))
    kept = made.start_s >= made.submit_s + 5
    assert data.log.asked_s.tolist() == (made.submit_s + 5)[kept].tolist()
    assert data.log.slurm_start_s.tolist() == (made.start_s + 60)[kept].tolist()
    (tmp_path / "two.csv").write_text("submit_s,start_s\n1,5\n2,\n")
    log = read_waits(tmp_path / "two.csv").log
    assert log.asked_s.tolist() == [1, 2]
    assert np.isnan(log.start_s[1])
    assert log.waits.tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("timestamp,duration,num_gpus,gpu_time,cluster\n1,5,1,5,a\n", "no start times are read from the format philly"),
        ("submit_s,start_s\n1,\n2,\n", "no job has a start time"),
        ("submit_s,start_s\n1,1\n2,2\n", "every job starts when it was submitted"),
        ("1 10 -1 200 4 -1 -1 4 600 -1 1 7 2 -1 1 -1 -1 -1\n", "no job has a start time"),
        ("a,b\n1,2\n", "no format with waits begins with 'a,b'"),
        ("submit_s,start_s\n1,x\n", "column start_s: 'x' is no time"),
        ('[{"attempts": 3}]', "accepted are submitted_time, vc, user and attempts"),
    ],
)
def test_a_log_without_waits_is_refused_in_a_sentence(tmp_path, text, words):
    (tmp_path / "log").write_text(text)
    with pytest.raises(TraceError, match="log") as refused:
        read_waits(tmp_path / "log")
    assert words in str(refused.value)


# What was known


def test_at_a_moment_nothing_is_known_of_later_ones():
    log = served_in_order(100)
    now_s = float(log.submit_s[60])
    known = log.known_at(now_s)
    assert len(known) == 61
    for name in ("start_s", "end_s"):
        values, truth = getattr(known, name), getattr(log, name)[:61]
        assert np.array_equal(np.isfinite(values), truth < now_s)
        assert (values[np.isfinite(values)] == truth[truth < now_s]).all()


def test_a_priority_and_an_estimate_are_known_from_when_they_were_read():
    made = served_in_order(20)
    later_s = float(made.submit_s[10])
    log = wait_log(
        20,
        submit_s=made.submit_s,
        start_s=np.full(20, later_s + 1e6),
        asked_s=np.maximum(made.submit_s, later_s),
        priority=np.arange(1, 21),
        slurm_start_s=np.full(20, later_s + 100),
    )
    before, then = log.known_at(later_s - 1), log.known_at(later_s)
    assert not before.priority.any()
    assert np.isnan(before.slurm_start_s).all()
    assert then.priority.tolist() == list(range(1, 12))
    assert np.isfinite(then.slurm_start_s).all()


def answers_of_three(predictors, log, rows, since_s):
    """What new *predictors* say on the log, on the log cut at the last moment, and on one with another future."""
    now_s = float(log.asked_s[rows[-1]])
    random = np.random.default_rng(1)
    another = log.changed(
        start_s=np.where(log.start_s < now_s, log.start_s, now_s + random.uniform(0, 1e7, len(log))),
        end_s=np.where(log.end_s < now_s, log.end_s, now_s + 1e7 + random.uniform(0, 1e7, len(log))),
    )
    return [predicted(one, rows, predictors(), since_s) for one in (log, log.known_at(now_s), another)]


def all_but_ours(log):
    return [one for one in predictors_for(data_of(log)) if one.name != "slurmsched"]


def crowded(jobs=500):
    """A log whose queue grows, served against its own priorities."""
    return served_in_order(jobs, load=1.3).changed(priority=np.arange(jobs, 0, -1))


def test_no_baseline_looks_into_the_future():
    pytest.importorskip("lightgbm")
    log = crowded()
    rows = questions(log, 500)[:360]
    said, *others = answers_of_three(lambda: all_but_ours(log), log, rows, float(log.asked_s[rows[300]]))
    assert np.isfinite(said["boosted trees"][:, -1]).all()
    for name, answers in said.items():
        for other in others:
            assert np.array_equal(answers[:, -1], other[name][:, -1], equal_nan=True), name


@pytest.mark.parametrize("shared", [False, True])
def test_the_play_forward_does_not_look_into_the_future(shared):
    log = crowded(300)
    rows = questions(log, 300)[:200:12]
    said, *others = answers_of_three(lambda: [PlayForward(shared=shared)], log, rows, 0.0)
    assert np.isfinite(said["slurmsched"]).all()
    assert all(np.array_equal(said["slurmsched"], other["slurmsched"]) for other in others)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 20), st.integers(1, 20)), max_size=30))
def test_the_most_that_ran_at_once_is_what_counting_each_second_says(jobs):
    pool, amount, start_s, ran_s = np.array(jobs, dtype=np.int64).reshape(len(jobs), 4).T
    end_s = (start_s + ran_s).astype(float)
    end_s[::3] = np.nan
    start_s = start_s.astype(float)
    start_s[1::5] = np.nan
    until_s = np.where(np.isnan(end_s), np.inf, end_s)

    def used(one, at_s):
        return amount[(pool == one) & (start_s <= at_s) & (until_s > at_s)].sum()

    counted = [max(used(one, at_s) for at_s in range(50)) for one in range(3)]
    assert most_at_once(pool, 3, amount, start_s, end_s).tolist() == counted


def test_the_view_of_a_moment_has_what_ran_and_waited_then_on_as_many_gpus_as_were_seen():
    log = served_in_order(200, load=1.5)
    now_s = float(log.submit_s[150])
    view = view_at(log.known_at(now_s), now_s, shared=False)
    waits = (log.submit_s <= now_s) & (log.start_s >= now_s)
    runs = (log.start_s < now_s) & (log.end_s >= now_s)
    assert view.pending.job_id.tolist() == (np.flatnonzero(waits) + 1).tolist()
    assert view.running.job_id.tolist() == (np.flatnonzero(runs) + 1).tolist()
    assert view.nodes.gpus.tolist() == [8]
    assert view.nodes.gpus_used.tolist() == [int(log.gpus[runs].sum())]
    assert (np.diff(view.pending.priority) < 0).all()


def test_what_ended_between_two_moments_is_told_once():
    log = served_in_order(100)
    moments_s = [float(log.submit_s[row]) for row in (30, 60, 99)]
    before, told = None, []
    for at_s in moments_s:
        known = log.known_at(at_s)
        told += ended_runs(known, before).job_id.tolist()
        before = known
    assert sorted(told) == (np.flatnonzero(log.end_s < moments_s[-1]) + 1).tolist()


# Predictors and scores


def test_a_group_with_few_waits_gets_the_answer_for_all():
    log = served_in_order(100)
    now_s = float(log.submit_s[-1])
    moment = Moment(now_s, log.known_at(now_s), np.array([97, 98, 99]), scored=True)
    waits_s = log.wait_s[(log.start_s < now_s)]
    assert Constant().predict(moment)[1].tolist() == [float(np.median(waits_s))] * 3
    group = list(log.account)
    for column, row in enumerate(moment.rows.tolist()):
        of_group = (log.start_s < now_s) & np.array([one == group[row] for one in group])
        assert GroupMedian("account").predict(moment)[1, column] == np.median(log.wait_s[of_group])
    few = wait_log(12, submit_s=np.arange(12.0), start_s=np.arange(12.0) + 3, account=["a"] * 9 + ["b"] * 3)
    moment = Moment(20.0, few.known_at(20.0), np.array([0, 11]), scored=True)
    assert GroupMedian("account").predict(moment)[1].tolist() == [3, 3]


def test_slurms_estimate_is_a_point_where_the_log_has_one():
    log = wait_log(2, submit_s=[10.0, 10.0], start_s=[50.0, 60.0], slurm_start_s=[45.0, np.nan])
    said = SlurmEstimate().predict(Moment(10.0, log.known_at(10.0), np.array([0, 1]), scored=True))
    assert said[1, 0] == 35
    assert np.isnan(said[1, 1])
    assert np.isnan(said[[0, 2]]).all()


def test_scores_are_those_that_a_hand_computes():
    said_s = np.array([[0.0, 100.0, np.nan], [100.0, 200.0, np.nan], [200.0, 300.0, np.nan]])
    found = score("x", said_s, np.array([230.0, 200.0, 5.0]))
    assert (found.asked, found.answered) == (3, 2)
    assert found.error_s == 65.0  # 130 and 0
    assert found.within_2x == 1.0  # (230 + 30) / (100 + 30) is 2 on the dot
    assert found.covered == 0.5
    assert found.by_high == 0.5
    assert found.width_s == 200.0
    first = (0.1 * 230 + 0.5 * 130 + 0.9 * 30) / 3
    second = (0.1 * 100 + 0.0 + 0.1 * 100) / 3
    assert found.pinball_s == pytest.approx((first + second) / 2)
    point = score("y", np.array([[np.nan], [10.0], [np.nan]]), np.array([10.0]))
    assert point.within_2x == 1.0
    assert np.isnan(point.covered)
    assert np.isnan(point.pinball_s)


def test_where_the_queue_is_served_in_order_the_play_forward_is_far_better_than_any_median():
    result = benchmark("made", data_of(served_in_order(600, load=1.2)), 60)
    by_name = {one.predictor: one for one in result.scores}
    assert set(by_name) == {"constant", "account median", "partition median", "slurmsched"}
    ours = by_name["slurmsched"]
    assert ours.answered == ours.asked == 24
    assert ours.within_2x > 0.7 > by_name["constant"].within_2x
    assert ours.pinball_log < 0.6 * min(by_name[name].pinball_log for name in ("constant", "account median"))


def test_too_few_waits_are_refused():
    log = served_in_order(15)
    with pytest.raises(TraceError, match="too few"):
        benchmark("made", data_of(log), 100)


# The command


def test_the_command_prints_a_table_and_the_same_as_json(tmp_path):
    made = served_in_order(120, load=1.3)
    path = write_own(made, tmp_path / "waits.csv", slurm_start_s=(made.start_s + 600).tolist())
    shown = CliRunner().invoke(main, ["models", "queue-time", str(path), "--questions", "40"])
    assert shown.exit_code == 0, shown.output
    for words in ("120 jobs of the format waits; 16 scored after 24 to learn from", "Slurm's estimate", "slurmsched"):
        assert words in shown.output
    words = ["models", "queue-time", str(path), "--questions", "40", "--json"]
    result = answer_of(words, CliRunner().invoke(main, words).output)["results"][0]
    assert result["since_s"] >= MADE_S
    slurms = next(one for one in result["scores"] if one["predictor"] == "Slurm's estimate")
    assert slurms["error_s"] == 600
    assert slurms["covered"] is None


def test_the_command_refuses_a_log_without_waits(tmp_path):
    (tmp_path / "log.csv").write_text("timestamp,duration,num_gpus,gpu_time,cluster\n1,5,1,5,a\n")
    shown = CliRunner().invoke(main, ["models", "queue-time", str(tmp_path / "log.csv")])
    assert shown.exit_code == 1
    assert "no start times are read from the format philly" in shown.output
