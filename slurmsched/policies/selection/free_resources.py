"""What is free on nodes."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.columns import FloatArray, IntArray


class FreeResources(NamedTuple):
    """Free resources per node; now, or at one step of a plan."""

    gpus: IntArray
    cpus: IntArray
    memory_mib: FloatArray
