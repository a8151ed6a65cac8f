"""Decide, the wishes: pure functions over a view."""

from . import ordering, service

__all__ = ["ordering", "service"]  # imported so that the built-in orderings are registered
