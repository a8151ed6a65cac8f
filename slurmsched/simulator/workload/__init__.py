"""Workloads: the jobs of a simulation as columns, and synthetic ones."""
