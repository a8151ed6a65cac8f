"""How much a new power costs: a made-up one is built in, by a patch of a copy of the product."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PATCH = HERE / "nap.patch"
MOST = 8
"""Existing files that a new power may touch."""


def touched() -> list[str]:
    """The existing files that the patch changes; new ones come from /dev/null."""
    return re.findall(r"^--- a/(\S+)$", PATCH.read_text(), re.MULTILINE)


def test_a_new_power_touches_few_existing_files():
    files = touched()
    print("\n".join(files))
    assert len(files) == len(set(files)) <= MOST
    assert "slurmsched/slurm/write/verbs.py" in files
    assert all(name.startswith("slurmsched/") for name in files)


def test_a_new_power_has_its_wishes_terms_sentences_and_way_back(tmp_path):
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "slurmsched", tmp_path / "slurmsched", ignore=compiled)
    command = ["git", "apply", "-C1", str(PATCH)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    script = [sys.executable, str(HERE / "nap_life.py")]
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a nap was had, told and ended\n"
