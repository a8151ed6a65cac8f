"""How much a new question and a new follower cost: made-up ones are built in, by patches of a copy of the product."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUESTIONS = "slurmsched/daemon/api/questions"


def touched(patch: str) -> list[str]:
    """The files that a patch makes or changes."""
    return re.findall(r"^\+\+\+ b/(\S+)$", (HERE / patch).read_text(), re.MULTILINE)


def life(patch: str, script: str, directory: Path) -> str:
    """What a script of a patched copy of the product prints."""
    shutil.copytree(ROOT / "slurmsched", directory / "slurmsched", ignore=shutil.ignore_patterns("*.nb[ic]"))
    subprocess.run(["git", "apply", "-C1", str(HERE / patch)], cwd=directory, check=True, capture_output=True)
    path = os.pathsep.join(map(str, (directory, HERE, HERE.parent)))
    environment = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / script), str(directory)]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_question_is_its_own_module_and_a_line_of_the_table():
    assert touched("crowd.patch") == [f"{QUESTIONS}/crowd.py", f"{QUESTIONS}/table.py"]


def test_a_new_question_is_answered_live_on_record_by_command_and_has_its_schema(tmp_path):
    told = life("crowd.patch", "crowd_asked.py", tmp_path)
    assert told == "a crowd was counted live, on record, by command and by its schema\n"


def test_a_new_follower_is_its_own_module_and_a_line_of_the_list():
    assert touched("heartbeat.patch") == ["slurmsched/cli/daemon/build.py", "slurmsched/daemon/heartbeat.py"]


def test_a_new_follower_is_fed_after_each_cycle_and_heard_by_status(tmp_path):
    told = life("heartbeat.patch", "heartbeat_life.py", tmp_path)
    assert told == "a follower was fed after each cycle, and heard by status\n"


def test_the_assembly_of_a_daemon_reads_on_one_page():
    tree = ast.parse((ROOT / "slurmsched/cli/daemon/build.py").read_text())
    (build,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "build"]
    assert build.end_lineno is not None
    assert build.end_lineno - build.lineno + 1 < 60
