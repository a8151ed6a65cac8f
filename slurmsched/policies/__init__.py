"""Decide, the wishes: pure functions over a view."""

from . import ordering, queueing, service

__all__ = ["ordering", "queueing", "service"]  # imported so that the built-in orderings are registered
