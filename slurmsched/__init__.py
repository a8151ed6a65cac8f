"""The scheduler brain for GPU clusters that run stock Slurm."""

__version__ = "0.1.0"
