"""Numbers with their nouns."""

from __future__ import annotations

from .gpu_types import NVIDIAS, GpuParts, is_mig, several


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 job``, ``2 jobs``, ``12,000 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def gpus_of_type(number: int, gpu_type: str = "", parts: GpuParts = NVIDIAS) -> str:
    """Write a number of GPUs of this type, several joined by ``+``; types that are parts of a GPU are slices."""
    types = several(gpu_type) if gpu_type else []
    if not types or not all(map(parts.is_slice, types)):
        return count(number, "GPU")
    return count(number, "MIG slice" if all(map(is_mig, types)) else "GPU slice")
