"""Additive models (GA2M): sums of look-up tables."""
