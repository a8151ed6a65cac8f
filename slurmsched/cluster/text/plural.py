"""Numbers with their nouns."""

from __future__ import annotations

import re

_SLICE = re.compile(r"(?:^|[^A-Za-z0-9])\d+g\.\d+gb", re.IGNORECASE)  # NVIDIA's names of profiles, as in a100_3g.40gb


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 job``, ``2 jobs``, ``12,000 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def gpus_of_type(number: int, gpu_type: str = "") -> str:
    """Write a number of GPUs of this type, several joined by ``+``; types named by a MIG profile are slices."""
    types = re.split(r"\+(?!me\b)", gpu_type) if gpu_type else []  # 1g.5gb+me is one type
    return count(number, "MIG slice" if types and all(map(_SLICE.search, types)) else "GPU")
