from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

from slurmsched.cli import main


def call(directory, *words):
    return CliRunner().invoke(main, ["lab", "--dir", str(directory), *words])


def test_a_lab_lives_and_dies_by_the_command(lab_directory):
    up = call(lab_directory, "up", "--nodes=2", "--gpus=1", "--no-accounting")
    assert up.exit_code == 0, up.output
    assert f"export SLURM_CONF={lab_directory}/etc/slurm.conf" in up.output
    told = json.loads(call(lab_directory, "status", "--json").output)
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
    assert subprocess.run(inside, capture_output=True, text=True, timeout=30).stdout == "2 gpu:1\n"
    again = call(lab_directory, "up", "--no-accounting")
    assert again.exit_code == 1
    assert "there is a lab at" in again.output
    assert call(lab_directory, "down").exit_code == 0
    assert not lab_directory.exists()


def test_status_of_no_lab_says_how_to_get_one(lab_directory):
    told = call(lab_directory, "status")
    assert told.exit_code == 1
    assert "`slurmsched lab up` makes one" in told.output
