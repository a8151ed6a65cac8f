"""Policies: pure functions over a view."""

from . import admission, placement, preemption, sharing, stopping
from .ordering import attained_service, chronus, deadline, fair_queueing, mlfs, mlfs_rl, static
from .selection import built_in, leases

__all__ = [
    "admission",
    "attained_service",
    "built_in",
    "chronus",
    "deadline",
    "fair_queueing",
    "leases",
    "mlfs",
    "mlfs_rl",
    "placement",
    "preemption",
    "sharing",
    "static",
    "stopping",
]
