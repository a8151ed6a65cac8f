"""What `config check` accepts is what a daemon starts with, and what it refuses no daemon takes."""

from __future__ import annotations

import json

import pytest
from cli.fake_site import FakeSite, run

from slurmsched.cli.daemon.build import build
from slurmsched.errors import ConfigError

REFUSED = {
    "[database]\nurl = 'mysql://x'": "database.url begins with 'mysql'",
    "[database]\nurl = 'x'": "database.url is no address of a database",
    "[profile]\nlisten = '1.2.3.4'": "profile.listen = '1.2.3.4'",
    "[metrics]\nlisten = '0.0.0.0:80'": "metrics.listen = '0.0.0.0:80'",
    "[deadline]\nsoft_steps = ['x']": "deadline.soft_steps: 'x' is no step",
    "[deadline]\nenabled = true\nsoft_steps = ['50@0.5']": "deadline.soft_steps: '50@0.5' is no step",
    **{
        f"[policy]\n{part} = 'magic'": f"policy.{part} = 'magic'"
        for part in ("ordering", "admission", "preemption", "profiling", "sharing", "stopping")
    },
    "[power]\nprofile = true\n[profile]\nhome = 'profile'": "profile.home = 'profile'",
    "[share]\npartition = 'a b'": "share.partition = 'a b'",
}


class Site(FakeSite):
    def write(self, settings: str) -> None:
        super().write(("" if "metrics" in settings else "[metrics]\nlisten = ''\n") + settings + "\n")


@pytest.mark.parametrize("text", REFUSED)
def test_what_config_check_refuses_no_daemon_starts_with(tmp_path, text):
    for words in (["config", "check"], ["run"], ["once"], ["check"]):
        result = run(Site(tmp_path, text), *words)
        assert result.exit_code == 1, words
        assert REFUSED[text] in result.output, words


@pytest.mark.parametrize("text", REFUSED)
def test_a_reload_refuses_it_too_and_changes_nothing(tmp_path, text):
    site = Site(tmp_path, "")
    daemon = build(site)
    site.write(f"{text}\n[order]\nwindow = 7")
    with pytest.raises(ConfigError, match=REFUSED[text].split(" ")[0]):
        daemon.controller.reload()
    assert daemon.policy.rules.window != 7
    daemon.close()


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    site = Site(tmp_path, "[database]\nurl = 'mysql://x'\n[profile]\nlisten = 'x'\n[deadline]\nsoft_steps = ['x']")
    assert len(json.loads(run(site, "config", "check", "--json").stdout)["problems"]) == 3
    assert "3 problems in the settings" in run(site, "run").output


NO_PARTITION = {
    "[order]\npartitions = ['gpu', 'nopart']": "order.partitions",
    "[power]\nshare = true\n[share]\npartition = 'nopart'": "share.partition",
    "[power]\nprofile = true\n[profile]\npartition = 'nopart'": "profile.partition",
    "[power]\nprofile = true\n[profile]\npartition = 'gpu'\nhome = 'nopart'": "profile.home",
}


@pytest.mark.parametrize("text", NO_PARTITION)
def test_a_partition_that_the_cluster_has_not_is_found_by_both_checks(tmp_path, text):
    for words in (["config", "check"], ["check"]):
        result = run(Site(tmp_path, text), *words)
        assert result.exit_code == 1
        assert f"{NO_PARTITION[text]} names nopart, which is no partition of this cluster" in result.output


@pytest.mark.parametrize("text", NO_PARTITION)
def test_a_daemon_runs_without_that_partition_and_logs_it_once(tmp_path, caplog, text):
    daemon = build(Site(tmp_path, text))
    for _ in range(3):
        assert daemon.service.once().ok
    assert caplog.text.count(f"{NO_PARTITION[text]} names nopart, which is no partition of this cluster") == 1
    daemon.close()


def test_without_slurm_config_check_says_that_partitions_were_not_checked(tmp_path):
    site = Site(tmp_path, "[order]\npartitions = ['gpu']")
    assert "not checked" not in run(site, "config", "check").output
    site.slurm.away = True
    result = run(site, "config", "check")
    assert result.exit_code == 0
    assert "the partitions that the settings name were not checked: " in result.output


def test_a_file_that_is_named_is_checked_in_place_of_the_one_in_force(tmp_path):
    site = Site(tmp_path, "")
    other = tmp_path / "other.toml"
    other.write_text("[order]\npartitions = ['nopart']\n")
    assert "order.partitions names nopart" in run(site, "config", "check", str(other)).output
