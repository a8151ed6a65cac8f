"""Slurm's own spellings, read and written: comments, host lists, TRES, options of sbatch."""
