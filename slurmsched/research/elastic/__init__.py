"""Elastic applications: work on any part of the GPUs they ask for, shared anew whenever one comes or ends."""
