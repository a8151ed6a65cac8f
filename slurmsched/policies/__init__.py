"""Decide, the wishes: pure functions over a view."""
