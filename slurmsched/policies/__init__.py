"""Decide, the wishes: pure functions over a view."""

from . import ordering

__all__ = ["ordering"]  # imported so that the built-in orderings are registered
