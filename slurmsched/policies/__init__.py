"""Policies: pure functions over a view."""

from . import admission, placement, preemption, sharing
from .ordering import attained_service, baselines, deadline, fair_queueing, static
from .selection import built_in

__all__ = [
    "admission",
    "attained_service",
    "baselines",
    "built_in",
    "deadline",
    "fair_queueing",
    "placement",
    "preemption",
    "sharing",
    "static",
]  # imported so that the built-in parts are registered
