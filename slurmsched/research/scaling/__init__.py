"""Scaling: the GPUs of each job that trains, their nodes and type, and the CPUs, memory and batch that go with them."""
