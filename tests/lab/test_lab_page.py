"""The page that makes a site on a laptop does what it says."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from install.pages import Command, Reader, Shell, commands

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="a lab with users of its own needs root")
def test_the_commands_of_the_page_make_a_site_and_take_it_away(lab_directory, tmp_path):
    def here(command: Command) -> tuple[str, str]:
        text = command.text.replace("/var/tmp/slurmsched-lab", str(lab_directory))
        return text.replace("slurmsched lab ", f"slurmsched lab --dir {lab_directory} "), "in a directory of its own"

    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if not shutil.which("slurmsched", path=environment["PATH"]):
        pytest.skip("the command slurmsched is not installed here, only its modules")
    reader = Reader(lambda who: Shell(cwd=tmp_path, env=environment), here)
    try:
        shown = reader.play(commands(ROOT, "docs/lab.md"))
    finally:
        reader.leave_page()  # its daemon too, where a command before the last one failed
    assert "pid " in shown
    rows = [line.split() for line in shown.splitlines() if " train" in line]
    ranked = [(row[0], row[4]) for row in rows if row[0] in "12"]
    assert ("1", "train10") in ranked
    assert ("2", "train20") in ranked
    assert list(tmp_path.iterdir()) == []
    assert not lab_directory.exists()
