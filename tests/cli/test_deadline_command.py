"""``slurmsched deadline`` against a Slurm in memory, from the record of a cycle."""

from __future__ import annotations

import re

import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run

from slurmsched.slurm.adapters.fake import FakeSlurm

SETTINGS = """\
mode = 'act'
[power]
order = true
requeue = true
[deadline]
enabled = true
yields = true
reserve = 0
user_gpu_hours = 40
"""


class Site(FakeSite):
    """A cluster of one node whose four GPUs two jobs hold for ten hours, with three jobs that said deadlines."""

    def __init__(self, directory):
        super().__init__(directory, SETTINGS, FakeSlurm(nodes=1, now_s=NOW_S - 7200.0))
        self.slurm.submit(36_000.0, gpus=3, time_limit_s=36_000.0, user="<b>bob")
        self.slurm.submit(36_000.0, gpus=1, time_limit_s=36_000.0, comment="slurmsched:ckpt")
        self.slurm.advance(7200.0)
        for gpus, within in ((1, "+3h"), (4, "+2h"), (1, "+3h,soft")):
            self.slurm.submit(3600.0, gpus=gpus, time_limit_s=3600.0, comment=f"slurmsched:deadline={within}")


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    assert run(made, "once").exit_code == 0
    return made


def test_the_chart_draws_who_holds_what_a_promised_job_will_need(site):
    told = json_of(site, "deadline", "3", "--chart")["chart"]
    kinds = {bar["job_id"]: bar["kind"] for bar in told["bars"]}
    assert kinds == {3: "this", 5: "promised", 1: "running", 2: "can make room"}
    assert told["promised_s"] == NOW_S + 3 * 3600
    assert told["changes"] == []
    lines = run(site, "deadline", "3", "--chart").stdout.splitlines()
    drawn = {line.split()[0]: line[30:] for line in lines if line.split()[:1] and line.split()[0] in "1235"}
    assert set(drawn["1"].strip()) == {"#"}
    assert "*" in drawn["3"]
    assert "=" in drawn["5"]
    assert "~" in drawn["2"]


def test_a_refused_job_is_told_what_would_change_the_answer(site):
    told = json_of(site, "deadline", "4", "--chart")["chart"]
    changes = " ".join(told["changes"])
    assert "later (deadline=+" in changes
    assert "If job 1 (<b>bob) had the token slurmsched:ckpt" in changes
    assert "With 1 GPU it would be in time" not in changes, "that one GPU is promised to others"
    assert all(change in run(site, "deadline", "4", "--chart").stdout for change in told["changes"])


def test_what_is_said_would_help_helps(site):
    minutes = (
        json_of(site, "deadline", "4", "--chart")["chart"]["changes"][0].partition("deadline=+")[2].partition("m")[0]
    )
    site.slurm.submit(3600.0, gpus=4, time_limit_s=3600.0, comment=f"slurmsched:deadline=+{minutes}m")
    run(site, "once")
    assert json_of(site, "deadline", "6")["deadline"]["answer"] == "promised"


@pytest.mark.parametrize(
    ("asked", "words", "change"),
    [
        ({"gpus": 2, "time_limit_s": 3600.0, "within": "+7h"}, "With 1 GPU", {"gpus": 1}),
        ({"gpus": 4, "time_limit_s": 3600.0, "within": "+8h30m"}, "--time of at most 30 min", {"time_limit_s": 1800.0}),
        ({"gpus": 4, "time_limit_s": 3600.0, "within": "+8h30m"}, "--time of at most 30 min", {"time_limit_s": 1860.0}),
    ],
)
def test_with_fewer_gpus_or_a_shorter_limit_it_is_promised_just_as_was_said(site, asked, words, change):
    def submitted(gpus, time_limit_s, within):
        comment = f"slurmsched:deadline={within}"
        job = site.slurm.submit(time_limit_s, gpus=gpus, time_limit_s=time_limit_s, comment=comment)
        run(site, "once")
        return job

    job = submitted(**asked)
    assert words in " ".join(json_of(site, "deadline", str(job), "--chart")["chart"]["changes"])
    expected = "refused" if change == {"time_limit_s": 1860.0} else "promised"
    assert json_of(site, "deadline", str(submitted(**asked | change)))["deadline"]["answer"] == expected


def test_an_admin_sees_who_asked_for_how_much_and_what_was_promised(site):
    (user, account) = json_of(site, "deadline", "--users")["claims"]
    assert (user["who"], user["account"], account["account"]) == ("alice", False, True)
    for claim in (user, account):
        assert (claim["asked"], claim["promised"], claim["refused"], claim["broken"]) == (3, 2, 1, 0)
        assert claim["gpu_hours"] == pytest.approx(2.0)
        assert claim["gpus"] == 6, "promised or not"
    assert user["most_gpu_hours"] == 40.0
    assert "2 of 40" in run(site, "deadline", "--users").stdout
    assert run(site, "deadline", "3", "--users").exit_code == 2


def test_the_page_needs_nothing_else_and_obeys_no_name(site, tmp_path):
    page = tmp_path / "plan.html"
    assert run(site, "deadline", "4", "--html", str(page)).exit_code == 0
    text = page.read_text()
    assert "default-src 'none'" in text
    assert "<b>bob" not in text
    assert "&lt;b&gt;bob" in text
    assert len(re.findall("<rect [^>]*><title>", text)) == 5, "a bar for each job"
    assert "What would change the answer" in text


@pytest.mark.parametrize(("words", "problem"), [(("1", "--chart"), "does not wait"), (("--chart",), "go with a JOB")])
def test_what_cannot_be_drawn_is_said(site, words, problem):
    result = run(site, "deadline", *words)
    assert result.exit_code != 0
    assert problem in result.output
