"""Priority factors from sprio: the points that make up a pending job's priority."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...cluster.columns import IntArray, Labels, places_of
from ...cluster.jobs import JobTable
from .records import RecordColumns

FIELDS = {
    "%i": "job_id",
    "%Y": "priority",
    "%S": "site_points",
    "%A": "age_points",
    "%F": "fairshare_points",
    "%J": "size_points",
    "%P": "partition_points",
    "%Q": "qos_points",
    "%B": "assoc_points",
    "%T": "tres_points",
    "%N": "nice",
}
"""Formats of ``sprio -o`` (sprio(1)); nothing in them comes from a user, so nothing can be forged."""

SLACK = 8
"""Slurm adds the factors as fractions and shows each rounded: the sum may differ by one per factor."""


def with_factors(jobs: JobTable, columns: RecordColumns) -> JobTable:
    """Return *jobs* with the points of each factor; jobs that Slurm does not rank (held, not eligible) keep zeros.

    A priority that is not the sum of its factors was set by hand; multifactor no longer applies to that job.
    """
    numbers = {name: _numbers(columns[format_]) for format_, name in FIELDS.items()}
    if not len(numbers["job_id"]):
        return jobs
    at = places_of(jobs.job_id, numbers["job_id"], first=True)
    is_listed = at >= 0
    points: dict[str, Any] = {
        name: np.where(is_listed, numbers[name][at], 0) for name in numbers if name.endswith("_points")
    }
    total = sum(points.values()) - np.where(is_listed, numbers["nice"][at], 0)
    fixed = is_listed & (np.abs(numbers["priority"][at] - np.maximum(total, 1)) > SLACK)
    del points["assoc_points"]
    return jobs.changed(**points, fixed=fixed)


def _numbers(texts: list[str]) -> IntArray:
    try:
        return np.array(texts, dtype=np.int64)
    except (ValueError, OverflowError):
        column = Labels.of(texts)
        return column.map([_sum(text) for text in column.names], np.int64)


def _sum(text: str) -> int:
    """Parse a number, or sum numbers such as ``cpu=1,gres/gpu=20``."""
    return round(sum(float(part.rpartition("=")[2] or 0) for part in text.strip().split(",")))
