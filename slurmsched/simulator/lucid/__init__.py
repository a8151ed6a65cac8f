"""Lucid (ASPLOS'23) in the simulator: what is known of jobs' GPU use, who shares GPUs, and when."""
