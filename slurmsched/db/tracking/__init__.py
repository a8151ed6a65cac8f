"""Decisions, requests to Slurm and the history of each job, in the database."""
