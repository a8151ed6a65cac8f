"""Observe and act: the border to Slurm."""
