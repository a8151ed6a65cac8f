"""The daemon as it is put together: what it waits for, what it does without, what a reload changes."""

from __future__ import annotations

import pwd
from dataclasses import replace

import pytest
from cli.fake_site import NOW_S, FakeSite

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.cluster.actions import Rank
from slurmsched.daemon.cluster_facts import MOST_AGE_S
from slurmsched.db.leader import leadership
from slurmsched.errors import ConfigError, SchemaMismatch, SlurmUnavailable
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.port import ClusterInfo


class LateSlurm(FakeSlurm):
    """Answers from the fourth question on."""

    asked = 0

    def facts(self) -> ClusterInfo:
        self.asked += 1
        if self.asked < 4:
            raise SlurmUnavailable("scontrol did not answer")
        return super().facts()


class NewerSlurm(FakeSlurm):
    """Of a release that nobody has tested."""

    def facts(self) -> ClusterInfo:
        return replace(super().facts(), version=(27, 5, 0))


class Site(FakeSite):
    def set(self, daemon: str, ordering: str) -> None:
        self.write(f"{daemon}\n[power]\norder = true\n[policy]\nordering = '{ordering}'\n[metrics]\nlisten = ''\n")

    def fill(self) -> None:
        self.slurm.submit(5000.0, gpus=16)
        self.slurm.advance(1.0)
        for limit_s in (3000.0, 1000.0):
            self.slurm.submit(limit_s / 2, gpus=8, time_limit_s=limit_s)
        self.clock.now_s = self.slurm.now_s


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.fill()
    return site


def once(daemon: Daemon):
    turn = daemon.service.once()
    assert turn.ok, turn.error
    return turn.report


def test_a_starting_daemon_waits_for_slurmctld(tmp_path):
    site = Site(tmp_path, slurm=LateSlurm(now_s=NOW_S))
    build(site, patience_s=60.0).close()
    assert len(site.clock.waits_s) == 3


def test_its_patience_ends(tmp_path):
    site = Site(tmp_path)
    site.slurm.away = True
    with pytest.raises(SlurmUnavailable):
        build(site, patience_s=5.0)
    assert sum(site.clock.waits_s) >= 5.0


def test_a_slurm_newer_than_any_tested_is_only_observed_until_an_admin_allows_it(tmp_path, caplog):
    site = Site(tmp_path, slurm=NewerSlurm(now_s=NOW_S))
    site.fill()
    daemon = build(site)
    assert "nothing is written: Slurm 27.05.0 is newer than any that was tested, 26.05" in caplog.text
    for _ in range(2):
        assert once(daemon).mode == "observe"
    assert caplog.text.count("nothing is written") == 1
    assert "27.05.0" in daemon.service.status()["why_mode"]
    assert not site.slurm.observe().pending.site_points.any()
    with site.file.open("a") as file:
        file.write("[slurm]\nallow_untested = true\n")
    daemon.controller.reload()
    assert once(daemon).mode == "act"
    assert site.slurm.observe().pending.site_points.any()
    daemon.close()


def test_a_slurm_that_gives_every_job_whole_nodes_is_refused_and_later_only_observed(site):
    site.slurm.config["SelectType"] = "select/linear"
    with pytest.raises(
        ConfigError, match=r"SelectType is select/linear.*set SelectType=select/cons_tres in slurm\.conf"
    ):
        build(site)
    site.slurm.config["SelectType"] = "select/cons_tres"
    daemon = build(site)
    assert once(daemon).mode == "act"
    site.slurm.config["SelectType"] = "select/linear"
    site.clock.now_s += MOST_AGE_S
    assert [once(daemon).mode for _ in range(2)] == ["act", "observe"], "the configuration is read once a minute"
    assert "SelectType is select/linear" in daemon.service.status()["why_mode"]
    daemon.close()


def test_what_slurm_keeps_private_is_private_within_a_minute_and_no_longer_than_that(site):
    daemon = build(site)

    def seen_by(uid: int) -> list[str]:
        return [row["user"] for row in daemon.service.questions.answer({"ask": "queue"}, uid)["queue"]]

    somebody = pwd.getpwnam("nobody").pw_uid
    once(daemon)
    assert seen_by(somebody) == ["alice", "alice"]
    for private, seen in (("jobs,usage", []), ("", ["alice", "alice"])):
        site.slurm.config["PrivateData"] = private
        site.clock.now_s += MOST_AGE_S
        once(daemon)
        assert seen_by(somebody) == seen
        assert seen_by(0) == ["alice", "alice"]
    site.slurm.config["PrivateData"] = "jobs"
    site.clock.now_s += MOST_AGE_S / 2
    once(daemon)
    assert seen_by(somebody) == ["alice", "alice"], "it is asked once a minute"
    daemon.close()


def test_a_first_start_makes_the_database(site, tmp_path):
    daemon = build(site)
    once(daemon)
    daemon.close()
    assert site.store().decision_numbers() == [1]
    site.close()


def test_a_newer_database_is_refused(site):
    build(site).close()
    store = site.open_store()
    with store.database.transaction("making it newer", write=True) as connection:
        connection.exec_driver_sql("UPDATE slurmsched_version SET version_num = '9999'")
    store.close()
    with pytest.raises(SchemaMismatch):
        build(site)


def test_cycle_numbers_go_on_where_the_last_daemon_stopped(site):
    for number in (1, 2, 3):
        daemon = build(site)
        assert once(daemon).number == number
        daemon.close()


def test_the_forecast_knows_the_history_of_the_database(site):
    build(site).close()
    site.slurm.advance(20_000.0)
    store = site.store()
    store.add_outcomes("fake", site.slurm.outcomes(0.0, site.slurm.now_s))
    site.slurm.submit(500.0, gpus=8, time_limit_s=86_400.0)
    site.clock.now_s = site.slurm.now_s
    daemon = build(site)
    assert once(daemon).view.forecast.runtime_s[0] < 10_000.0
    daemon.close()
    site.close()


def test_a_reload_changes_the_order_and_the_beat(site):
    daemon = build(site)
    site.set("mode = 'advise'\nevery_s = 99", "qssf")
    settings = daemon.controller.reload()
    assert (settings.mode, settings.every_s) == ("advise", 99.0)
    assert "qssf" in daemon.controller.cycle(site.clock.now_s, "advise").sentence
    daemon.close()


def test_a_reload_leaves_the_files_where_they_are(site, tmp_path):
    daemon = build(site)
    site.directory = tmp_path / "elsewhere"
    site.set("mode = 'act'", "sjf")
    assert daemon.controller.reload().state_dir == str(tmp_path)
    daemon.close()


def test_a_reload_that_cannot_be_read_changes_nothing(site):
    daemon = build(site)
    for daemon_text, ordering in (("mode = 'go'", "sjf"), ("mode = 'advise'", "magic")):
        site.set(daemon_text, ordering)
        with pytest.raises(ConfigError):
            daemon.controller.reload()
    report = once(daemon)
    assert (report.mode, "sjf" in report.sentence) == ("act", True)
    daemon.close()


def test_an_observer_that_stops_writes_nothing(site):
    site.set("mode = 'observe'", "sjf")
    daemon = build(site)
    once(daemon)
    daemon.controller.give_back(10.0)
    assert site.slurm.written == []
    daemon.close()


def test_a_stop_gives_the_jobs_back_while_it_leads(site):
    daemon = build(site)
    daemon.parts.leadership.acquire()
    daemon.controller.cycle(site.clock.now_s, "act")
    assert any(isinstance(action, Rank) and action.points for action in site.slurm.written)
    daemon.controller.give_back(10.0)
    assert [job.points for job in site.slurm.jobs.values() if job.points] == []
    daemon.close()


def test_a_daemon_that_lost_the_lead_leaves_the_jobs_to_the_other_one(site):
    daemon = build(site)
    daemon.parts.leadership.acquire()
    daemon.controller.cycle(site.clock.now_s, "act")
    daemon.parts.leadership.release()
    other = leadership(site.store(), "fake")
    assert other.acquire()
    written = len(site.slurm.written)
    daemon.controller.give_back(10.0)
    assert len(site.slurm.written) == written
    other.release()
    daemon.close()
    site.close()


def test_old_cycles_are_forgotten_in_time(site):
    daemon = build(site)
    once(daemon)
    site.clock.now_s += 8 * 86_400.0
    once(daemon)
    assert site.store().decision_numbers() == [2]
    daemon.close()
    site.close()
