"""From a policy's keys to an order of jobs, and to the priority points that make Slurm follow it."""
