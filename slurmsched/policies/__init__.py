"""Policies: pure functions over a view."""

from . import admission, placement, preemption, sharing, stopping
from .ordering import attained_service, baselines, deadline, fair_queueing, hope, static
from .scaling import built_in as scaling
from .selection import built_in, capacity, leases, three_sigma

__all__ = [
    "admission",
    "attained_service",
    "baselines",
    "built_in",
    "capacity",
    "deadline",
    "fair_queueing",
    "hope",
    "leases",
    "placement",
    "preemption",
    "scaling",
    "sharing",
    "static",
    "stopping",
    "three_sigma",
]
