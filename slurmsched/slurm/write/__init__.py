"""Writes to Slurm: the allowed commands, their rate, and the check that only the leader sends them."""
