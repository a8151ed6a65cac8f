from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from slurmsched.daemon.service import LEAST_S, ServiceParts

UNITS = Path(__file__).parents[2] / "systemd"
WEB = UNITS.parent / "contrib/web/web-slurmsched.service"
SERVICES = [
    "slurmsched.service",
    "slurmsched-release.service",
    "slurmsched-history.service",
    "slurmsched-train.service",
]


def tool(name: str) -> str:
    """The path of one of systemd's programs; without it the test is skipped."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed (package systemd)")


def run(*argv: str | Path) -> str:
    done = subprocess.run([str(arg) for arg in argv], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def settings(name: str) -> dict[str, list[str]]:
    """The settings of a unit file, each with its values in order."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def sandbox(name: str) -> list[str]:
    between = (UNITS / name).read_text().split("# sandbox begins")[1].split("# sandbox ends")[0]
    return [line for line in between.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("service", SERVICES)
def test_exposure_is_two_at_most(service):
    run(tool("systemd-analyze"), "security", "--offline=true", "--threshold=20", UNITS / service)


def test_the_web_process_has_a_sandbox_of_its_own_and_no_user_of_the_daemon():
    assert not WEB.name.startswith("slurmsched-"), "those units share the daemon's user"
    assert "DynamicUser=yes" in WEB.read_text()
    run(tool("systemd-analyze"), "security", "--offline=true", "--threshold=20", WEB)


def test_systemd_finds_nothing_to_say_about_the_units(tmp_path):
    analyze = tool("systemd-analyze")
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    shutil.copy(WEB, tmp_path)
    for unit in tmp_path.glob("*.service"):  # the program need not be installed where the tests run
        unit.write_text(unit.read_text().replace("/usr/bin/slurmsched", "/bin/true"))
    assert run(analyze, "verify", *sorted(path for path in tmp_path.iterdir() if path.is_file())) == ""


def test_all_services_live_in_the_same_sandbox():
    assert sandbox("slurmsched.service") == sandbox("slurmsched-.service.d/sandbox.conf")
    daemon, helpers = settings("slurmsched.service"), settings("slurmsched-.service.d/sandbox.conf")
    assert {key: daemon[key] for key in helpers if key != "Environment"} == {
        key: helpers[key] for key in helpers if key != "Environment"
    }
    assert set(helpers["Environment"]) <= set(daemon["Environment"])


def test_a_loop_of_hangs_reaches_the_start_limit():
    daemon = {key: values[0] for key, values in settings("slurmsched.service").items()}
    loop_s = int(daemon["StartLimitBurst"]) * (int(daemon["WatchdogSec"]) + int(daemon["RestartSec"]))
    assert loop_s < int(daemon["StartLimitIntervalSec"])


def test_an_ordered_stop_ends_long_before_systemd_kills_it():
    ours_s = {field.name: field.default for field in fields(ServiceParts)}["release_budget_s"]
    assert ours_s + LEAST_S <= float(settings("slurmsched.service")["TimeoutStopSec"][0]) - 10
    release = settings("slurmsched-release.service")["TimeoutStartSec"][0]
    assert ours_s + LEAST_S <= float(release) - 10, "release-all takes as long by itself"


def test_jobs_are_given_back_on_a_stop_and_a_crash_loop_but_not_on_a_restart():
    daemon = settings("slurmsched.service")
    assert daemon["OnFailure"] == ["slurmsched-release.service"]
    assert daemon["KillSignal"] != daemon["RestartKillSignal"] == daemon["SuccessExitStatus"]
    assert "ExecStopPost" not in daemon  # it would run on every restart
    assert "release-all" in settings("slurmsched-release.service")["ExecStart"][0]


@pytest.mark.skipif(os.geteuid() != 0, reason="making users and directories of other owners needs root")
def test_the_user_and_the_directories_are_made(tmp_path):
    sysusers, tmpfiles = tool("systemd-sysusers"), tool("systemd-tmpfiles")
    (tmp_path / "etc").mkdir()
    run(sysusers, f"--root={tmp_path}", UNITS / "sysusers.d/slurmsched.conf")
    name, _, uid, gid, *_, home, shell = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert (name, home, shell) == ("slurmsched", "/nonexistent", "/usr/sbin/nologin")
    run(tmpfiles, "--create", f"--root={tmp_path}", UNITS / "tmpfiles.d/slurmsched.conf")
    made = {path: (tmp_path / path).stat() for path in ("etc/slurmsched", "var/lib/slurmsched", "run/slurmsched")}
    assert {path: (found.st_uid, found.st_gid, oct(stat.S_IMODE(found.st_mode))) for path, found in made.items()} == {
        "etc/slurmsched": (0, int(gid), "0o750"),
        "var/lib/slurmsched": (int(uid), int(gid), "0o750"),
        "run/slurmsched": (int(uid), int(gid), "0o755"),
    }
