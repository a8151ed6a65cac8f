"""The interface to Slurm: observing the cluster and acting on it."""
