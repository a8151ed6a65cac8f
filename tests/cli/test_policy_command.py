"""``slurmsched policy`` and the daemon that follows it."""

from __future__ import annotations

import getpass
import json

import pytest
from cli.fake_site import ORDERS, FakeSite, run
from json_forms import answer_of

from slurmsched.cli.app import App
from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.db.records.policy_choices import PolicyChoice
from slurmsched.errors import ConfigError

LINE = "wfq thresholds=60,inf weights=9,1"


class Site(FakeSite):
    """Three jobs wait for a full cluster; the settings say sjf."""

    def __init__(self, directory):
        super().__init__(directory)
        self.slurm.submit(5000.0, gpus=16)
        self.slurm.advance(1.0)
        for limit_s in (3000.0, 2000.0, 1000.0):
            self.slurm.submit(limit_s / 2, gpus=8, time_limit_s=limit_s)
        self.clock.now_s = self.slurm.now_s

    def order_by(self, ordering: str) -> None:
        self.write(ORDERS.replace("'sjf'", f"'{ordering}'"))


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.make_tables()
    yield site
    site.close()


@pytest.fixture
def daemon(site):
    daemon = build(site)
    yield daemon
    daemon.close()


def shown(site: App, *words: str) -> dict:
    return answer_of(["policy", "show"], run(site, "policy", "show", "--json", *words).stdout)


def served(site: Site, daemon: Daemon) -> str:
    """The ordering of the next cycle."""
    site.clock.now_s += 15.0
    turn = daemon.service.once()
    assert turn.ok, turn.error
    return json.loads(site.store().latest_decision().settings_json)["ordering"]


def test_what_is_set_orders_from_the_next_cycle_on_and_after_restarts_until_it_is_reset(site, daemon):
    assert served(site, daemon) == "sjf"
    result = run(site, "policy", "set", *LINE.split())
    assert result.output == f"{LINE} orders the jobs from the daemon's next cycle on\n"
    assert served(site, daemon) == LINE
    daemon.controller.reload()
    assert served(site, daemon) == LINE, "a reload of the same settings"
    daemon.close()
    again = build(site)
    assert served(site, again) == LINE
    run(site, "policy", "set", "--reset")
    assert served(site, again) == "sjf"
    again.close()


def test_the_settings_can_say_the_same(site, daemon):
    site.order_by(LINE)
    daemon.controller.reload()
    assert served(site, daemon) == LINE
    site.order_by("wfq zeta=7")
    with pytest.raises(ConfigError, match="accepted is 0 to 1"):
        daemon.controller.reload()
    assert served(site, daemon) == LINE


def test_who_asks_is_told_what_serves_and_who_said_so(site):
    assert shown(site)["from"] == "settings"
    run(site, "policy", "set", *LINE.split(), "--reason", "deadline week")
    told = shown(site)
    assert (told["ordering"], told["from"], told["by"]) == (LINE, "policy set", getpass.getuser())
    assert (told["since_s"], told["reason"]) == (site.clock.now_s, "deadline week")
    assert told["parameters"] == {
        "thresholds": "60,inf",
        "weights": "9,1",
        "zeta": "0",
        "delta": "0.1",
        "overtake": "0",
    }
    text = run(site, "policy", "show").output
    assert f"by {getpass.getuser()}: deadline week" in text
    assert "no daemon answers" in text


def test_every_choice_stays_on_record(site):
    for words in (["qssf"], LINE.split(), ["--reset"]):
        assert run(site, "policy", "set", *words).exit_code == 0
        site.clock.now_s += 60.0
    told = shown(site, "--all")
    assert [choice["line"] for choice in told["choices"]] == ["", LINE, "qssf"]
    assert (told["ordering"], told["from"], told["by"]) == ("sjf", "settings", getpass.getuser())


def test_the_story_of_a_job_tells_of_it(site, daemon):
    served(site, daemon)
    job = min(site.slurm.observe().pending.job_id.tolist())
    run(site, "policy", "set", "qssf", "--reason", "a try")
    served(site, daemon)
    text = run(site, "story", str(job)).output
    assert f"{getpass.getuser()} set the policy to qssf: a try" in text
    assert text.index("it was submitted") < text.index("set the policy")


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (("wfq", "thresholds=60,30,inf", "weights=1,1,1"), 2, "rising sizes"),
        (("wfq", "thresholds=60,inf", "weights=1"), 2, "one weight per threshold"),
        (("sfj",), 2, "is not known; there are: "),
        (("sjf", "zeta=1"), 2, "takes no parameters"),
        ((), 2, "Say ORDERING or --reset"),
        (("sjf", "--reset"), 2, "one of them"),
        (("sjf", "--from-history"), 2, "say wfq"),
        (("wfq", "weights=1,1,1,1", "--from-history"), 2, "say wfq, and neither of them"),
        (("wfq", "--slope", "1"), 2, "--slope goes with --from-history"),
        (("wfq", "--from-history"), 3, "holds no runs of the last 30 days"),
        (("sjf", "--reason", "x" * 201), 2, "at most 200 characters"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_changes(site, words, status, answer):
    result = run(site, "policy", "set", *words)
    assert (result.exit_code, answer in result.stderr) == (status, True), result.output
    assert site.store().choices("fake") == []


def test_who_may_not_write_the_database_sets_nothing(tmp_path):
    site = Site(tmp_path)
    site.file.write_text(f"{site.file.read_text()}[database]\nurl = 'sqlite:////{tmp_path}/not-there/s.db'\n")
    result = run(site, "policy", "set", "sjf")
    assert result.exit_code == 1
    assert "s.db: No such file or directory" in result.stderr


def test_classes_come_from_the_sizes_of_past_runs(site):
    site.slurm.advance(20_000.0)
    site.clock.now_s = site.slurm.now_s
    run(site, "history", "import", "--days", "1")
    result = run(site, "policy", "set", "wfq", "zeta=0.5", "--from-history", "--variation", "0.1", "--slope", "0")
    assert result.exit_code == 0, result.output
    parameters = shown(site)["parameters"]
    # Sizes 4000, 8000 and 12000 GPU-seconds, and one of 80000.
    assert parameters["thresholds"] == "4000,12000,inf"
    assert len(set(parameters["weights"].split(","))) == 1
    assert parameters["zeta"] == "0.5"


def test_a_choice_that_nobody_here_understands_leaves_the_settings_in_force_and_says_so(site, daemon, caplog):
    site.store().choose("fake", PolicyChoice("of-a-plugin-that-went", "root", site.clock.now_s))
    assert served(site, daemon) == "sjf"
    assert "the chosen ordering cannot be used" in caplog.text
    assert "of-a-plugin-that-went" in shown(site)["trouble"]


def test_an_ordering_for_jobs_that_yield_says_that_none_does(site):
    assert shown(site)["notes"] == []
    run(site, "policy", "set", "themis")
    assert "themis only orders pending jobs" in run(site, "policy", "show").output
