"""The adapters of the port: Slurm's commands, pyslurm, and a fake in memory."""
