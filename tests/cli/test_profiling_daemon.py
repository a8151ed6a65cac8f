"""The profiling flow in a daemon that is put together from its settings, on a Slurm in memory."""

from __future__ import annotations

from threading import Event

import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run
from json_forms import answer_of

from slurmsched.cli.daemon.build import build
from slurmsched.cluster.records.node_loans import members
from slurmsched.config import PowerSettings, ProfileSettings, Settings
from slurmsched.daemon.validation import problems_of
from slurmsched.errors import ConfigError
from slurmsched.powers.profile import profiling_rules
from slurmsched.slurm.adapters.fake import FakeSlurm

SETTINGS = """\
mode = 'act'
[power]
order = true
requeue = true
partition = true
profile = true
nodes = true
[profile]
home = 'gpu'
t_s = 100
wait_s = 1000
[policy]
ordering = 'sjf'
[metrics]
listen = ''
"""


class Site(FakeSite):
    """A fake of four nodes, one of them in the partition profile, whose jobs all start on n1."""

    def __init__(self, directory) -> None:
        lists = {"gpu": "n[2-4]", "profile": "n1"}
        super().__init__(
            directory, SETTINGS, FakeSlurm(now_s=NOW_S, partitions={"gpu": 1, "profile": 2}, node_lists=lists)
        )

    def later(self, seconds: float) -> None:
        self.slurm.advance(seconds)
        self.clock.wait(seconds, Event())

    def lists(self):
        parts = self.slurm.observe().partitions
        return {name: members(parts, name) for name in ("gpu", "profile")}


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def daemon(site):
    made = build(site)
    yield made
    made.close()


def test_a_consenting_job_makes_room_at_its_limit_and_waits_for_its_own_partition_alone(site, daemon):
    first = site.slurm.submit(5000.0, gpus=16, partition="profile,gpu", comment="slurmsched:ckpt")
    site.slurm.advance(1.0)
    second = site.slurm.submit(50.0, gpus=4, partition="profile,gpu")
    daemon.service.once()
    assert site.slurm.jobs[first].partition == "profile"
    site.later(120.0)
    daemon.service.once()
    assert site.slurm.jobs[first].restarts == 1
    assert site.slurm.jobs[first].partition == "profile,gpu", "as Slurm does"
    site.later(5.0)
    daemon.service.once()
    assert site.slurm.jobs[first].partition == "gpu"
    assert site.slurm.jobs[second].partition == "profile"


def test_nodes_that_were_lent_go_back_on_an_ordered_stop(site, daemon):
    own = site.lists()
    site.slurm.submit(5000.0, gpus=4, partition="profile,gpu")
    site.slurm.advance(1.0)
    site.later(120.0)
    for _ in range(3):
        daemon.service.once()
        site.later(60.0)
    assert site.lists()["profile"] == ("n2",)
    daemon.controller.give_back(10.0)
    assert site.lists() == own


def test_nodes_that_were_lent_go_back_when_the_power_is_switched_off_by_a_reload(site, daemon):
    own = site.lists()
    site.slurm.submit(5000.0, gpus=4, partition="profile,gpu")
    site.slurm.advance(1.0)
    site.later(120.0)
    daemon.service.once()
    assert site.lists() != own
    site.file.write_text(site.file.read_text().replace("nodes = true", "nodes = false"))
    daemon.controller.reload()
    site.later(60.0)
    daemon.service.once()
    assert site.lists() == own


def test_release_all_gives_nodes_back_that_a_killed_daemon_left(site, daemon):
    own = site.lists()
    site.slurm.submit(5000.0, gpus=4, partition="profile,gpu")
    site.slurm.advance(1.0)
    site.later(120.0)
    daemon.service.once()
    assert site.lists() != own
    done = run(site, "release-all", "--json")
    assert done.exit_code == 0, done.output
    assert answer_of(["release-all"], done.stdout)["left"] == 0
    assert site.lists() == own


def test_a_move_is_shown_by_once_counted_by_status_and_replayed_from_its_record(site, daemon):
    site.slurm.submit(5000.0, gpus=4, partition="profile,gpu")
    site.slurm.advance(1.0)
    site.later(120.0)
    looked = json_of(site, "once", "--dry-run")
    (wanted,) = [one for one in looked["wanted"] if one["kind"] == "MoveNodes"]
    assert wanted["partitions"] == [
        {"partition": "profile", "own": "n1", "before": "n1", "after": "n[1-2]"},
        {"partition": "gpu", "own": "n[2-4]", "before": "n[2-4]", "after": "n[3-4]"},
    ]
    assert "profile=n[1-2] gpu=n[3-4]" in run(site, "once", "--dry-run").output
    report = daemon.service.once().report
    assert daemon.service.status()["cycle"]["actions"]["MoveNodes"] == 1
    assert json_of(site, "replay", str(report.number))["identical"]


def test_why_tells_of_the_profiling_partition_without_a_daemon_too(site, daemon):
    site.slurm.submit(5000.0, gpus=16, partition="gpu")
    site.slurm.advance(1.0)
    job = site.slurm.submit(50.0, partition="profile,gpu")
    daemon.service.once()
    sentences = json_of(site, "why", str(job))["why"]["details"]
    assert any("may also start in profile" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"partition": ""}, r"profile.partition = ''.*the name of one partition"),
        ({"partition": "a,b"}, r"profile.partition = 'a,b'.*the name of one partition"),
        ({"home": "a b"}, r"profile.home = 'a b'.*the name of one partition"),
        ({"home": "profile"}, "profile.home = 'profile'.*it is another one"),
    ],
)
def test_partitions_that_make_no_sense_are_refused_in_words(said, words):
    settings = Settings(power=PowerSettings(profile=True), profile=ProfileSettings(**said))
    with pytest.raises(ConfigError, match=words):
        profiling_rules(settings)
    assert len(problems_of(settings)) == 1
