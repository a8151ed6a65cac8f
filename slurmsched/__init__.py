"""The scheduler brain for GPU clusters that run stock Slurm."""

__version__ = "0.2.0.dev0"
