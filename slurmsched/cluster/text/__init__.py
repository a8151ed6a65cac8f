"""Parsers and writers of Slurm's texts: comments, host lists, TRES, options of sbatch."""
