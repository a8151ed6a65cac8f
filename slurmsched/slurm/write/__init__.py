"""What may be sent to Slurm, how much of it, and by whom."""
