"""Parsers of the output of Slurm's commands."""
