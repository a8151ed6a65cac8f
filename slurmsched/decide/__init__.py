"""Decide: from a view and policies to a plan, under hard rules."""
