"""Parsers of what Slurm prints."""
