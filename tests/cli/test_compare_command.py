"""``slurmsched eta --compare`` and ``--suggest`` against what a daemon serves on its socket."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run
from daemon.daemon_worlds import plan, report, view

from slurmsched.cluster.records.predictions import prediction_table
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.explain.eta import Eta, LivePredictions
from slurmsched.models.requests.suggestions import Suggestion

HOUR_S = 3600.0
USUAL = Suggestion(
    limit_s=2 * HOUR_S, limit_by="runs of zoe/train_# with 4 GPUs", limit_runs=80, at_limit=3, asked_covers=0.99,
    cpus=6, memory_mib=12_288, use_runs=40,
)  # fmt: skip


class Office:
    """A daemon's socket: a job starts after as many hours as it asks for GPUs, and needs as long as its limit."""

    def __init__(self, directory):
        self.asked, self.hint, self.unknown = [], USUAL, ""
        table = prediction_table(0)
        sources = Sources(
            dict,
            *(lambda *_: None for _ in range(4)),
            predictions=lambda: LivePredictions(table),
            eta_check=self.tried,
        )
        self.questions = QueryHandlers(sources, trusted=())
        self.questions.observe(report(7, now_s=NOW_S, view=view({}, {}), plan=plan(0)))
        self.answers = QueryServer(directory, self.questions)

    def tried(self, seen, planned, options, user):
        self.asked.append(options)
        wait_h = float((re.findall(r"--gpus=(\d+)", options) or [1])[-1])
        limit_h = float((re.findall(r"--time=(\d+)", options) or [600])[-1]) / 60
        made = Eta(0, user, "gpu", 4, 1, "predicted", NOW_S, suggestion=self.hint)
        if self.unknown and self.unknown in options:
            return replace(made, kind="held", notes=("No such partition.",), not_understood=("--odd=3",))
        start_s, takes_s = NOW_S + wait_h * HOUR_S * min(limit_h / 10, 1), limit_h * HOUR_S
        return replace(made, start_s=start_s, start_by_s=start_s + HOUR_S, finish_s=start_s + takes_s,
                       finish_by_s=start_s + 2 * takes_s)  # fmt: skip


@pytest.fixture
def office(tmp_path):
    office = Office(tmp_path)
    office.answers.start()
    yield office
    office.answers.close()


@pytest.fixture
def site(tmp_path, office):
    return FakeSite(tmp_path, "")


def test_variants_are_told_one_a_line_with_both_bounds_and_the_best_ones_at_the_end(office, site):
    result = run(
        site, "eta", "--check", "-p gpu", "--compare", "-G 4", "--compare", "-G 2 -t 1200", "--compare", "-G 3"
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["-G 4", "-G 2 -t 1200", "-G 3"]
    assert all(line.count("nine times in ten") == 2 for line in lines[:3])
    assert lines[3] == "Starts first: -G 2 -t 1200; done first: -G 3."
    assert all("--partition=gpu" in asked for asked in office.asked)
    assert len(office.asked) == 3


def test_a_script_is_read_once_and_comes_first_as_asked_and_a_variant_wins_over_it(office, site, tmp_path):
    (tmp_path / "train.sh").write_text("#!/bin/sh\n#SBATCH -G 8 -t 600\nsleep 1\n")
    result = run(site, "eta", "--script", str(tmp_path / "train.sh"), "--compare", "-G 4", "--compare", "-t 60")
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.output.splitlines()[:3]] == ["as asked", "-G 4", "-t 60"]
    assert [re.findall(r"--(?:gpus|time)=\d+", asked) for asked in office.asked] == [
        ["--gpus=8", "--time=600"],
        ["--gpus=4", "--time=600"],
        ["--gpus=8", "--time=60"],
    ]


def test_json_has_the_variants_in_order(office, site):
    told = json_of(site, "eta", "--compare", "-G 4", "--compare", "-G 2")["eta"]
    assert [one["start_s"] - NOW_S for one in told] == [4 * HOUR_S, 2 * HOUR_S]


def test_a_variant_without_a_time_is_told_with_its_reason_and_what_was_not_understood(office, site):
    office.unknown = "--partition=nowhere"
    result = run(site, "eta", "--compare", "-p nowhere", "--compare", "-G 2")
    assert "-p nowhere: Not understood, so not counted in this answer: --odd=3." in result.output
    assert "-p nowhere: its start and finish cannot be predicted. No such partition." in result.output
    assert "-G 2: starts about" in result.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--compare", "-G 1") * 9, "takes up to 8 variants, these are 9"),
        (("12", "--compare", "-G 1"), "about a new job"),
        (("--all", "--suggest"), "about a new job"),
        (("--watch", "--suggest"), "about a new job"),
        (("--compare", "-Z 4"), "sbatch"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(office, site, words, why):
    result = run(site, "eta", *words)
    assert (result.exit_code, why in result.stderr) == (2, True), result.stderr


def test_a_suggestion_says_what_is_behind_it_what_it_gains_and_what_it_risks(office, site):
    result = run(site, "eta", "--check", "-G 4 -t 600", "--suggest")
    assert result.exit_code == 0, result.output
    for words in (
        "covers 95 % of such runs (runs of zoe/train_# with 4 GPUs, 80 of them; 3 of these ended at their limit",
        "What you ask covers 99% of them.",
        "one such run in twenty is stopped at this limit",
        "6 CPUs and 12 GiB of memory on a node cover what 95 % of 40 measured runs used",
        "one such run in twenty needs more memory",
        "The gain: it starts",
    ):
        assert words in result.output
    assert office.asked[-1].endswith("--time=120 --mem=12288M")


def test_where_nothing_is_known_nothing_is_suggested(office, site):
    office.hint = None
    assert "no history was read yet" in run(site, "eta", "--suggest").output
    office.hint = dict.fromkeys(USUAL, None) | {"use_runs": 0}
    result = run(site, "eta", "--suggest")
    assert (result.exit_code, "Too few runs are known" in result.output) == (0, True)
    assert len(office.asked) == 2
