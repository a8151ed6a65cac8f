"""The page that makes a site on a laptop does what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"


@pytest.mark.skipif(os.geteuid() != 0, reason="a lab with users of its own needs root")
def test_the_commands_of_the_page_make_a_site_and_take_it_away(lab_directory, tmp_path):
    blocks = re.findall(r"(?:^    .*\n)+", PAGE.read_text(), re.M)
    script = "".join(re.sub("^    ", "", block, flags=re.M) for block in blocks)
    script = script.replace("/var/tmp/slurmsched-lab", str(lab_directory))
    script = script.replace("slurmsched lab ", f"slurmsched lab --dir {lab_directory} ")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    child = subprocess.Popen(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        shown, _ = child.communicate(timeout=300)
    finally:
        with suppress(ProcessLookupError):  # its daemon too, where a command before the last one failed
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 0, shown
    assert "pid " in shown
    rows = [line.split() for line in shown.splitlines() if " train" in line]
    ranked = [(row[0], row[4]) for row in rows if row[0] in "12"]
    assert ("1", "train10") in ranked
    assert ("2", "train20") in ranked
    assert list(tmp_path.iterdir()) == []
    assert not lab_directory.exists()
