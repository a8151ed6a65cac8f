"""The machine of a figure: what hangs on a trained model may differ on another one, and is printed with its name."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import numpy as np


def machine() -> str:
    """The processor, how many of it, and the versions that training hangs on."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    name = found[1] if found else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} of it, Python {platform.python_version()}, NumPy {np.__version__}"
