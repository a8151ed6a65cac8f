"""Child processes that run as on a processor without vector units."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from numpy._core import _multiarray_umath as numpy_build


def without_vector_units() -> dict[str, str]:
    """Return an environment of a plain processor: NumPy, Numba, the library for matrices and the C library obey.

    Code that Numba compiles for it is kept beside that for this processor: the caches know for which one it is.
    """
    has = numpy_build.__cpu_features__
    dispatched = [name for name in numpy_build.__cpu_dispatch__ if has.get(name)]
    return os.environ | {
        "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-AVX512F",
        "OMP_NUM_THREADS": "2" if os.cpu_count() == 1 else "1",
        "OPENBLAS_NUM_THREADS": "2" if os.cpu_count() == 1 else "1",
    }


def printed_elsewhere(module: str, *words: str, compiles: bool = True) -> Any:
    """Return the JSON that *module* of the tests prints on a processor without vector units, with other threads.

    It is called with *words*. Unless it *compiles* for that processor, Python itself runs what Numba would compile: one
    operation after the other, as no vector unit does.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=Path(__file__).parent,
        env=without_vector_units() | ({} if compiles else {"NUMBA_DISABLE_JIT": "1"}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
