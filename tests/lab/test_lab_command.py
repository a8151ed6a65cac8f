from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.lab.daemons import START_S


def call(directory, *words):
    return CliRunner().invoke(main, ["lab", "--dir", str(directory), *words])


def test_a_lab_lives_and_dies_by_the_command(lab_directory):
    up = call(lab_directory, "up", "--nodes=2", "--gpus=1", "--no-accounting")
    assert up.exit_code == 0, up.output
    assert f"export SLURM_CONF={lab_directory}/etc/slurm.conf" in up.output
    told = answer_of(["lab", "status"], call(lab_directory, "status", "--json").output)
    assert (told["schema"], told["healthy"]) == ("slurmsched/1", True)
    assert [node["state"] for node in told["nodes"]] == ["idle", "idle"]
    assert "n2" in call(lab_directory, "status").output
    shell = [
        sys.executable,
        "-c",
        "from slurmsched.cli import main; main()",
        "lab",
        "--dir",
        str(lab_directory),
        "shell",
    ]
    inside = [*shell, "sinfo", "-h", "-o", "%D %G"]
    assert subprocess.run(inside, capture_output=True, text=True, timeout=300).stdout == "2 gpu:1\n"
    again = call(lab_directory, "up", "--no-accounting")
    assert again.exit_code == 1
    assert "there is a lab at" in again.output
    assert call(lab_directory, "down").exit_code == 0
    assert not lab_directory.exists()


def test_status_of_no_lab_says_how_to_get_one(lab_directory):
    told = call(lab_directory, "status")
    assert told.exit_code == 1
    assert "`slurmsched lab up` makes one" in told.output


def test_a_refused_line_of_slurm_conf_is_told_with_what_refused_it_and_not_waited_out(lab_directory):
    began_s = time.monotonic()
    up = call(lab_directory, "up", "--nodes=1", "--conf", "NoSuchOption=1")
    assert up.exit_code == 1
    assert "NoSuchOption" in up.output
    assert "in vain" not in up.output
    assert time.monotonic() - began_s < START_S, "nothing was waited for that cannot come"
    assert not lab_directory.exists()


def test_the_controller_restarts_and_the_shell_keeps_our_settings(lab_directory):
    assert call(lab_directory, "up", "--nodes=1", "--no-accounting").exit_code == 0
    before = {
        each["name"]: each["pid"] for each in json.loads(call(lab_directory, "status", "--json").output)["processes"]
    }
    restarted = call(lab_directory, "restart")
    assert restarted.exit_code == 0, restarted.output
    after = {
        each["name"]: each["pid"] for each in json.loads(call(lab_directory, "status", "--json").output)["processes"]
    }
    assert {name for name in before if before[name] != after[name]} == {"slurmctld"}
    shell = [sys.executable, "-m", "slurmsched", "lab", "--dir", str(lab_directory), "shell", "printenv"]
    environment = os.environ | {"SLURMSCHED_CONFIG": "/tmp/s.toml", "SLURM_CLUSTERS": "other"}
    done = subprocess.run([*shell, "SLURMSCHED_CONFIG"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "/tmp/s.toml\n"
    done = subprocess.run([*shell, "SLURM_CLUSTERS"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == ""
