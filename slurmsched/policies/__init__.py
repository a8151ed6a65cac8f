"""Decide, the wishes: pure functions over a view."""

from . import baselines, ordering, queueing, service

__all__ = ["baselines", "ordering", "queueing", "service"]  # imported so that the built-in orderings are registered
