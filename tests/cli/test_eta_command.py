"""``slurmsched eta`` against what a daemon serves on its socket."""

from __future__ import annotations

import getpass
import os
import pwd
import time
from dataclasses import replace

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run
from daemon.daemon_worlds import plan, report, view

from slurmsched.cluster.records.predictions import PredictionKind, prediction_table
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.api.questions.eta import ETA_MOST
from slurmsched.explain.eta import Coverage, Eta, LivePredictions

ME = getpass.getuser()
NOBODY = pwd.getpwnam("nobody").pw_uid
HOUR_S = 3600.0


def table(count: int = 1, **columns):
    """Jobs 1, 2, ... of mine that start in one hour and are done in two, unless *columns* say otherwise."""
    hours = {
        "start_from_s": 0.5,
        "start_s": 1,
        "start_by_s": 1.5,
        "finish_from_s": 1.6,
        "finish_s": 2,
        "finish_by_s": 3,
    }
    known = {
        "job_id": np.arange(1, count + 1),
        "made_s": np.full(count, NOW_S),
        "first_submit_s": np.full(count, NOW_S - 60),
        "user": [ME] * count,
        "partition": ["gpu"] * count,
        "gpus": np.full(count, 4),
        "rank": np.arange(count),
        "ahead": np.arange(count),
        "ahead_gpu_s": np.arange(count) * HOUR_S,
        "running_gpu_s": np.full(count, 2 * HOUR_S),
        "runtime_s": np.full(count, HOUR_S),
        "source": ["median of 7 runs of train_#"] * count,
        "finish_basis": np.full(count, 50),
        **{name: np.full(count, NOW_S + ahead * HOUR_S) for name, ahead in hours.items()},
    }
    return prediction_table(count, **known | columns)


def of_kind(kind: PredictionKind, **columns):
    times = ("start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s", "finish_by_s")
    silent = {} if kind.has_value else {name: [np.nan] for name in times}
    return table(kind=[int(kind)], **silent | columns)


def submitted_as(seen, shown):
    """The view with the first submissions that the predictions *shown* were made for, else a minute ago."""
    first_s = dict(zip(shown.job_id.tolist(), shown.first_submit_s.tolist(), strict=True))

    def dated(jobs):
        return replace(jobs, first_submit_s=np.array([first_s.get(job, NOW_S - 60) for job in jobs.job_id.tolist()]))

    return replace(seen, pending=dated(seen.pending), running=dated(seen.running))


class Office:
    """A daemon's socket, with predictions that a test lays out."""

    def __init__(self, directory):
        self.foretold = LivePredictions()
        self.hurries = self.private = False
        self.pending = {1: ME}
        sources = Sources(
            dict,
            *(lambda *_: None for _ in range(4)),
            predictions=self.foretells,
            eta_check=self.tried,
            private=lambda: self.private,
        )
        self.questions = QueryHandlers(sources, trusted=())
        self.answers = QueryServer(directory, self.questions)

    def shows(self, shown, coverage=None, running=None, **others):
        """Serve these predictions; *others* are jobs that wait without one, by id and owner."""
        self.pending = dict(zip(shown.job_id.tolist(), shown.user, strict=True))
        self.pending |= {int(name[1:]): owner for name, owner in others.items()}
        seen = submitted_as(view(self.pending, running or {}), shown)
        self.latest = report(7, now_s=NOW_S, view=seen, plan=plan(len(seen.pending)))
        self.questions.observe(self.latest)
        self.foretold = LivePredictions(shown, coverage)

    def foretells(self):
        """What was laid out; the next question comes a cycle later where the daemon hurries."""
        if self.hurries:
            self.latest = replace(self.latest, number=self.latest.number + 1)
            self.questions.observe(self.latest)
        return self.foretold

    def tried(self, seen, planned, options, user):
        self.options = options
        assert user == ME
        return replace(Eta(0, user, "gpu", 4, 1, "predicted", NOW_S), start_s=NOW_S + 60, finish_s=NOW_S + 600)


@pytest.fixture
def office(tmp_path):
    office = Office(tmp_path)
    office.answers.start()
    yield office
    office.answers.close()


@pytest.fixture
def site(tmp_path, office):
    return FakeSite(tmp_path, "")


def clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def test_a_job_is_told_its_times_their_bounds_and_what_they_rest_on(office, site):
    office.shows(table(2), Coverage(30.0, 812, 0.91, 900, 0.9))
    result = run(site, "eta", "2")
    assert result.exit_code == 0, result.output
    for ahead_h in (1, 1.5, 2, 3, 1.6):
        assert clock(NOW_S + ahead_h * HOUR_S) in result.output
    assert "nine times in ten" in result.output
    assert "still needs 2 GPU-hours, 1 job ahead of it 1 GPU-hour, and it needs 60 min" in result.output
    assert "median of 7 runs of train_#" in result.output
    assert "Of the 812 jobs predicted here that ended in the last 30 days, 91% were done" in result.output
    assert "as of " in result.output
    facts = json_of(site, "eta", "2")
    assert facts["eta"][0]["finish_by_s"] == NOW_S + 3 * HOUR_S
    assert facts["coverage"]["done_by"] == 0.91


def test_what_is_noted_of_all_predicted_jobs_is_said_once_and_a_note_on_one_beside_it(office, site):
    office.shows(table(3, finish_basis=[0, 0, 0]))
    note = "The interval is not calibrated yet: it rests on the forecast of the runtime alone."
    assert run(site, "eta").output.count(note) == 1
    assert all(note in one["notes"] for one in json_of(site, "eta")["eta"])
    office.shows(table(3, finish_basis=[0, 50, 50]))
    (line,) = [line for line in run(site, "eta", "--wide").output.splitlines() if note in line]
    assert line.split()[0] == "1"


def test_without_a_job_my_own_are_listed_soonest_first(office, site):
    office.shows(table(3, user=[ME, "somebody", ME], start_s=NOW_S + np.array([3.0, 2.0, 1.0]) * HOUR_S))
    assert [one["job_id"] for one in json_of(site, "eta")["eta"]] == [3, 1]
    assert [one["job_id"] for one in json_of(site, "eta", "--all")["eta"]] == [3, 2, 1]
    result = run(site, "eta", "--limit", "1")
    assert "... and 1 more; see --limit" in result.output
    assert "somebody" not in result.output


def test_more_jobs_than_a_daemon_tells_at_once_are_all_listed(office, site):
    start_s = NOW_S + np.random.default_rng(1).permutation(ETA_MOST + 100)
    office.shows(table(ETA_MOST + 100, start_s=start_s))
    soonest = (np.argsort(start_s) + 1).tolist()
    assert [one["job_id"] for one in json_of(site, "eta", "--all", "--limit", str(ETA_MOST + 50))["eta"]] == soonest[
        : ETA_MOST + 50
    ]
    first, second = (
        office.questions.answer({"ask": "eta", "limit": 10_000, "skip": skip}, os.getuid()) for skip in (0, ETA_MOST)
    )
    assert len(first["eta"]) == first["limit"] == ETA_MOST
    assert (second["jobs"], [one["job_id"] for one in second["eta"]]) == (ETA_MOST + 100, soonest[ETA_MOST:])
    with pytest.raises(AnswerRefused, match="0 or more"):
        office.questions.answer({"ask": "eta", "skip": -1}, os.getuid())


def test_a_list_that_takes_longer_than_every_cycle_ends_all_the_same(office, site):
    office.shows(table(ETA_MOST + 100))
    office.hurries = True
    assert len(json_of(site, "eta", "--limit", str(ETA_MOST + 50))["eta"]) == ETA_MOST + 50


def test_who_has_no_job_hears_so(office, site):
    office.shows(table(1, user=["somebody"]))
    result = run(site, "eta")
    assert (result.exit_code, "no job of yours waits or runs" in result.output) == (0, True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (PredictionKind.HELD, "scontrol release 1"),
        (PredictionKind.DEPENDENT, "It waits for other jobs"),
        (PredictionKind.RESERVED, "It asks for a reservation"),
        (PredictionKind.LIMITED, "Slurm's reason is AssocGrpGRES"),
        (PredictionKind.HETEROGENEOUS, "a part cannot start as it is"),
        (PredictionKind.PARTITION_DOWN, "Its partition (gpu) takes no jobs"),
        (PredictionKind.CANNOT_RUN, "could ever hold it"),
        (PredictionKind.NO_ROOM, "do not become free"),
        (PredictionKind.SUSPENDED, "It is suspended"),
        (PredictionKind.BEYOND, "so far back in a long queue"),
    ],
)
def test_what_cannot_be_said_is_answered_in_words_and_never_with_a_number(office, site, kind, words):
    office.shows(of_kind(kind, reason=["AssocGrpGRES"]))
    result = run(site, "eta", "1")
    assert result.exit_code == 0
    assert words in result.output
    assert "cannot be predicted" in result.output
    assert "nine times" not in result.output
    answer = json_of(site, "eta", "1")["eta"][0]
    assert (answer["kind"], answer["start_s"], answer["finish_by_s"]) == (kind.name.lower(), None, None)
    assert answer["notes"]


@pytest.mark.parametrize(
    ("kind", "columns", "words"),
    [
        (PredictionKind.ARRAY, {"tasks": [12]}, "the first of its 12 waiting tasks"),
        (PredictionKind.LEFT_ALONE, {}, "We do not order it"),
        (PredictionKind.NO_HISTORY, {}, "it may well be done sooner"),
        (PredictionKind.PREDICTED, {"finish_basis": [0]}, "not calibrated yet"),
        (PredictionKind.PREDICTED, {"start_by_s": [NOW_S - 60]}, "already later than nine in ten"),
        (PredictionKind.RUNNING, {"finish_by_s": [NOW_S - 60]}, "already later than nine in ten"),
        (PredictionKind.PREDICTED, {"first_submit_s": [NOW_S + 300]}, "Slurm's clock is 5 min ahead"),
        (PredictionKind.PREDICTED, {"slurm_start_s": [NOW_S + 7200]}, "Slurm itself says it starts at"),
    ],
)
def test_times_that_need_a_word_beside_them_get_it(office, site, kind, columns, words):
    office.shows(of_kind(kind, **columns))
    result = run(site, "eta", "1")
    assert words in result.output
    assert clock(NOW_S + 2 * HOUR_S) in result.output


def test_a_running_job_is_told_since_when_it_runs_and_its_end(office, site):
    office.shows(of_kind(PredictionKind.RUNNING, start_s=[NOW_S - 60], start_by_s=[np.nan], rank=[-1]))
    result = run(site, "eta", "1")
    assert f"Job 1 runs since {clock(NOW_S - 60)} and should be done about" in result.output


def test_a_job_that_is_not_there_is_status_3(office, site):
    office.shows(table(1))
    result = run(site, "eta", "987")
    assert result.exit_code == 3
    assert "no pending or running job 987" in result.stderr
    assert run(site, "eta", "1", "987").exit_code == 3


def test_a_job_that_came_after_the_predictions_is_told_to_wait_a_moment(office, site):
    office.shows(table(1), j5=ME)
    result = run(site, "eta", "5")
    assert (result.exit_code, "ask again in a moment" in result.output) == (0, True)


def test_what_started_or_ended_since_the_predictions_is_not_told_old_times(office, site):
    office.shows(table(3))
    foretold = office.foretold
    office.shows(table(1), running={2: ME})
    office.foretold = foretold
    result = run(site, "eta", "2")
    assert (result.exit_code, "ask again in a moment" in result.output) == (0, True)
    assert run(site, "eta", "3").exit_code == 3
    assert [one["job_id"] for one in json_of(site, "eta")["eta"]] == [1, 2]


SCRIPT = """#!/bin/sh
#SBATCH -G 4 -t 60 -o out
#SBATCH --comment='a; slurmsched:ckpt'
sleep 1
"""


def test_a_script_is_tried_out_and_the_command_line_wins(office, site, tmp_path):
    office.shows(table(1))
    (tmp_path / "train.sh").write_text(SCRIPT)
    result = run(site, "eta", "--script", str(tmp_path / "train.sh"), "--check", "-t 30 -p gpu")
    assert result.exit_code == 0, result.output
    assert office.options == "--gpus=4 --time=30 '--comment=a; slurmsched:ckpt' --partition=gpu --job-name=train.sh"
    (tmp_path / "bare.sh").write_text("#!/bin/sh\nsleep 1\n")
    assert run(site, "eta", "--script", str(tmp_path / "bare.sh")).exit_code == 0
    (tmp_path / "dos.sh").write_bytes(b"#!/bin/sh\r\nsleep 1\r\n")
    refused = run(site, "eta", "--script", str(tmp_path / "dos.sh"))
    assert (refused.exit_code, "DOS line breaks" in refused.stderr) == (2, True)


@pytest.mark.parametrize("words", [("--check", "-Z 4"), ("--check", "-J 'half"), ("--script", "no-such-file.sh")])
def test_options_that_are_none_of_sbatch_are_wrong_usage(office, site, words):
    office.shows(table(1))
    assert run(site, "eta", *words).exit_code == 2


def test_one_job_is_tried_out_without_being_submitted(office, site):
    office.shows(table(1))
    result = run(site, "eta", "--check", "-G 4")
    assert result.exit_code == 0, result.output
    assert office.options == "--gpus=4"
    assert f"Such a job should start about {clock(NOW_S + 60)}" in result.output


def test_where_nothing_is_predicted_that_is_said(office, site):
    office.shows(table(1))
    office.foretold = LivePredictions(trouble="predictions are switched off (predict.enabled)")
    for words in (["1"], [], ["--check", "-G 4"]):
        result = run(site, "eta", *words)
        assert (result.exit_code, "switched off" in result.stderr) == (1, True)


def test_where_no_prediction_has_come_true_yet_nobody_is_told_to_trust_one(office, site):
    office.shows(table(1))
    assert "how far to trust these is not known" in run(site, "eta", "1").output


def test_without_a_daemon_nobody_knows(office, site):
    office.answers.close()
    result = run(site, "eta", "1")
    assert result.exit_code == 1
    assert "only a running daemon can predict" in result.stderr


def test_private_jobs_of_others_and_jobs_that_are_not_there_are_refused_alike(office, site):
    office.private = True
    office.shows(table(2, user=[ME, "somebody"]))
    assert [one["job_id"] for one in json_of(site, "eta", "--all")["eta"]] == [1]
    strangers, nobodys = run(site, "eta", "2"), run(site, "eta", "987")
    assert strangers.exit_code == nobodys.exit_code == 1
    assert strangers.stderr.replace("2", "987") == nobodys.stderr


def test_a_clock_that_is_behind_the_daemons_is_told(office, site):
    office.shows(table(1))
    site.clock.now_s = NOW_S - 60
    assert "The daemon's clock is 1m00s ahead of this machine's" in run(site, "eta", "1").output


def test_watching_asks_again_until_the_job_is_gone(office, site):
    office.shows(table(1))
    waits = site.clock.waits_s

    class Ending(list):
        def append(self, wait_s):
            super().append(wait_s)
            if len(self) == 2:
                office.shows(table(0))

    site.clock.waits_s = Ending(waits)
    result = run(site, "eta", "1", "--watch")
    assert result.exit_code == 3
    assert result.output.count("Job 1 should start") == 2


@pytest.mark.parametrize("words", [("1", "--all"), ("1", "--check", "-G 4"), ("--all", "--check", "-G 4"), ("one",)])
def test_questions_that_make_no_sense_are_usage_errors(office, site, words):
    assert run(site, "eta", *words).exit_code == 2


def test_an_answer_costs_little_with_two_thousand_jobs_waiting(office):
    count = 2000
    office.shows(table(count, user=[ME if row % 10 == 0 else "somebody" for row in range(count)]))
    began_s = time.process_time()
    for job_id in range(1, 21):
        office.questions.answer({"ask": "eta", "job_ids": [job_id]}, NOBODY)
        office.questions.answer({"ask": "eta"}, pwd.getpwnam(ME).pw_uid)
    assert (time.process_time() - began_s) / 40 < 0.05
