"""Plans are the same on processors with other vector units, and whatever the order in which Slurm shows jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from decide.processor_cycles import TENTHS, all_powers, lively_view, plans, tied
from numpy._core import _multiarray_umath as numpy_build

from slurmsched.cluster.actions import AskToStop
from slurmsched.decide.engine import decide
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.resizing import SIZE_DIVISIONS

TESTS = Path(__file__).parents[1]


def without_vector_units(cache: Path) -> dict[str, str]:
    """Return an environment of a plain processor: NumPy, Numba, its libraries for matrices and the C library obey.

    Code that Numba compiles for it is kept in *cache*.
    """
    has = numpy_build.__cpu_features__
    dispatched = [name for name in numpy_build.__cpu_dispatch__ if has.get(name)]
    return os.environ | {
        "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(cache),
        "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-AVX512F",
    }


def test_recorded_and_drawn_cycles_have_the_same_plans_on_a_processor_without_vector_units(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "decide.processor_cycles"],
        cwd=TESTS,
        env=without_vector_units(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    here, there = plans(), json.loads(done.stdout)
    assert list(there) == list(here)
    assert [name for name in here if here[name] != there[name]] == []


def test_a_tie_between_gain_and_loss_stops_no_job_whatever_its_speeds():
    for left_s in (600.0, 700.0, 3600.0):
        for doubling in TENTHS / 10.0:
            seen, rules = tied(left_s, float(doubling))
            assert not any(isinstance(one, AskToStop) for one in decide(seen, find_ordering("fifo"), rules).actions)


def test_the_order_of_rows_changes_no_order_of_jobs_and_stops_no_other_job():
    for seed in range(20):
        random = np.random.default_rng(seed)
        seen = lively_view(random)
        rows = random.permutation(len(seen.pending))
        for division in SIZE_DIVISIONS:
            rules = all_powers(division)
            one, other = (decide(view, find_ordering("srsf"), rules) for view in (seen, seen.take(rows)))
            assert one.jobs.rank[rows].tolist() == other.jobs.rank.tolist()
            assert one.jobs.runs[rows].tolist() == other.jobs.runs.tolist()
            assert set(map(str, one.actions)) == set(map(str, other.actions))
