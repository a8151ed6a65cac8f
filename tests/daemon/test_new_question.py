"""How much a new question costs: a made-up one is built in, by a patch of a copy of the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PATCH = HERE / "crowd.patch"


def test_a_new_question_is_its_own_module_and_a_line_of_the_table():
    files = re.findall(r"^\+\+\+ b/(\S+)$", PATCH.read_text(), re.MULTILINE)
    home = "slurmsched/daemon/api/questions"
    assert files == [f"{home}/crowd.py", f"{home}/table.py"]


def test_a_new_question_is_answered_live_on_record_by_command_and_has_its_schema(tmp_path):
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "slurmsched", tmp_path / "slurmsched", ignore=compiled)
    subprocess.run(["git", "apply", "-C1", str(PATCH)], cwd=tmp_path, check=True, capture_output=True, text=True)
    path = os.pathsep.join(map(str, (tmp_path, HERE)))
    environment = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    script = [sys.executable, str(HERE / "crowd_asked.py"), str(tmp_path)]
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a crowd was counted live, on record, by command and by its schema\n"
