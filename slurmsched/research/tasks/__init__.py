"""Gangs of tasks on servers with GPUs, CPUs and network, in rounds (MLFS, CoNEXT'20, section 4.1)."""
