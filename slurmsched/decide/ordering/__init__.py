"""Ordering: turn a policy's keys into an order of jobs, and into priority points that make Slurm follow it."""
