from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slurmsched
from slurmsched.policies.compiled import HAVE_NUMBA, compiled

PUSHED = """\
import numpy as np
from slurmsched.simulator.engine.heaps import push
keys, rows = np.zeros(1), np.zeros(1, np.int64)
push(keys, rows, 0, 0, 7.0, 3)
print(keys)
"""


def test_a_compiled_function_gives_what_the_plain_one_gives():
    def twice(number: int) -> int:
        return 2 * number

    assert compiled(twice)(21) == twice(21)


def test_numba_is_imported_when_a_compiled_function_is_called():
    first = "import sys; from slurmsched.simulator.engine.heaps import push; print('numba' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"


@pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is not installed")
def test_without_a_place_to_keep_it_a_function_is_compiled_all_the_same(tmp_path: Path):
    shutil.copytree(Path(slurmsched.__file__).parent, tmp_path / "slurmsched", ignore=shutil.ignore_patterns("__pyc*"))
    # a file where the directory beside the source would be, and one for a home: also closed to root
    for package in ("policies", "simulator/engine"):
        (tmp_path / "slurmsched" / package / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    told = subprocess.run(
        [sys.executable, "-c", PUSHED],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (told.stdout.strip(), told.returncode) == ("[7.]", 0), told.stderr
