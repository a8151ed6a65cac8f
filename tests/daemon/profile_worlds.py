"""Records as nodes send them."""

from __future__ import annotations

from typing import Any

NOW_S = 1_800_000_000


FIGURES = ("gpu_util", "memory_util", "memory_mib", "power_w", "processes")


def figure(value: float, **changes: Any) -> dict[str, Any]:
    return (
        {"n": 90, "mean": value, "var": min(4.0, value), "max": value}
        | dict.fromkeys(("p5", "p50", "p95"), value)
        | changes
    )


def gpu(**changes: Any) -> dict[str, Any]:
    return {
        "uuid": "GPU-0",
        "name": "Scripted",
        "mig": False,
        "lost": False,
        "memory_total_mib": 81920,
        "samples": 100,
        "no_process": 10,
        "unstable": False,
        "gpu_util": figure(40.0),
        "memory_util": figure(20.0),
        "memory_mib": figure(4096.0),
        "power_w": figure(250.0),
        "processes": figure(1.0),
    } | changes


def record(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "job_id": 7,
        "restart": 0,
        "node": "n1",
        "uid": 1000,
        "start_s": NOW_S - 200,
        "end_s": NOW_S - 100,
        "every_s": 1.0,
        "hung": False,
        "gpus": [gpu()],
    } | changes
