"""Scaling: the GPUs of each job that can use more or fewer of them."""
