"""Policies: pure functions over a view."""

from .ordering import attained_service, baselines, fair_queueing, static

__all__ = [
    "attained_service",
    "baselines",
    "fair_queueing",
    "static",
]  # imported so that the built-in orderings are registered
