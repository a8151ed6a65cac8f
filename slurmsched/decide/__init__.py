"""Decide: from a view and policies to a plan, under hard rules."""

from . import profiling_nodes

__all__ = ["profiling_nodes"]  # imported so that the built-in profiling is registered
